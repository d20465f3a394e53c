"""The states of a trace, their transitions, and turns that wait for the rest of their traces."""

import heapq
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import islice
from typing import TypeAlias

from spanscore.assemble.assembler import Cut
from spanscore.assemble.config import Config
from spanscore.turn_scheduling.jobs import JobKind, ReadJob
from spanscore.turns import TraceFragment


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
        for trace_id, trace in self._handed_out(job):
            self._leave(trace_id, trace)

    def start_turn(self, job: ReadJob) -> None:
        """Hand out a job for the traces of a turn, which were `WAITING` or `SCORED`: `READING`."""
        for trace_id in job.trace_ids:
            trace = self._traces.setdefault(trace_id, _Trace(State.READING))
            trace.state, trace.job, trace.compared_with = State.READING, job, ()

    def score(self, job: ReadJob) -> None:
        """What was read is evaluated and committed now: `SCORING`."""
        for _, trace in self._handed_out(job):
            trace.state = State.SCORING

    def compare(self, trace_id: str, others: Sequence[str]) -> None:
        """Have a trace that waits, or is about to, wait until others are not in work."""
        trace = self._traces[trace_id]
        trace.compared_with = tuple(dict.fromkeys((*trace.compared_with, *others)))

    def hold_back(self, job: ReadJob) -> None:
        """What was read waits for the rest of its turn, or is queued once more: `WAITING` or
        `QUEUED`.
        """
        for trace_id, trace in self._handed_out(job):
            trace.needs_reread = False  # as a part of a turn it is read with the others
            self._leave(trace_id, trace)

    def give_up(self, trace_id: str) -> None:
        """A trace that was `WAITING` is no longer waited for: `SCORED`."""
        if self.of(trace_id) is State.WAITING:
            del self._traces[trace_id]

    def finish(self, job: ReadJob) -> list[str]:
        """What was read is scored, or given up: `SCORED`, unless more is to be done.

        Returns the ids of the traces that are to be read again.
        """
        to_reread: list[str] = []
        for trace_id, trace in self._handed_out(job):
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

    def _handed_out(self, job: ReadJob) -> Iterable[tuple[str, _Trace]]:
        """The traces, with their ids, for which a job was handed out and is not done with."""
        for trace_id in job.trace_ids:
            trace = self._traces.get(trace_id)
            if trace is not None and trace.job is job:
                yield trace_id, trace

    def _leave(self, trace_id: str, trace: _Trace) -> None:
        """A trace is no more in work."""
        trace.job = None
        if trace.queued:
            trace.state = State.QUEUED
        elif self._is_pending(trace_id):
            trace.state = State.WAITING
        else:
            del self._traces[trace_id]


_MAX_NEAR = 1000
"""Traces that are compared with each other to find which are of one turn."""

_MAX_ALIKE = 100
"""Traces with one key in common that are compared: the latest."""


_Index: TypeAlias = defaultdict[str, dict[str, None]]
"""Trace ids by key, the latest last."""


@dataclass(slots=True)
class _Known:
    """A part. `cut` is there while it waits to be scored, `due_ns` while its turn is not due.

    `scored_with` are the traces of the turn as which it was scored last, itself included.
    """

    part: TraceFragment
    changed_ns: int
    cut: Cut | None = None
    due_ns: int | None = None
    scored_with: tuple[str, ...] = ()


