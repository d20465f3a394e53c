"""What a run could not score, told once and not once for each trace, and whether its judge gave no
score at all.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from spanscore.cli.terminal import on_one_line
from spanscore.evaluation.rubric import is_rubric
from spanscore.metrics import Judged, available
from spanscore.model.score import Evaluation, Skip, SkipCause
from spanscore.offline.summary import Counted

_NOT_SET_UP: tuple[SkipCause, ...] = ("no_judge", "no_embedding")
_MAX_CHARS = 500
_MAX_NAMES = 12


def print_unscored(outcomes: Sequence[Counted], *, but: SkipCause | None = None) -> None:
    """Say on standard error what could not be scored, but for what was skipped for the cause
    `but`.
    """
    nothing = no_score(outcomes)
    shown = [x for x in outcomes if but is None or _cause_of(x.evaluation) != but]
    for line in (*notices(shown), *([nothing] if nothing else [])):
        print(f"spanscore: {line}", file=sys.stderr)


def is_not_set_up(evaluation: Evaluation) -> bool:
    """Whether it was skipped for want of a judge or an embedding, as it is for every trace."""
    return isinstance(evaluation.outcome, Skip) and evaluation.outcome.cause in _NOT_SET_UP


def notices(outcomes: Sequence[Counted]) -> list[str]:
    """What is missing, a line for each cause."""
    found = []
    for cause in _NOT_SET_UP:
        of_cause = [x.evaluation for x in _skipped(outcomes, cause)]
        if of_cause:
            found.append(f"{_names(of_cause)} skipped: {_short(_of_all(of_cause))}")
    if over_budget := _skipped(outcomes, "budget"):
        reason = over_budget[0].evaluation.reason
        found.append(f"{_scores(_count(over_budget))} skipped: {_short(reason)}")
    failed = [x for x in outcomes if x.evaluation.status == "failed"]
    if failed and no_score(outcomes) is None:
        found.append(f"{_failed(_count(failed))}, most of them so: {_most_common(failed)}")
    return found


def no_score(outcomes: Sequence[Counted]) -> str | None:
    """Why the run is no success where all that a model was to judge failed; None where anything was
    judged.
    """
    judged = [x for x in outcomes if _is_judged(x.evaluation)]
    failed = [x for x in judged if x.evaluation.status == "failed"]
    if not failed or any(_is_scored_by_a_model(x.evaluation) for x in judged):
        return None
    most = "" if len({x.evaluation.reason for x in failed}) == 1 else ", most of them so"
    return (
        f"the judge gave no score: all {_count(failed)} judged scores failed{most}:"
        f" {_most_common(failed)}; `spanscore doctor` says what to do"
    )


def _is_judged(evaluation: Evaluation) -> bool:
    metric = available().get(evaluation.metric)
    if evaluation.evaluator.kind == "LLM":
        return True
    return is_rubric(evaluation.metric) or (metric is not None and issubclass(metric, Judged))


def _is_scored_by_a_model(evaluation: Evaluation) -> bool:
    return evaluation.status == "scored" and evaluation.evaluator.kind == "LLM"


def _cause_of(evaluation: Evaluation) -> SkipCause | None:
    return evaluation.outcome.cause if isinstance(evaluation.outcome, Skip) else None


def _count(outcomes: Iterable[Counted]) -> int:
    return sum(x.count for x in outcomes)


def _skipped(outcomes: Iterable[Counted], cause: SkipCause) -> list[Counted]:
    return [x for x in outcomes if _cause_of(x.evaluation) == cause]


def _of_all(skipped: Sequence[Evaluation]) -> str:
    """The reason of the first, in which its metric stands for all of them."""
    [first, *_] = skipped
    alone = len({x.metric for x in skipped}) == 1
    return (
        first.reason if alone else first.reason.replace(f" judges {first.metric}:", " judges them:")
    )


def _names(evaluations: Iterable[Evaluation]) -> str:
    names = list(dict.fromkeys(x.metric for x in evaluations))
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more} {'is' if len(names) == 1 else 'are'}"


def _scores(count: int) -> str:
    return "1 score is" if count == 1 else f"{count:,} scores are"


def _failed(count: int) -> str:
    return "1 score failed" if count == 1 else f"{count:,} scores failed"


def _most_common(failed: Iterable[Counted]) -> str:
    by_reason = Counter[str]()
    for x in failed:
        by_reason[x.evaluation.reason] += x.count
    return _short(by_reason.most_common(1)[0][0])


def _short(text: str) -> str:
    return on_one_line(text, _MAX_CHARS)
