"""Scores that come by OTLP."""

from spanscore.received_scores.external import may_hold, read as read_external
from spanscore.received_scores.own import EMITTED, is_own, read as read_own

__all__ = ["EMITTED", "is_own", "may_hold", "read_external", "read_own"]
