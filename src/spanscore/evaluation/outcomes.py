"""Outcomes of metrics, with their evaluator and cost."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from numbers import Real
from pathlib import PurePath
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from spanscore.errors import (
    BudgetExhaustedError,
    EmbeddingError,
    JudgeError,
    JudgeTimeoutError,
    JudgeUnavailableError,
    SpanscoreError,
)
from spanscore.judge.marks import without_word
from spanscore.metrics import Metric
from spanscore.model.score import (
    Evaluation,
    Evaluator,
    Failure,
    JudgeUsage,
    Outcome,
    Result,
    ScopeKind,
    Score,
    Skip,
    Tally,
)
from spanscore.model.span import changed
from spanscore.model.trace import AgentTrace, Session
from spanscore.telemetry.logs import Complaints

_COMPLAINTS = Complaints(time.time_ns)
"""By the line that raises, for all in the process: a judge that is down fails each trace."""

_NO_USAGE = JudgeUsage()


class Attempt:
    """A block in which `outcome` is to be set; an exception ends the block and sets it to a Failure
    (or a Skip).

    The exception itself is then `error`.

    >>> with Attempt("coherence") as attempt:
    ...     raise BudgetExhaustedError("the judge's budget of this hour is spent")
    >>> attempt.outcome
    Skip(reason="the judge's budget of this hour is spent", cause='budget')
    """

    __slots__ = ("_what", "error", "outcome", "usage")

    def __init__(self, what: str) -> None:
        """`what` is being measured, as a log line names it."""
        self._what = what
        self.error: Exception | None = None
        self.outcome: Outcome | None = None
        self.usage = _NO_USAGE

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):  # cancellation and interruption go on
            return False
        self.error, self.outcome = error, failed(self._what, error)
        if isinstance(error, JudgeError):
            self.usage += spent_on(error)
        return True


def failed(what: str, error: Exception) -> Skip | Failure:
    """The outcome of `what` is being measured, where that raised; logs what nobody foresaw."""
    if not isinstance(error, SpanscoreError):
        _COMPLAINTS.complain(
            _raised_at(error), f"{what} raised {type(error).__name__}", error=error
        )
    return outcome_of(error)


def _raised_at(error: Exception) -> str:
    """The file and line that raised."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return (
        ""
        if last is None
        else f"{PurePath(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
    )


def outcome_of(error: Exception) -> Skip | Failure:
    """A Skip where the budget is spent, since that is nobody's error; else a Failure, with the
    error's notes.
    """
    if isinstance(error, BudgetExhaustedError):
        return Skip(str(error), "budget")
    return Failure(
        type(error).__name__,
        " ".join([str(error) or "no message", *getattr(error, "__notes__", ())]),
    )


class Measured(NamedTuple):
    """An outcome with who measured it, and what that cost."""

    outcome: Outcome
    evaluator: Evaluator
    usage: JudgeUsage = JudgeUsage()


def given(outcome: Outcome | None, source: str = "the metric") -> Outcome:
    """`outcome`; where `source` is broken and gave neither an outcome nor an error, that is its
    Failure.
    """
    return (
        outcome if outcome is not None else Failure("NoOutcomeError", f"{source} gave no outcome")
    )


@lru_cache(maxsize=256)  # the same few for every trace
def no_judge(name: str) -> Skip:
    """The outcome of `name`, which asks a judge, where there is none: a Skip with how to get
    one.
    """
    return Skip(
        f"No model judges {name}: set judge.model or SPANSCORE_JUDGE_MODEL to one, such as"
        " openai/gpt-4o-mini, and give its provider's key. What can be seen without a model, the"
        " checks see (docs/checks.md).",
        cause="no_judge",
    )


def spent_on(error: JudgeError) -> JudgeUsage:
    """What a call of the judge cost that ended in `error`."""
    return error.usage if isinstance(error.usage, JudgeUsage) else JudgeUsage()


def shares(usage: JudgeUsage, count: int) -> list[JudgeUsage]:
    """`usage` in `count` parts as equal as whole numbers allow, whose sum it is: what a shared call
    costs each metric.

    >>> [x.input_tokens for x in shares(JudgeUsage(calls=1, input_tokens=11), 3)]
    [4, 4, 3]
    """

    def part(total: int, place: int) -> int:
        return total // count + (place < total % count)

    cost_usd = None if usage.cost_usd is None else usage.cost_usd / count
    return [
        JudgeUsage(
            part(usage.calls, place),
            part(usage.input_tokens, place),
            part(usage.output_tokens, place),
            cost_usd,
            part(usage.cached, place),
        )
        for place in range(count)
    ]


_ROUNDING = 1e-9


