"""In which order the evaluations of one subject matter, and how all of its metrics came out."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from spanscore.model.record import changed
from spanscore.model.score import Evaluation, Failure, Result, ScopeKind, Score, Tally

_Subject: TypeAlias = tuple[ScopeKind, str]

_USUAL_WEIGHT = 1.0


def tallied(
    new: Sequence[Evaluation],
    before: Iterable[Evaluation],
    weights: Mapping[str, float],
    *,
    run: ScopeKind | None = None,
) -> list[Evaluation]:
    """`new` with ranks, and the first of each subject with the tally; those of one subject follow
    one another.

    `before` are the newest evaluations of the same subjects so far. What failed ranks first, then
    by weight, then in the order of `new`. `run` is what was evaluated: a session's run measures
    single metrics of its traces too, and these have a tally only where it differs from the one
    before in what failed. None: both were.
    """
    known: dict[_Subject, dict[str, Evaluation]] = {}
    for evaluation in before:
        known.setdefault(_subject(evaluation), {})[evaluation.metric] = evaluation
    found: list[Evaluation] = []
    for subject, some in groupby(sorted(new, key=_subject), key=_subject):
        ranked = _by_rank(list(some), weights)
        old = known.get(subject, {})
        whole = [*{**old, **{x.metric: x for x in ranked}}.values()] if old else ranked
        is_news = run in {None, subject[0]} or _unfavourable(whole) != _unfavourable(old.values())
        if ranked[0].is_shown and is_news:
            now = _by_rank(whole, weights) if old else ranked
            tally = _tally([*old.values()], now, ranked[0].revision)
            if tally.results or tally.supersedes:
                ranked[0] = changed(ranked[0], tally=tally)
        found += [x if x.rank == rank else changed(x, rank=rank) for rank, x in enumerate(ranked)]
    return found


def _subject(evaluation: Evaluation) -> _Subject:
    return evaluation.scope, evaluation.subject_id


def _by_rank(evaluations: Sequence[Evaluation], weights: Mapping[str, float]) -> list[Evaluation]:
    return sorted(evaluations, key=lambda x: (_urgency(x), -weights.get(x.metric, _USUAL_WEIGHT)))


def _urgency(evaluation: Evaluation) -> int:
    """0 for what a reader should see first."""
    if not isinstance(evaluation.outcome, Score):
        return 1 if evaluation.is_shown else 4
    return {"fail": 0, "pass": 3}.get(evaluation.label or "", 2)


def _tally(before: Sequence[Evaluation], now: Iterable[Evaluation], revision: int) -> Tally:
    latest = max(
        (x for x in before if x.tally), key=lambda x: (x.revision, x.evaluated_at_ns), default=None
    )
    if latest is None or latest.tally is None:
        return Tally(_results(now))
    is_same = latest.revision == revision
    return Tally(_results(now), latest.tally_uid, latest.tally.label, is_same)


def _results(evaluations: Iterable[Evaluation]) -> tuple[Result, ...]:
    return tuple(_result(x) for x in evaluations if isinstance(x.outcome, Score | Failure))


def _result(evaluation: Evaluation) -> Result:
    return Result(
        evaluation.metric,
        evaluation.value,
        evaluation.label,
        evaluation.threshold,
        _problem(evaluation),
    )


def _unfavourable(evaluations: Iterable[Evaluation]) -> set[tuple[str, str | None]]:
    """What a reader of a tally would act on: metrics that failed, and the types of errors."""
    return {
        (x.metric, _problem(x))
        for x in evaluations
        if isinstance(x.outcome, Failure) or x.label == "fail"
    }


def _problem(evaluation: Evaluation) -> str | None:
    return evaluation.outcome.type if isinstance(evaluation.outcome, Failure) else None
