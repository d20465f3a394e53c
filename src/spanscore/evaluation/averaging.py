"""Several runs of the rubric over one session: each score is the mean of what the runs gave."""

from collections.abc import Sequence
from dataclasses import replace

from spanscore.evaluation.asking import digest
from spanscore.evaluation.evaluations import Graded
from spanscore.evaluation.measured import Measured
from spanscore.evaluation.models_named import named
from spanscore.evaluation.rubric import OVERALL, Rubric
from spanscore.evaluation.spread import combined
from spanscore.model.score import Evaluator, JudgeUsage, Outcome, Score, reaches


def averaged(rubric: Rubric, runs: Sequence[list[Graded]]) -> list[Graded]:
    """One score for each metric, in the order of the first run; every run gave the same metrics.

    A criterion's label is that of the level nearest to the mean. The rubric as a whole passes by
    its mean, or, where expected outcomes decide, if most of its runs did.
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
            _of_whole(outcome, scored, first)
            if first.metric == OVERALL
            else _of_criterion(outcome, rubric, first)
        )
    usage = sum((x.measured.usage for x in samples), JudgeUsage())
    return first._replace(measured=Measured(outcome, _evaluator(samples), usage))


def _evaluator(samples: Sequence[Graded]) -> Evaluator:
    """That of the first, with the models of all whose scores are averaged."""
    scored = [x.measured.evaluator for x in samples if isinstance(x.measured.outcome, Score)]
    models = dict.fromkeys(x.model for x in scored if x.model is not None)
    first = samples[0].measured.evaluator
    if not models:
        return first
    hashes = dict.fromkeys(x.prompt_hash for x in scored if x.prompt_hash is not None)
    prompt_hash = next(iter(hashes)) if len(hashes) == 1 else digest(list(hashes))
    return replace(first, model=named(models), prompt_hash=prompt_hash)


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
    return replace(
        mean, label="pass" if passed else "fail", metadata={**mean.metadata, "passed": passed}
    )
