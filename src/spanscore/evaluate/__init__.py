"""Which metrics run on what, in which order, and what becomes of their errors."""

from spanscore.evaluate.config import Config, Overrides
from spanscore.evaluate.engine import Engine
from spanscore.evaluate.measuring import MAX_EARLIER_TURNS
from spanscore.evaluate.planning import PlannedCall

__all__ = ["MAX_EARLIER_TURNS", "Config", "Engine", "Overrides", "PlannedCall"]
