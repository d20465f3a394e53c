"""The overall score of the rubric: the arithmetic over its criteria, and the sentences on what it
rests on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


def overall(rubric: Rubric, expected: Expected, findings: Findings, threshold: float) -> Outcome:
    """The overall score; `threshold` decides where no expected outcomes do."""
    failed = [
        x for x in (*findings.outcomes.values(), findings.unanswered) if isinstance(x, Failure)
    ]
    if failed:
        return failed[0]
    scores = {name: x for name, x in findings.outcomes.items() if isinstance(x, Score)}
    idle, skipped = _without_score(findings.outcomes)
    if idle and not scores and not skipped:
        return Skip(f"No criterion applies: {', '.join(idle)}.", cause="not_applicable")
    if expected.outcomes and findings.verdicts is None and scores:
        return Skip("Whether the expected outcomes hold needs a model.")
    weights = {x.criterion.id: x.weight for x in rubric.weighted}
    total = sum(weight for name, weight in weights.items() if name not in idle)
    covered = sum(weights[name] for name in scores)
    coverage = covered / total if total else 0.0
    if not covered or not reaches(coverage, _LEAST_COVERAGE):
        first = next(iter(skipped.values()), "They have no weight.")
        return Skip(
            f"Only {coverage:.0%} of the criteria's weight could be scored; not"
            f" {', '.join(skipped)}. {first}"
        )
    value = criterial.weighed((weights[name], score.value) for name, score in scores.items())
    verdicts = list(zip(expected.outcomes, findings.verdicts or (), strict=True))
    passed = all(x.passed for _, x in verdicts) if verdicts else reaches(value, threshold)
    facts = {
        "criteria": {
            name: {"score": int(x.value), "label": x.label, "weight": weights[name] / covered}
            for name, x in scores.items()
        },
        "coverage": coverage,
        "skipped": skipped,
        "not_applicable": idle,
        "passed": passed,
        **_of_expected(expected, verdicts),
    }
    if any("transcript_elided" in x.metadata for x in scores.values()):
        facts["transcript_elided"] = True
    return Score(
        value,
        " ".join(_sentences(scores, verdicts, skipped, coverage, idle)),
        facts,
        "pass" if passed else "fail",
    )


def _of_expected(
    expected: Expected, verdicts: Sequence[tuple[str, criterial.Verdict]]
) -> dict[str, Any]:
    """What the score's metadata contains of what the case expects, and of what decided."""
    facts: dict[str, Any] = {
        "decided_by": "expected_outcomes" if verdicts else "threshold",
        "expected_outcomes": [
            {"statement": statement, "passed": x.passed, "justification": x.justification}
            for statement, x in verdicts
        ],
    }
    if expected.emphasis:
        facts["evaluation_criteria_override"] = expected.emphasis
    return facts


def _without_score(outcomes: Mapping[str, Outcome]) -> tuple[dict[str, str], dict[str, str]]:
    """Why criteria have no score, by id: those that do not apply, whose weight goes to the others,
    and the skipped.
    """
    skips = {name: x for name, x in outcomes.items() if isinstance(x, Skip)}
    idle = {name: x.reason for name, x in skips.items() if x.cause == "not_applicable"}
    return idle, {name: x.reason for name, x in skips.items() if name not in idle}


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


def _sentences(
    scores: Mapping[str, Score],
    verdicts: Sequence[tuple[str, criterial.Verdict]],
    skipped: Mapping[str, str],
    coverage: float,
    idle: Mapping[str, str],
) -> Iterator[str]:
    """What the overall score rests on, in sentences."""
    if verdicts:
        unmet = [f"{statement} ({x.justification})" for statement, x in verdicts if not x.passed]
        yield from (f"Does not hold: {text}." for text in unmet)
        yield f"{len(verdicts) - len(unmet)} of {len(verdicts)} expected outcomes hold."
    yield from _worst_first(scores)
    if skipped:
        yield f"Not scored: {', '.join(skipped)}; {coverage:.0%} of the weight was."
    if idle:
        yield f"Not applicable: {', '.join(idle)}."
