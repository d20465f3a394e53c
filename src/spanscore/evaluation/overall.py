"""The overall score of the rubric: the arithmetic over its criteria, and the sentences on what it
rests on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from spanscore.evaluation.rubric import Rubric
from spanscore.metrics import rubric as criterial
from spanscore.metrics.rubric import Expected
from spanscore.model.score import Evaluator, Failure, JudgeUsage, Outcome, Score, Skip, reaches

_LEAST_COVERAGE = 0.5
_NOTHING_SPENT = JudgeUsage()


@dataclass(frozen=True, slots=True)
class Findings:
    """What came of the criteria, by id; of the expected outcomes, None where nobody looked; who
    judged.

    `unanswered`: why the judge gave no answer on the expected outcomes though it was asked.
    """

    outcomes: Mapping[str, Outcome]
    verdicts: Sequence[criterial.Verdict] | None
    evaluator: Evaluator
    usage: JudgeUsage = _NOTHING_SPENT
    unanswered: Failure | None = None


@dataclass(frozen=True, slots=True)
class _Weighed:
    """The criteria by what came of them, each by its id, with the weights of all."""

    scores: Mapping[str, Score]
    skipped: Mapping[str, str]
    """Why no score could be had."""

    idle: Mapping[str, str]
    """Why it does not apply: its weight goes to the others."""

    weights: Mapping[str, float]

    @property
    def covered(self) -> float:
        """The weight of the criteria with a score."""
        return sum(self.weights[name] for name in self.scores)

    @property
    def coverage(self) -> float:
        """The share of the weight that has a score, of the criteria that apply."""
        total = sum(weight for name, weight in self.weights.items() if name not in self.idle)
        return self.covered / total if total else 0.0

    @property
    def value(self) -> float:
        """The weighted mean of the scores."""
        return criterial.weighed(
            (self.weights[name], score.value) for name, score in self.scores.items()
        )


_Verdicts: TypeAlias = Sequence[tuple[str, criterial.Verdict]]
"""Expected outcomes, each with the judge's verdict."""


def overall(rubric: Rubric, expected: Expected, findings: Findings, threshold: float) -> Outcome:
    """The overall score; `threshold` decides where no expected outcomes do."""
    for outcome in (*findings.outcomes.values(), findings.unanswered):
        if isinstance(outcome, Failure):
            return outcome
    weighed = _by_outcome(rubric, findings.outcomes)
    skip = _skip(weighed, is_unjudged=bool(expected.outcomes) and findings.verdicts is None)
    if skip is not None:
        return skip
    verdicts = list(zip(expected.outcomes, findings.verdicts or (), strict=True))
    if verdicts:
        passed = all(verdict.passed for _, verdict in verdicts)
    else:
        passed = reaches(weighed.value, threshold)
    return Score(
        weighed.value,
        " ".join(_sentences(weighed, verdicts)),
        {**_of_criteria(weighed), "passed": passed, **_of_expected(expected, verdicts)}
        | _of_transcripts(weighed.scores.values()),
        "pass" if passed else "fail",
    )


def _by_outcome(rubric: Rubric, outcomes: Mapping[str, Outcome]) -> _Weighed:
    """The criteria, which have no failure among them, by what came of them."""
    scores: dict[str, Score] = {}
    skipped: dict[str, str] = {}
    idle: dict[str, str] = {}
    for name, outcome in outcomes.items():
        if isinstance(outcome, Score):
            scores[name] = outcome
        elif isinstance(outcome, Skip) and outcome.cause == "not_applicable":
            idle[name] = outcome.reason
        elif isinstance(outcome, Skip):
            skipped[name] = outcome.reason
    weights = {weighted.criterion.id: weighted.weight for weighted in rubric.weighted}
    return _Weighed(scores, skipped, idle, weights)


def _skip(weighed: _Weighed, *, is_unjudged: bool) -> Skip | None:
    """Why there is no overall score; None where there is one.

    `is_unjudged`: expected outcomes are stated, and nobody looked whether they hold.
    """
    if weighed.idle and not weighed.scores and not weighed.skipped:
        return Skip(f"No criterion applies: {', '.join(weighed.idle)}.", cause="not_applicable")
    if is_unjudged and weighed.scores:
        return Skip("Whether the expected outcomes hold needs a model.")
    if weighed.covered and reaches(weighed.coverage, _LEAST_COVERAGE):
        return None
    first = next(iter(weighed.skipped.values()), "They have no weight.")
    return Skip(
        f"Only {weighed.coverage:.0%} of the criteria's weight could be scored; not"
        f" {', '.join(weighed.skipped)}. {first}"
    )


def _of_criteria(weighed: _Weighed) -> dict[str, Any]:
    """What the score's metadata contains of the criteria."""
    return {
        "criteria": {
            name: {
                "score": int(score.value),
                "label": score.label,
                "weight": weighed.weights[name] / weighed.covered,
            }
            for name, score in weighed.scores.items()
        },
        "coverage": weighed.coverage,
        "skipped": weighed.skipped,
        "not_applicable": weighed.idle,
    }


def _of_transcripts(scores: Iterable[Score]) -> dict[str, Any]:
    """What the score's metadata contains where the judge read a transcript with gaps."""
    if any("transcript_elided" in score.metadata for score in scores):
        return {"transcript_elided": True}
    return {}


def _of_expected(expected: Expected, verdicts: _Verdicts) -> dict[str, Any]:
    """What the score's metadata contains of what the case expects, and of what decided."""
    facts: dict[str, Any] = {
        "decided_by": "expected_outcomes" if verdicts else "threshold",
        "expected_outcomes": [
            {
                "statement": statement,
                "passed": verdict.passed,
                "justification": verdict.justification,
            }
            for statement, verdict in verdicts
        ],
    }
    if expected.emphasis:
        facts["evaluation_criteria_override"] = expected.emphasis
    return facts


def _worst_first(scores: Mapping[str, Score]) -> Iterator[str]:
    """Each criterion's score; those that are not acceptable first, with the judge's
    justification.
    """
    ordered = sorted(scores.items(), key=lambda x: x[1].value)
    given = {name: f"{name} {score.value:.0f} ({score.label})" for name, score in ordered}
    bad = [name for name, score in ordered if score.value < criterial.ACCEPTABLE]
    yield from (f"{given[name]}: {scores[name].reason}" for name in bad)
    if fine := [text for name, text in given.items() if name not in bad]:
        yield f"{', '.join(fine)}."


def _sentences(weighed: _Weighed, verdicts: _Verdicts) -> Iterator[str]:
    """What the overall score rests on, in sentences."""
    if verdicts:
        unmet = [
            f"{statement} ({verdict.justification})"
            for statement, verdict in verdicts
            if not verdict.passed
        ]
        yield from (f"Does not hold: {text}." for text in unmet)
        yield f"{len(verdicts) - len(unmet)} of {len(verdicts)} expected outcomes hold."
    yield from _worst_first(weighed.scores)
    if weighed.skipped:
        yield f"Not scored: {', '.join(weighed.skipped)}; {weighed.coverage:.0%} of the weight was."
    if weighed.idle:
        yield f"Not applicable: {', '.join(weighed.idle)}."
