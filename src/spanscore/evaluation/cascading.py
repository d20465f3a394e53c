"""A cheaper model before the judge's own: which of its outcomes are in doubt, and what the scores
say of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spanscore.evaluation.asking import digest
from spanscore.evaluation.evaluations import Graded
from spanscore.evaluation.measured import Measured
from spanscore.evaluation.models_named import named
from spanscore.evaluation.rubric import OVERALL, Rubric
from spanscore.judge.config import Cascade
from spanscore.model.score import Evaluator, Failure, Outcome, Score


def in_doubt(outcome: Outcome | None, band: tuple[float, float]) -> bool:
    """Whether the first model leaves it open: its score lies in the band, or there is none.

    A Skip, such as that a criterion does not apply, is no doubt.

    >>> in_doubt(Score(0.4, "half of it"), (0.3, 0.6))
    True
    """
    if isinstance(outcome, Score):
        low, high = band
        return low <= outcome.value <= high
    return outcome is None or isinstance(outcome, Failure)


def kept(model: str | None) -> Mapping[str, Any]:
    """What is on a score of the first model that stands."""
    return {"cascade": {"escalated": False, "model": model}}


def escalated(
    model: str | None,
    first_model: str | None,
    first: Outcome | None,
    band: tuple[float, float] | None,
) -> Mapping[str, Any]:
    """What is on a score of `model`, which was asked after the first model; `band` None: another
    score's was in doubt.
    """
    value = first.value if isinstance(first, Score) else None
    facts = {"escalated": True, "model": model, "first": {"model": first_model, "value": value}}
    return {"cascade": facts if band is None else {**facts, "unsure": list(band)}}


class RubricCascade:
    """The cascade of a run of the rubric, whose scores are of one call and so of one model."""

    def __init__(self, cascade: Cascade, rubric: Rubric) -> None:
        self._bands = cascade.unsure
        self.first = replace(rubric, model=cascade.model)
        """What the first model is asked."""

    def is_in_doubt(self, found: Sequence[Graded]) -> bool:
        """Whether a score of the first model with a band is in doubt."""
        return any(
            x.metric in self._bands and in_doubt(x.measured.outcome, self._bands[x.metric])
            for x in found
        )

    def kept(self, found: Sequence[Graded]) -> list[Graded]:
        """The first model's scores, which stand."""
        return [_noted(x, kept(x.measured.evaluator.model)) for x in found]

    def escalated(self, first: Sequence[Graded], better: Sequence[Graded]) -> list[Graded]:
        """The better model's scores, with what the first model gave and cost."""
        return [self._escalated(*pair) for pair in zip(first, better, strict=True)]

    def _escalated(self, first: Graded, better: Graded) -> Graded:
        outcome, evaluator, usage = better.measured
        facts = escalated(
            evaluator.model,
            first.measured.evaluator.model,
            first.measured.outcome,
            self._bands.get(first.metric),
        )
        measured = Measured(
            outcome, _of_both(first.measured, evaluator), first.measured.usage + usage
        )
        return _noted(better._replace(measured=measured), facts)


def cascade_of(cascade: Cascade | None, rubric: Rubric) -> RubricCascade | None:
    """The cascade for a run of the rubric; None where no score that it gives has a band, or where
    the run names its model.
    """
    if cascade is None or rubric.model is not None:
        return None
    scores = {OVERALL, *(x.metric for x in rubric.criteria)}
    has_band = any(x in scores and rubric.gives(x) for x in cascade.unsure)
    return RubricCascade(cascade, rubric) if has_band else None


def _of_both(first: Measured, evaluator: Evaluator) -> Evaluator:
    """The better model's evaluator, with the first model's before it where that one answered."""
    before = first.evaluator
    if isinstance(first.outcome, Failure) or before.model is None or evaluator.model is None:
        return evaluator
    hashed = digest([before.prompt_hash, evaluator.prompt_hash])
    return replace(evaluator, model=named([before.model, evaluator.model]), prompt_hash=hashed)


def _noted(graded: Graded, facts: Mapping[str, Any]) -> Graded:
    outcome = graded.measured.outcome
    if not isinstance(outcome, Score):
        return graded
    noted = replace(outcome, metadata={**outcome.metadata, **facts})
    return graded._replace(measured=graded.measured._replace(outcome=noted))
