"""Metrics run on traces and sessions."""

from spanscore.evaluation.config import Config, Overrides
from spanscore.evaluation.engine import Engine
from spanscore.evaluation.inquiry import PlannedCall
from spanscore.evaluation.measurement import MAX_EARLIER_BYTES, MAX_EARLIER_TURNS
from spanscore.evaluation.procedure import Unscored

__all__ = [
    "MAX_EARLIER_BYTES",
    "MAX_EARLIER_TURNS",
    "Config",
    "Engine",
    "Overrides",
    "PlannedCall",
    "Unscored",
]
