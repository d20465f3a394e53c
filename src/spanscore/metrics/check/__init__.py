"""Checks: faults found without a model."""

from spanscore.metrics.check._check import Check, Evidence, Finding

__all__ = ["Check", "Evidence", "Finding"]
