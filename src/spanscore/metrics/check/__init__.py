"""Checks: faults found without a model."""

from spanscore.metrics.check._check import Check, EarlierTurnsNeededError, Evidence, Finding

__all__ = ["Check", "EarlierTurnsNeededError", "Evidence", "Finding"]
