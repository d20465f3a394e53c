"""The states of a trace, and their transitions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from spanscore.turn_scheduling.jobs import JobKind, ReadJob


class State(Enum):
    """Where a trace is on its way from its cut to its scores."""

    QUEUED = auto()
    """A job for it is handed out with the next cut."""

    READING = auto()
    """A job for it was handed out, and is not read yet."""

    WAITING = auto()
    """It was read, and is held back until its turn is due."""

    SCORING = auto()
    """It was read, and its agent traces are evaluated and committed."""

    SCORED = auto()
    """Nothing is to be done, and no entry is kept."""


_IN_WORK = frozenset({State.READING, State.SCORING})


@dataclass(slots=True)
class _Trace:
    """One trace that is not scored yet."""

    state: State

    job: ReadJob | None = None
    """The job that was handed out, while the trace is in work."""

    queued: list[ReadJob] = field(default_factory=list)
    """The jobs that are handed out when this trace is not in work, one after the other."""

    compared_with: tuple[str, ...] = ()
    """While it waits: scored traces that are read again first, since they may belong to its
    turn.
    """

    needs_reread: bool = False
    """While it is in work: another trace may belong to its turn, so that it is read again once it
    is scored.
    """

    @property
    def unread(self) -> Iterator[ReadJob]:
        """The jobs of single traces that were cut and are not read yet."""
        if (
            self.state is State.READING
            and self.job is not None
            and self.job.kind is not JobKind.TURN
        ):
            yield self.job
        yield from self.queued


class TraceStates:
    """The state of each trace of one tenant, by trace id. Pure bookkeeping; not thread-safe.

    `is_pending` is true of a trace, by its id, whose cut waits in `PendingTurns`.
    """

    def __init__(self, is_pending: Callable[[str], bool]) -> None:
        self._is_pending = is_pending
        self._traces: dict[str, _Trace] = {}
        self._queued = 0

    def __len__(self) -> int:
        """How many traces are not scored yet."""
        return len(self._traces)

    def of(self, trace_id: str) -> State:
        """The state of a trace."""
        trace = self._traces.get(trace_id)
        return State.SCORED if trace is None else trace.state

    def is_in_work(self, trace_id: str) -> bool:
        """Whether a job for the trace was handed out and is not done with."""
        return self.of(trace_id) in _IN_WORK

    def is_current(self, job: ReadJob) -> bool:
        """Whether a job was handed out and is not done with."""
        trace = self._traces.get(job.trace_id)
        return trace is not None and trace.job is job

    def is_busy(self, trace_id: str) -> bool:
        """Whether the trace, or one with which it is to be compared, is in work."""
        trace = self._traces.get(trace_id)
        compared_with = () if trace is None else trace.compared_with
        return self.is_in_work(trace_id) or any(map(self.is_in_work, compared_with))

    @property
    def queued(self) -> int:
        """How many jobs are to be handed out."""
        return self._queued

    def has_queued(self, trace_id: str) -> bool:
        """Whether a job for the trace is to be handed out."""
        trace = self._traces.get(trace_id)
        return trace is not None and bool(trace.queued)

    def read_until_ns(self, now_ns: int) -> int:
        """The time up to which all that was cut is read: when the oldest unread job was made."""
        unread = (job.queued_ns for trace in self._traces.values() for job in trace.unread)
        return min(unread, default=now_ns)

    def queue(self, job: ReadJob) -> None:
        """Have a job for one trace handed out as soon as the trace is not in work: `QUEUED`, if it
        is not.
        """
        trace = self._traces.setdefault(job.trace_id, _Trace(State.QUEUED))
        trace.queued.append(job)
        self._queued += 1
        if trace.state not in _IN_WORK:
            trace.state = State.QUEUED

    def queue_again(self, job: ReadJob, now_ns: int) -> None:
        """Have a job that was read handed out once more, before later ones for its trace."""
        self._traces[job.trace_id].queued.insert(0, replace(job, queued_ns=now_ns))
        self._queued += 1

    def start(self) -> list[ReadJob]:
        """Hand out a job for each trace that is `QUEUED`: `READING`."""
        started: list[ReadJob] = []
        for trace in self._traces.values():
            if trace.state is State.QUEUED:
                trace.state, trace.job, trace.compared_with = State.READING, trace.queued.pop(0), ()
                started.append(trace.job)
        self._queued -= len(started)
        return started

    def drop(self, job: ReadJob) -> None:
        """What was read is not scored, and does not wait: `QUEUED` for a later cut, else
        `SCORED`.
        """
        for trace in self._handed_out(job):
            self._leave(job.trace_id, trace)

    def start_turn(self, job: ReadJob) -> None:
        """Hand out a job for the traces of a turn, which were `WAITING` or `SCORED`: `READING`."""
        for trace_id in job.trace_ids:
            trace = self._traces.setdefault(trace_id, _Trace(State.READING))
            trace.state, trace.job, trace.compared_with = State.READING, job, ()

    def score(self, job: ReadJob) -> None:
        """What was read is evaluated and committed now: `SCORING`."""
        for trace in self._handed_out(job):
            trace.state = State.SCORING

    def compare(self, trace_id: str, others: Sequence[str]) -> None:
        """Have a trace that waits, or is about to, wait until others are not in work."""
        trace = self._traces[trace_id]
        trace.compared_with = tuple(dict.fromkeys((*trace.compared_with, *others)))

    def hold_back(self, job: ReadJob) -> None:
        """What was read waits for the rest of its turn, or is queued once more: `WAITING` or
        `QUEUED`.
        """
        for trace in self._handed_out(job):
            trace.needs_reread = False  # as a part of a turn it is read with the others
            self._leave(job.trace_id, trace)

    def give_up(self, trace_id: str) -> None:
        """A trace that was `WAITING` is no longer waited for: `SCORED`."""
        if self.of(trace_id) is State.WAITING:
            del self._traces[trace_id]

    def finish(self, job: ReadJob) -> list[str]:
        """What was read is scored, or given up: `SCORED`, unless more is to be done.

        Returns the ids of the traces that are to be read again.
        """
        to_reread: list[str] = []
        for trace_id in job.trace_ids:
            trace = self._traces.get(trace_id)
            if trace is not None and trace.job is job:
                if trace.needs_reread:
                    to_reread.append(trace_id)
                trace.needs_reread = False
                self._leave(trace_id, trace)
        return to_reread

    def require_reread(self, trace_id: str) -> bool:
        """Have a trace that is in work read again after it is scored. False: it is not in work."""
        trace = self._traces.get(trace_id)
        if trace is None or trace.state not in _IN_WORK:
            return False
        trace.needs_reread = True
        return True

    def _handed_out(self, job: ReadJob) -> Iterable[_Trace]:
        """The traces for which a job was handed out and is not done with."""
        for trace_id in job.trace_ids:
            trace = self._traces.get(trace_id)
            if trace is not None and trace.job is job:
                yield trace

    def _leave(self, trace_id: str, trace: _Trace) -> None:
        """A trace is no more in work."""
        trace.job = None
        if trace.queued:
            trace.state = State.QUEUED
        elif self._is_pending(trace_id):
            trace.state = State.WAITING
        else:
            del self._traces[trace_id]
