"""Checks: what can be seen in a trace without a model, one fault a file."""

from spanscore.metrics.check._check import Check, Finding, sharing_evidence

__all__ = ["Check", "Finding", "sharing_evidence"]
