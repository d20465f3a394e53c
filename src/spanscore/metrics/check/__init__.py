"""Checks: faults found without a model."""

from spanscore.metrics.check._check import Check, Finding, sharing_evidence

__all__ = ["Check", "Finding", "sharing_evidence"]