def valued(outcome: Outcome, metric: str, scale: tuple[float, float]) -> Outcome:
    """`outcome`, with its value as a float; a Failure where the value is no number on `scale`.

    What binary floats add up to beyond an end of the scale is that end.

    >>> valued(Score(True, "fine"), "mine", (0.0, 1.0)).message
    'mine gave the value True, which is no score: a score is a finite number from 0 to 1'
    >>> valued(Score(1, "fine"), "mine", (0.0, 1.0)).value
    1.0
    """
    if not isinstance(outcome, Score):
        return outcome
    low, high = scale
    given: object = outcome.value
    if type(given) is float and low <= given <= high:
        return outcome
    number = float(given) if isinstance(given, Real) and not isinstance(given, bool) else math.nan
    if not low - _ROUNDING <= number <= high + _ROUNDING:
        shown = repr(given)[:80]
        message = (
            f"{metric} gave the value {shown}, which is no score: a score is a finite number from"
            f" {low:g} to {high:g}"
        )
        return Failure("InvalidScoreError", message)
    return replace(outcome, value=min(max(number, low), high))


_BETWEEN = ", "


def named(models: Iterable[str]) -> str:
    """Each model once, in the order in which they answered, with a comma and a blank in between.

    >>> named(["openai/gpt-4o-mini", "openai/gpt-4o", "openai/gpt-4o-mini"])
    'openai/gpt-4o-mini, openai/gpt-4o'
    """
    return _BETWEEN.join(dict.fromkeys(models))


class Graded(NamedTuple):
    """What was measured under the name of a metric, on a scale; `threshold` None: its score gets no
    label.
    """

    metric: str
    scale: tuple[float, float]
    threshold: float | None
    measured: Measured


def graded(metric: Metric, measured: Measured) -> Graded:
    """What was measured of `metric`, with the threshold that applies to it."""
    try:
        threshold = metric.threshold_for(measured.evaluator.embedding)
    except Exception as error:  # noqa: BLE001 - whatever a metric of one's own raises
        outcome = failed(f"the threshold of {metric.name}", error)
        return Graded(metric.name, metric.scale, None, measured._replace(outcome=outcome))
    return Graded(metric.name, metric.scale, threshold, measured)


def for_want_of_a_judge(graded: Graded) -> Graded:
    """What a session metric gave where nobody judges its signals: where it has none, that is why,
    as for the judged metrics themselves.
    """
    measured = graded.measured
    outcome = measured.outcome
    if isinstance(outcome, Skip) and outcome.cause == "no_signals":
        outcome = replace(outcome, cause="no_judge")
        return graded._replace(measured=measured._replace(outcome=outcome))
    return graded


def evaluations(
    found: Iterable[Graded],
    subject: AgentTrace | Session,
    *,
    revision: int,
    clock_ns: Callable[[], int],
) -> list[Evaluation]:
    """`found` as evaluations of `subject`, made now; those of a session have the target of its last
    trace.
    """
    common = _common(subject, revision, clock_ns())
    return [_evaluation(x, common) for x in found]


def _evaluation(found: Graded, common: Evaluation) -> Evaluation:
    outcome, evaluator, usage = found.measured
    if evaluator.kind == "LLM":
        outcome = readable(outcome)
    return changed(
        common,
        metric=found.metric,
        outcome=valued(outcome, found.metric, found.scale),
        threshold=found.threshold,
        scale=found.scale,
        evaluator=evaluator,
        usage=usage,
    )


_NOBODY = Evaluator("CODE", "", "")


def _common(subject: AgentTrace | Session, revision: int, now_ns: int) -> Evaluation:
    """What all evaluations of a subject that are made together have in common."""
    trace = subject if isinstance(subject, AgentTrace) else subject.traces[-1]
    found = Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric="",
        outcome=Skip(""),
        threshold=None,
        scale=None,
        evaluator=_NOBODY,
        target=trace.target,
        session_id=trace.session_id,
        session_key=trace.session_key,
        agent_name=trace.agent_name,
        service_name=trace.service_name,
        revision=revision,
        evaluated_at_ns=now_ns,
        trial=trace.trial,
        turn_outcome=trace.outcome,
    )
    if isinstance(subject, AgentTrace):
        return found
    return changed(
        found,
        scope="session",
        subject_id=subject.id,
        session_id=subject.session_id,
        session_key=subject.id,
        first_trace_id=subject.traces[0].target.trace_id,
        turn_outcome=None,
    )


