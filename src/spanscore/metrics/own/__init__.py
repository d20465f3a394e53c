"""Custom metrics: functions, and criteria in plain words."""

from spanscore.metrics.own.criteria import CriterionMetric, SessionCriterionMetric, criterion
from spanscore.metrics.own.functions import FunctionMetric, metric
from spanscore.metrics.own.registry import metric_of, name_of, register, registered

__all__ = [
    "CriterionMetric",
    "FunctionMetric",
    "SessionCriterionMetric",
    "criterion",
    "metric",
    "metric_of",
    "name_of",
    "register",
    "registered",
]
