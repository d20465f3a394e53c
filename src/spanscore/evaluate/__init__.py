"""Which metrics run on what, in which order, and what becomes of their errors."""

from spanscore.evaluate.config import Config, Overrides
from spanscore.evaluate.engine import Engine, JudgePlan
from spanscore.evaluate.planning import PlannedCall

__all__ = ["Config", "Engine", "JudgePlan", "Overrides", "PlannedCall"]
