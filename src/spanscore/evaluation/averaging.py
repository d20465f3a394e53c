"""Several runs of the rubric over one session: each score is the mean of what the runs gave."""

from collections.abc import Sequence
from dataclasses import replace

from spanscore.evaluation.evaluations import Graded
from spanscore.evaluation.measured import Measured
from spanscore.evaluation.rubric import OVERALL, Rubric
from spanscore.evaluation.spread import combined
from spanscore.model.score import JudgeUsage, Outcome, Score, reaches


def averaged(rubric: Rubric, runs: Sequence[list[Graded]]) -> list[Graded]:
    """One score for each metric, in the order of the first run; every run gave the same metrics.

    A criterion's label is that of the level nearest to the mean. The rubric as a whole passes by its mean, or, where
    expected outcomes decide, if most of its runs did.
    """
    if len(runs) == 1:
        return runs[0]
    return [_averaged(rubric, samples) for samples in zip(*runs, strict=True)]


def _averaged(rubric: Rubric, samples: Sequence[Graded]) -> Graded:
    first = samples[0]
    outcomes = [x.measured.outcome for x in samples]
    outcome = combined(outcomes, first.scale)
    if isinstance(outcome, Score):
        scored = [x for x in outcomes if isinstance(x, Score)]
        outcome = (
            _of_whole(outcome, scored, first) if first.metric == OVERALL else _of_criterion(outcome, rubric, first)
        )
    usage = sum((x.measured.usage for x in samples), JudgeUsage())
    return first._replace(measured=Measured(outcome, first.measured.evaluator, usage))


def _of_criterion(mean: Score, rubric: Rubric, graded: Graded) -> Outcome:
    criterion = next(x for x in rubric.criteria if x.metric == graded.metric)
    label = criterion.label(round(mean.value))
    passed = {"passed": label == "pass"} if "passed" in mean.metadata else {}
    return replace(mean, label=label, metadata={**mean.metadata, **passed})


def _of_whole(mean: Score, samples: Sequence[Score], graded: Graded) -> Outcome:
    if mean.metadata["decided_by"] == "threshold":
        passed = graded.threshold is not None and reaches(mean.value, graded.threshold)
    else:
        passed = 2 * sum(x.label == "pass" for x in samples) > len(samples)
    return replace(mean, label="pass" if passed else "fail", metadata={**mean.metadata, "passed": passed})
