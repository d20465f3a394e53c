"""The criteria of the rubric judge, one file each; how they are asked about in one call, and how they add up."""

from spanscore.metrics.rubric._asking import (
    INSTRUCTIONS,
    Finding,
    Verdict,
    answer_schema,
    findings,
    question,
    verdicts,
)
from spanscore.metrics.rubric._criterion import (
    ACCEPTABLE,
    PREFIX,
    Criterial,
    Criterion,
    RubricMetric,
    needs_a_model,
    weighed,
)
from spanscore.metrics.rubric._turns import evidence_of

__all__ = [
    "ACCEPTABLE",
    "INSTRUCTIONS",
    "PREFIX",
    "Criterial",
    "Criterion",
    "Finding",
    "RubricMetric",
    "Verdict",
    "answer_schema",
    "evidence_of",
    "findings",
    "needs_a_model",
    "question",
    "verdicts",
    "weighed",
]
