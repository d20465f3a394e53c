"""The criteria of the rubric judge, one file each; how they are asked about in one call, and how
they add up.
"""

from spanscore.metrics.rubric._criteria import (
    ACCEPTABLE,
    INSTRUCTIONS,
    NOTHING_EXPECTED,
    OUTCOMES,
    PREFIX,
    CriteriaAnswers,
    Criterial,
    Criterion,
    Expected,
    Finding,
    RubricMetric,
    Verdict,
    answer_schema,
    outcomes_of,
    question,
    valid_outcomes,
    weighed,
)

__all__ = [
    "ACCEPTABLE",
    "INSTRUCTIONS",
    "NOTHING_EXPECTED",
    "OUTCOMES",
    "PREFIX",
    "CriteriaAnswers",
    "Criterial",
    "Criterion",
    "Expected",
    "Finding",
    "RubricMetric",
    "Verdict",
    "answer_schema",
    "outcomes_of",
    "question",
    "valid_outcomes",
    "weighed",
]
