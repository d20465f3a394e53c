"""The rubric's overall score, 0 to 100."""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import Threshold
from spanscore.metrics.rubric._criteria import RubricMetric


@dataclass(frozen=True)
class Overall(RubricMetric):
    """All selected criteria as one number: 100 x the sum of weight x score / 5, the weights brought
    to a sum of 1.

    The criteria that do not apply to the session, and those that were skipped, are left out and the
    weights of the others brought to a sum of 1 again; `coverage` in the metadata is the share of
    the weight of those that apply that was scored, and below one half there is no overall score. A
    criterion that failed fails the overall score. The label is `pass` from
    `evaluation.rubric.pass_threshold` on; where a test case states expected outcomes, it is `pass`
    when all of them hold. Metadata: `criteria` {id: {`score`, `label`, `weight`}}, `coverage`,
    `skipped` and `not_applicable` {id: reason}, `passed`, `decided_by`, `expected_outcomes`
    [{`statement`, `passed`, `justification`}].

    >>> Overall().threshold
    75.0
    """

    name: ClassVar[str] = "rubric.overall"
    summary: ClassVar[str] = "How good is the whole, by the weighted criteria of the rubric?"
    scale: ClassVar[tuple[float, float]] = (0.0, 100.0)

    threshold: Threshold = 75.0
