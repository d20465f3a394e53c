"""The criteria of the rubric judge, one file each; how they are asked about in one call, and how they add up."""

from spanscore.metrics.rubric._asking import (
    INSTRUCTIONS,
    OUTCOMES,
    Finding,
    Said,
    Verdict,
    answer_schema,
    question,
    said,
    said_in_part,
)
from spanscore.metrics.rubric._criterion import (
    ACCEPTABLE,
    PREFIX,
    Criterial,
    Criterion,
    RubricMetric,
    weighed,
)

__all__ = [
    "ACCEPTABLE",
    "INSTRUCTIONS",
    "OUTCOMES",
    "PREFIX",
    "Criterial",
    "Criterion",
    "Finding",
    "RubricMetric",
    "Said",
    "Verdict",
    "answer_schema",
    "question",
    "said",
    "said_in_part",
    "weighed",
]
