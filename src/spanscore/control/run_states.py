"""From which state a run comes to which, and why it cannot."""

from collections.abc import Sequence
from dataclasses import replace

from spanscore.errors import ExistsError, NotFoundError, StateError
from spanscore.specs.runs import RunSpec, stored_spec
from spanscore.store.runs import Progress, Run, RunState, RunTables

MAX_UNFINISHED = 1000
"""Runs of one tenant that have not ended: of more, no other is created or retried."""

_SHOWN_CHARS = 80
_UNFINISHED: tuple[RunState, ...] = ("PENDING", "RUNNING", "PAUSED")


def refuse_too_many(
    tables: RunTables, tenant: str, states: Sequence[RunState] = _UNFINISHED
) -> None:
    """Raise StateError where a tenant can have no more runs in these states."""
    if tables.count(tenant, states) >= MAX_UNFINISHED:
        is_any = "waiting, running or paused" if "PAUSED" in states else "waiting or running"
        raise StateError(f"{MAX_UNFINISHED} runs are {is_any}; cancel some, or wait for their end")


def moved(run: Run | None, run_id: str, of: Sequence[RunState], to: RunState, done: str) -> Run:
    """The run in its next state.

    Raises NotFoundError, and StateError where it is in none from which it can be.
    """
    if run is None:
        raise not_found(run_id)
    if run.state not in of:
        raise StateError(
            f"run {run_id} is {run.state}: only one that is {' or '.join(of)} can be {done}"
        )
    return replace(run, state=to)


def same_run(run: Run, spec: RunSpec) -> Run:
    """`run`, where it was created by `spec`. Raises ExistsError."""
    if run.progress.asked != stored_spec(spec).digest:
        raise ExistsError(
            f"request_id {run.request_id!r}: run {run.id} was created under it with another content"
        )
    return run


def reason_of(error: Exception) -> str:
    """Why a run cannot go on: of errors that several tasks raised, the first."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def not_found(run_id: str) -> NotFoundError:
    """The error for a run that there is not."""
    known = run_id if len(run_id) <= _SHOWN_CHARS else f"{run_id[:_SHOWN_CHARS]}…"
    return NotFoundError(f"there is no run {known!r}")


def before_retry(progress: Progress) -> Progress:
    """As it is once the items that failed are to be worked off again.

    Why scores are missing is replaced with the scores, but for items of which nothing was stored.
    """
    failed = {
        cause: count
        for cause, count in progress.scores.failed.items()
        if not cause.startswith("\t")
    }
    scores = replace(progress.scores, failed=failed)
    return replace(progress, failed=0, scores=scores, ended_ns=None, reason=None)


def worked_off(progress: Progress) -> int:
    """How many items are done, failed or gone."""
    return progress.items - progress.left
