"""Outcomes of metrics, with their evaluator and cost."""

import math
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from numbers import Real
from pathlib import PurePath
from types import TracebackType
from typing import NamedTuple, Self

from spanscore.errors import BudgetExhaustedError, JudgeError, SpanscoreError
from spanscore.model.score import Evaluation, Evaluator, Failure, JudgeUsage, Outcome, Score, Skip
from spanscore.telemetry import Meter, declared
from spanscore.telemetry.logs import Complaints


def count(evaluations: Iterable[Evaluation], meter: Meter) -> None:
    """Count what was committed."""
    scored: Counter[tuple[str, str]] = Counter()
    skipped: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for evaluation in evaluations:
        match evaluation.outcome:
            case Score():
                scored[evaluation.metric, evaluation.label or "none"] += 1
            case Skip() as skip:
                skipped[evaluation.metric, skip.cause] += 1
            case Failure() as failure:
                failed[evaluation.metric, failure.type] += 1
    for (metric, label), number in scored.items():
        meter.add(declared.EVALUATIONS_SCORED, number, metric=metric, label=label)
    for (metric, reason), number in skipped.items():
        meter.add(declared.EVALUATIONS_SKIPPED, number, metric=metric, reason=reason)
    for (metric, error_type), number in failed.items():
        meter.add(declared.EVALUATIONS_FAILED, number, metric=metric, error_type=error_type)


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
        if not isinstance(error, SpanscoreError):
            what = f"{self._what} raised {type(error).__name__}"
            _COMPLAINTS.complain(_raised_at(error), what, error=error)
        self.error, self.outcome = error, outcome_of(error)
        if isinstance(error, JudgeError):
            self.usage += spent_on(error)
        return True


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
    number = float(given) if isinstance(given, Real) and not isinstance(given, bool) else math.nan
    if not low - _ROUNDING <= number <= high + _ROUNDING:
        shown = repr(given)[:80]
        message = (
            f"{metric} gave the value {shown}, which is no score: a score is a finite number from"
            f" {low:g} to {high:g}"
        )
        return Failure("InvalidScoreError", message)
    value = min(max(number, low), high)
    return outcome if type(given) is float and given == value else replace(outcome, value=value)


_BETWEEN = ", "


def named(models: Iterable[str]) -> str:
    """Each model once, in the order in which they answered, with a comma and a blank in between.

    >>> named(["openai/gpt-4o-mini", "openai/gpt-4o", "openai/gpt-4o-mini"])
    'openai/gpt-4o-mini, openai/gpt-4o'
    """
    return _BETWEEN.join(dict.fromkeys(models))