def readable(outcome: Outcome) -> Outcome:
    """`outcome` with the marks in its reason and metadata as `[REDACTED:email]`.

    >>> score = Score(
    ...     1.0, "To [REDACTED:email:2 #bcdfghjklmnp].", {"to": ["[REDACTED:card #bcdfghjklmnp]"]}
    ... )
    >>> readable(score).reason, readable(score).metadata
    ('To [REDACTED:email:2].', {'to': ['[REDACTED:card]']})
    """
    if not isinstance(outcome, Score):
        return outcome
    return replace(outcome, reason=without_word(outcome.reason), metadata=_plain(outcome.metadata))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return without_word(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def placed(
    evaluations: Sequence[Evaluation],
    before: Sequence[Evaluation],
    ranking: Mapping[str, float],
    run: ScopeKind,
) -> list[Evaluation]:
    """The evaluations, each with what it takes the place of, and its rank among those of the same
    subject.
    """
    return tallied(superseding(evaluations, before), before, ranking, run=run)


def superseding(
    evaluations: Sequence[Evaluation], before: Sequence[Evaluation]
) -> list[Evaluation]:
    """The evaluations, each with the uid and label of the one before it of the same subject and
    metric.
    """
    old = {(x.subject_id, x.metric): x for x in before}
    return [
        changed(x, supersedes=found.uid, label_before=found.label)
        if (found := old.get((x.subject_id, x.metric)))
        else x
        for x in evaluations
    ]


def parted(
    evaluations: Sequence[Evaluation], before: Sequence[Evaluation]
) -> tuple[list[Evaluation], list[Evaluation]]:
    """The evaluations that are news, and those that got no answer as the ones before them did."""
    unanswered = [x for x in evaluations if cause_of(x) is not None]
    if not unanswered:
        return list(evaluations), []
    open_ = {(x.subject_id, x.metric) for x in before if cause_of(x) is not None}
    in_vain = [x for x in unanswered if (x.subject_id, x.metric) in open_]
    return [x for x in evaluations if x not in in_vain], in_vain


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
    single metrics of its traces too, and the tally of these is news only where it differs from the
    one before in what failed. None: both were.
    """
    known: dict[_Subject, dict[str, Evaluation]] = {}
    for evaluation in before:
        known.setdefault(_subject(evaluation), {})[evaluation.metric] = evaluation
    found: list[Evaluation] = []
    for subject, some in groupby(sorted(new, key=_subject), key=_subject):
        ranked = _by_rank(some, weights)
        if ranked[0].is_shown:
            is_of_run = run in {None, subject[0]}
            tally = _tally(ranked, known.get(subject, {}), weights, is_of_run=is_of_run)
            if tally.results or tally.supersedes:
                ranked[0] = changed(ranked[0], tally=tally)
        found += [x if x.rank == rank else changed(x, rank=rank) for rank, x in enumerate(ranked)]
    return found


def _subject(evaluation: Evaluation) -> _Subject:
    return evaluation.scope, evaluation.subject_id


def _by_rank(evaluations: Iterable[Evaluation], weights: Mapping[str, float]) -> list[Evaluation]:
    return sorted(evaluations, key=lambda x: (_urgency(x), -weights.get(x.metric, _USUAL_WEIGHT)))


_URGENCIES = {"fail": 0, "pass": 3}


def _urgency(evaluation: Evaluation) -> int:
    """0 for what a reader should see first."""
    if not isinstance(evaluation.outcome, Score):
        return 1 if evaluation.is_shown else 4
    return _URGENCIES.get(evaluation.label or "", 2)


def _tally(
    ranked: Sequence[Evaluation],
    before: Mapping[str, Evaluation],
    weights: Mapping[str, float],
    *,
    is_of_run: bool,
) -> Tally:
    """The results of a subject: those of `before`, with those that are `ranked` in their place."""
    whole = {**before, **{x.metric: x for x in ranked}}.values() if before else ranked
    counted = [x for x in whole if isinstance(x.outcome, Score | Failure)]
    if before:
        counted = _by_rank(counted, weights)
    results = tuple(map(_result, counted))
    reason = counted[0].reason if counted and results[0].label == "fail" else None
    old = [before[x.metric] for x in ranked if x.metric in before]
    is_news = is_of_run or _unfavourable(ranked) != _unfavourable(old)
    latest = max(
        (x for x in before.values() if x.tally and x.tally.is_news),
        key=lambda x: (x.revision, x.evaluated_at_ns),
        default=None,
    )
    if latest is None or latest.tally is None:
        return Tally(results, reason=reason, is_news=is_news)
    return Tally(
        results,
        supersedes=latest.tally_uid,
        label_before=latest.tally.label,
        same_revision=latest.revision == ranked[0].revision,
        reason=reason,
        is_news=is_news,
    )


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


Cause: TypeAlias = Literal["judge", "embedding", "budget"]

_BY_ERROR: dict[str, Cause] = {
    JudgeTimeoutError.__name__: "judge",
    JudgeUnavailableError.__name__: "judge",
    EmbeddingError.__name__: "embedding",
}


def cause_of(evaluation: Evaluation) -> Cause | None:
    """Why there was no answer; None where there was one, or another time would bring none
    either.
    """
    match evaluation.outcome:
        case Failure(type=error):
            return _BY_ERROR.get(error)
        case Skip(cause="budget"):
            return "budget"
    return None