class PendingTurns:
    """The parts of unfinished turns, and those scored lately, to which a part that comes now may
    belong.

    `group` returns which of some parts are of one turn, `is_whole` whether such a turn has its
    beginning and its end, `is_settled` whether one of its traces contains all of it, `is_there`
    whether a trace that was scored can be read again. Not thread-safe, but for `is_sought`,
    `seeks_any` and `in`.
    """

    def __init__(
        self,
        config: Config,
        *,
        group: Callable[[Iterable[TraceFragment]], list[list[TraceFragment]]],
        is_whole: Callable[[Sequence[TraceFragment]], bool],
        is_there: Callable[[str], bool],
        is_settled: Callable[[Sequence[TraceFragment]], bool] = lambda _: False,
    ) -> None:
        self._config = config
        self._max_parts = config.max_parts
        self._group = group
        self._is_whole = is_whole
        self._is_settled = is_settled
        self._is_there = is_there
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._offered: _Index = defaultdict(dict)
        self._sought: _Index = defaultdict(dict)
        self._due: list[tuple[int, str]] = []
        self._replaced: list[Cut] = []
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """How many traces wait for others."""
        return self._waiting

    def limit(self, max_parts: int) -> None:
        """Remember at most so many from now on; of more, the next `due` returns those that have to
        go.
        """
        self._max_parts = max_parts

    def __contains__(self, trace_id: str) -> bool:
        return trace_id in self._known

    def is_waiting(self, trace_id: str) -> bool:
        """Whether a trace waits for others."""
        known = self._known.get(trace_id)
        return known is not None and known.cut is not None

    @property
    def seeks_any(self) -> bool:
        """Whether any part looks for another one. May be called from any thread."""
        return bool(self._sought)

    def is_sought(self, key: str) -> bool:
        """Whether a part looks for what offers this key. May be called from any thread."""
        return key in self._sought

    def seekers(self, keys: Iterable[str]) -> list[str]:
        """The traces that wait and look for what offers one of these keys."""
        found: set[str] = set()
        for key in keys:
            found.update(_latest(self._sought, key))
        return sorted(filter(self.is_waiting, found))

    def add(self, part: TraceFragment, cut: Cut | None, now_ns: int) -> bool:
        """Take in a part. False: it need not wait, nor does it bring another one to be due.

        True: `due` returns its `cut` later. None for `cut`: the trace was scored before, and is
        only due again with others.
        """
        self.forget(part.trace_id)
        self._known[part.trace_id] = known = _Known(part, now_ns, scored_with=(part.trace_id,))
        for index, keys in self._indexes(part):
            for key in keys:
                index[key][part.trace_id] = None
        turn = self._turn_of(part.trace_id)
        if len(turn) == 1 and (cut is None or not part.is_fragment):
            return False
        known.cut = cut
        self._waiting += cut is not None
        self._put_off(turn, now_ns)
        if cut is not None and not part.is_fragment and self._is_settled(turn):
            known.due_ns = now_ns  # by itself it would not have waited either
        heapq.heappush(self._due, (known.due_ns or 0, part.trace_id))
        return True

    def waiting_cuts(self) -> list[Cut]:
        """The cuts that wait."""
        return [known.cut for known in self._known.values() if known.cut is not None]

    def replaced(self) -> list[Cut]:
        """The cuts that waited for parts that were forgotten or came once more; each is handed out
        once.
        """
        replaced, self._replaced = self._replaced, []
        return replaced

    def forget(self, trace_id: str) -> None:
        """Forget a part."""
        known = self._known.pop(trace_id, None)
        if known is None:
            return
        for index, keys in self._indexes(known.part):
            for key in keys:
                index[key].pop(trace_id, None)
                if not index[key]:
                    del index[key]
        if known.cut is not None:
            self._waiting -= 1
            self._replaced.append(known.cut)

    def due(
        self, now_ns: int, *, is_busy: Callable[[str], bool] = lambda _: False
    ) -> list[list[tuple[TraceFragment, Cut | None]]]:
        """The turns whose wait is over, each as its traces, in order; without the cut of those
        scored before.

        A turn of which a trace `is_busy` waits on.
        """
        self._drop_old(now_ns)
        ready: list[list[tuple[TraceFragment, Cut | None]]] = []
        busy: list[tuple[int, str]] = []
        while (trace_id := self._next_due(now_ns)) is not None:
            turn = self._readable_turn_of(trace_id)
            if any(is_busy(part.trace_id) for part in turn):
                retry_ns = now_ns + self._config.complete_after
                self._known[trace_id].due_ns = retry_ns
                busy.append((retry_ns, trace_id))
                continue
            is_new = self._is_new(turn)
            cuts = self._taken(turn)
            if is_new:
                ready.append(list(zip(turn, cuts, strict=True)))
            self._drop_old(now_ns)
        for waiting in busy:
            heapq.heappush(self._due, waiting)
        return ready

    def _next_due(self, now_ns: int) -> str | None:
        """The next part whose wait is over, or that has to go because there are too many."""
        while self._due:
            too_many = len(self._known) > self._max_parts
            if self._due[0][0] > now_ns and not too_many:
                return None
            due_ns, trace_id = heapq.heappop(self._due)
            known = self._known.get(trace_id)
            if known is None or known.due_ns is None:
                continue
            if due_ns >= known.due_ns or too_many:
                return trace_id
            heapq.heappush(self._due, (known.due_ns, trace_id))  # it was put off
        return None

    def _indexes(self, part: TraceFragment) -> tuple[tuple["_Index", frozenset[str]], ...]:
        return (self._offered, part.offers), (self._sought, part.seeks)

    def _put_off(self, turn: Sequence[TraceFragment], now_ns: int) -> None:
        """Wait for more of a turn from now on: not long where it is whole."""
        wait_ns = self._config.stitch_window
        if self._is_whole(turn):
            wait_ns = min(wait_ns, self._config.complete_after)
        for part in turn:
            known = self._known[part.trace_id]
            known.changed_ns, known.due_ns = now_ns, now_ns + wait_ns
            self._known.move_to_end(part.trace_id)

    def _is_new(self, turn: Sequence[TraceFragment]) -> bool:
        """Whether one of these traces waits to be scored, or was not scored last as this very
        turn.
        """
        trace_ids = tuple(part.trace_id for part in turn)
        all_known = (self._known[trace_id] for trace_id in trace_ids)
        return any(known.cut is not None or known.scored_with != trace_ids for known in all_known)

    def _taken(self, turn: Sequence[TraceFragment]) -> list[Cut | None]:
        """The cuts of a turn, which wait no more."""
        trace_ids = tuple(part.trace_id for part in turn)
        cuts: list[Cut | None] = []
        for trace_id in trace_ids:
            known = self._known[trace_id]
            cuts.append(known.cut)
            self._waiting -= known.cut is not None
            known.cut, known.due_ns, known.scored_with = None, None, trace_ids
        return cuts

    def _drop_old(self, now_ns: int) -> None:
        """Forget what was scored so long ago that its spans were deleted, and the oldest of too
        many.
        """
        oldest_ns = now_ns - self._config.late_window
        while self._known:
            trace_id, known = next(iter(self._known.items()))
            is_old = known.changed_ns <= oldest_ns or len(self._known) > self._max_parts
            if known.due_ns is not None or not is_old:
                return
            self.forget(trace_id)

    def _readable_turn_of(self, trace_id: str) -> list[TraceFragment]:
        """The turn of a part, without traces that can no more be read and what belongs to it only
        through them.
        """
        while True:
            turn = self._turn_of(trace_id)
            unreadable = [part.trace_id for part in turn if not self._is_readable(part.trace_id)]
            if not unreadable:
                return turn
            for lost in unreadable:
                self.forget(lost)
            if trace_id in unreadable:
                return []

    def _is_readable(self, trace_id: str) -> bool:
        return self._known[trace_id].cut is not None or self._is_there(trace_id)

    def _turn_of(self, trace_id: str) -> list[TraceFragment]:
        """The parts of the turn of one, itself included, among all that are tied to it by keys."""
        near, to_follow = {trace_id}, [trace_id]
        while to_follow and len(near) < _MAX_NEAR:
            part = self._known[to_follow.pop()].part
            for keys, index in ((part.offers, self._sought), (part.seeks, self._offered)):
                found: set[str] = set()
                for key in keys:
                    found.update(_latest(index, key))
                found -= near
                near |= found
                to_follow += sorted(found)
        turns = self._group(self._known[other].part for other in sorted(near))
        return next(turn for turn in turns if any(part.trace_id == trace_id for part in turn))


def _latest(index: _Index, key: str) -> Iterable[str]:
    """The latest traces with a key."""
    return islice(reversed(index[key]), _MAX_ALIKE) if key in index else ()
