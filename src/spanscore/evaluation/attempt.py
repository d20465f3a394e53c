"""The one place where an exception becomes an outcome: whatever a metric or a judge does, the
others go on.
"""

import time
from pathlib import PurePath
from types import TracebackType
from typing import Self

from spanscore.errors import BudgetExhaustedError, JudgeError, SpanscoreError
from spanscore.evaluation.usage import spent_on
from spanscore.model.score import Failure, JudgeUsage, Outcome, Skip
from spanscore.telemetry.complaints import Complaints

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
