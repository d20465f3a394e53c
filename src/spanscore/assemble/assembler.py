"""When traces and sessions are complete, and the queue of what was cut."""

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Generic, Literal, TypeVar

from spanscore import threads
from spanscore.assemble import fragments
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import Fragment
from spanscore.model.trace import Completeness

_CUT_AT_ONCE = 5000
"""Traces: more than are scored in the second until the next are cut."""


@dataclass(slots=True)
class _Open:
    """A trace that is waited for."""

    first_ns: int
    last_ns: int
    rows: dict[int, None] = field(default_factory=dict)
    span_ids: set[bytes] = field(default_factory=set)
    parents: set[bytes] = field(default_factory=set)
    items: int = 0
    size_bytes: int = 0
    has_root: bool = False
    genai: bool = False
    reopened: bool = False
    was_whole: bool = True
    after_ns: int = 0

    @property
    def whole(self) -> bool:
        """A root has ended and every parent that a span names has arrived.

        A parentless span alone is not proof: in a trace with several, another one's children may
        still be running. Of a trace that was re-opened only what was true before is known.
        """
        return self.has_root and self.was_whole and self.parents <= self.span_ids


@dataclass(frozen=True, slots=True)
class _Closed:
    """A trace that was cut: what a late span needs to re-open it.

    Its span ids are not kept, for they are many.
    """

    closed_ns: int
    rows: tuple[int, ...] = ()
    items: int = 0
    size_bytes: int = 0
    has_root: bool = False
    genai: bool = False
    whole: bool = True
    after_ns: int = 0


_NEVER_NS = 2**63
"""After which nothing comes: of a trace that is too large no more is read."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A trace to be read now: which requests contain it, and how complete it is.

    `key` is as `keys` has it. `genai` False: no request with it can contain GenAI spans.
    `reopened`: it was cut before, and then grew. `is_early`: it is still open, and scored only if
    what is read shows that nothing is missing (`Assembler.accept`). `size_bytes`: of its spans,
    encoded; `items`: how many spans and log records. `after_ns`, where not 0: when the trace was
    cut before, too long ago to be re-opened; what started since is turns of their own, what did not
    is late.
    """

    key: bytes
    rows: tuple[int, ...]
    completeness: Completeness
    genai: bool
    reopened: bool
    is_early: bool = False
    size_bytes: int = field(default=0, compare=False)
    items: int = field(default=0, compare=False)
    after_ns: int = 0

    trace_id: str = field(init=False, repr=False, compare=False)
    """The trace's id, or another unit's, as hex."""

    tenant: str = field(init=False, repr=False, compare=False)
    """Whose it is; "" where there are no tenants."""

    def __post_init__(self) -> None:
        """Spell the key out once: it is asked for often."""
        object.__setattr__(self, "trace_id", fragments.id_in(self.key).hex())
        object.__setattr__(self, "tenant", fragments.tenant_in(self.key))


class Assembler:
    """Open traces by their keys, and those cut lately. Not thread-safe.

    `push` and `cut` take constant time a fragment: open traces are kept in the order in which they
    were last heard of, one order for each quiet time. A row stays referenced while an open trace, a
    trace that may re-open, or a `Cut` that was not given to `done` needs it; after that it is
    `released`.
    """

    def __init__(
        self, config: Config, *, goes_on: Callable[[str], bool] = lambda _unit: False
    ) -> None:
        self._config = config
        self._goes_on = goes_on
        self._not_read: OrderedDict[bytes, _Open] = OrderedDict()  # whole, and of GenAI
        # likewise, and cut early since it grew
        self._read_early: OrderedDict[bytes, _Open] = OrderedDict()
        self._whole: OrderedDict[bytes, _Open] = OrderedDict()
        self._partial: OrderedDict[bytes, _Open] = OrderedDict()
        self._closed: OrderedDict[bytes, _Closed] = OrderedDict()
        self._past: OrderedDict[bytes, int] = OrderedDict()
        self._next_age_check_ns = 0
        self._open_items = 0
        self._ready: list[Cut] = []
        self._released: list[int] = []
        self._references: dict[int, int] = {}

    @property
    def open_traces(self) -> int:
        """How many traces are waited for."""
        return sum(len(traces) for traces, _, _ in self._by_patience())

    def push(self, fragment: Fragment, now_ns: int) -> bool:
        """Take in what a request contains of a trace.

        False: past the caps, so it is not read. A trace that was cut longer ago than the late
        window is opened anew: its id may live as long as a chat.
        """
        key = fragment.key
        if self._past.get(key) == _NEVER_NS:
            return False
        trace = self._take(key) or self._open(key, now_ns)
        self._add(trace, fragment)
        trace.last_ns = now_ns
        if (
            trace.items >= self._config.max_spans
            or trace.size_bytes >= self._config.max_trace_bytes
        ):
            self._close(key, trace, "truncated", now_ns)
            self._bury(key, self._closed.pop(key).rows, _NEVER_NS)
        else:
            self._waiting(trace)[key] = trace
        return True

    def cut(self, now_ns: int) -> list[Cut]:
        """Traces that are complete by now; each is handed out once, and wants `done` when it was
        dealt with.

        Of very many, a part now and the others with the calls that follow. Those that may be whole
        are handed out early, and stay open.
        """
        for traces, quiet_ns, completeness in self._by_patience():
            for key in list(islice(_quiet_since(traces, now_ns - quiet_ns), _CUT_AT_ONCE)):
                self._close(key, traces.pop(key), completeness, now_ns)
        if self._config.whole_after < self._config.complete_after:
            since_ns = now_ns - self._config.whole_after
            for key in list(islice(_quiet_since(self._not_read, since_ns), _CUT_AT_ONCE)):
                self._cut_early(key)
        while len(self._ready) < _CUT_AT_ONCE and self._has_too_many():
            traces = self._partial or self._whole or self._read_early or self._not_read
            key, trace = traces.popitem(last=False)
            self._close(key, trace, "truncated", now_ns)
        self._cut_old(now_ns)
        self._forget(now_ns)
        ready, self._ready = self._ready, []
        return ready

    def accept(self, cut: Cut, now_ns: int) -> bool:
        """Close the trace of an early cut, which is scored as it was read.

        False: more came, or it was cut meanwhile.

        Late spans open it again as long as if it had been cut when it is complete.

        Either way the cut wants `done`, an accepted one once its trace was dealt with.
        """
        trace = self._read_early.get(cut.key)
        if trace is None or tuple(trace.rows) != cut.rows:
            return False
        del self._read_early[cut.key]
        complete_ns = trace.last_ns + self._config.complete_after
        self._note_closed(cut.key, trace, cut.rows, max(now_ns, complete_ns))
        return True

    def done(self, cut: Cut) -> None:
        """The trace was dealt with: unless a late span may re-open it, its rows are needed no
        more.
        """
        self.let_go(cut.rows)

    def can_read(self, key: bytes) -> bool:
        """Whether a trace was cut and its rows are still there."""
        closed = self._closed.get(key)
        return closed is not None and closed.genai

    def recut(self, key: bytes, now_ns: int) -> Cut | None:
        """A trace that was cut, to be read once more for the sake of another one; None where that
        cannot be.

        It may be re-opened as long as if it had been cut now. The `Cut` wants `done` like any
        other.
        """
        if not self.can_read(key):
            return None
        closed = self._closed[key] = replace(self._closed.pop(key), closed_ns=now_ns)
        return self._cut(key, closed, "complete" if closed.whole else "idle", reopened=True)

    def recut_next(self, key: bytes, now_ns: int) -> None:
        """After `restore`: have the next `cut` hand out a trace that is part of a turn with
        others.
        """
        cut = self.recut(key, now_ns)
        self._ready += [] if cut is None else [cut]

    def state(self, key: bytes) -> "Completeness | Literal['unread', 'cut'] | None":
        """Of an open trace as what it is cut once it is quiet; `unread`: it was let go, since it
        holds no GenAI spans; `cut`: it was handed out; None: it is not known.
        """
        for traces, _, completeness in self._by_patience():
            if key in traces:
                return completeness
        closed = self._closed.get(key)
        if closed is None:
            return None
        return "cut" if closed.genai else "unread"

    def is_genai(self, key: bytes) -> bool:
        """Whether what has come of an open trace may contain GenAI spans."""
        return any(key in traces and traces[key].genai for traces, _, _ in self._by_patience())

    def released(self) -> list[int]:
        """The rows that nothing needs any more; each is handed out once."""
        released, self._released = self._released, []
        return released

    def hold(self, rows: Iterable[int]) -> None:
        """Keep rows from being released until `let_go` is called for them as often."""
        for row in rows:
            self._references[row] = self._references.get(row, 0) + 1

    def let_go(self, rows: Iterable[int]) -> None:
        """Undo one `hold`."""
        for row in rows:
            self._references[row] -= 1
            if not self._references[row]:
                del self._references[row]
                self._released.append(row)

    def restore(self, fragment: Fragment, closed_ns: int) -> None:
        """Take in a fragment of a trace that was cut before a restart: it opens nothing, but a late
        span may.
        """
        known = self._closed.get(fragment.key) or _Closed(closed_ns)
        if fragment.row not in known.rows:
            self.hold((fragment.row,))
        self._closed[fragment.key] = _Closed(
            closed_ns,
            tuple(dict.fromkeys((*known.rows, fragment.row))),
            known.items + fragment.items,
            known.size_bytes + fragment.size_bytes,
            has_root=known.has_root or fragment.has_root,
            genai=known.genai or fragment.genai,
        )

    def remember_past(self, closed: Mapping[bytes, int]) -> None:
        """After `restore`: of the traces cut before a restart, with the time of each, those whose
        rows were deleted cannot be re-opened.
        """
        for key, closed_ns in closed.items():
            if key not in self._closed and not any(
                key in traces for traces, _, _ in self._by_patience()
            ):
                self._pass(key, closed_ns)

    def forget_oldest(self) -> bool:
        """Give up the trace that was cut longest ago, to make room for new ones.

        False: there is none.
        """
        if not self._closed:
            return False
        key, closed = self._closed.popitem(last=False)
        if closed.genai:
            self._bury(key, closed.rows, closed.closed_ns)
        # nothing of it was read: log records may be there long before the spans, where those are
        # sent once more
        else:
            self.let_go(closed.rows)
        return True

    def forget(self, rows: Collection[int]) -> None:
        """Drop what these rows contain of traces that are open, or may re-open.

        What was cut and is not done keeps them until then.
        """
        gone = frozenset(rows)
        for traces, _, _ in self._by_patience():
            for key, trace in list(traces.items()):
                self.let_go(gone & trace.rows.keys())
                trace.rows = dict.fromkeys(row for row in trace.rows if row not in gone)
                if not trace.rows:
                    self._open_items -= traces.pop(key).items
        for key, closed in list(self._closed.items()):
            self.let_go(gone.intersection(closed.rows))
            left = tuple(row for row in closed.rows if row not in gone)
            if left:
                self._closed[key] = replace(closed, rows=left)
            else:
                del self._closed[key]

    def _by_patience(self) -> Iterator[tuple[OrderedDict[bytes, _Open], int, Completeness]]:
        yield self._not_read, self._config.complete_after, "complete"
        yield self._read_early, self._config.complete_after, "complete"
        yield self._whole, self._config.complete_after, "complete"
        yield self._partial, self._config.idle_after, "idle"

    def _take(self, key: bytes) -> _Open | None:
        """An open trace, which is no more waited for; None where there is none."""
        for traces, _, _ in self._by_patience():
            if key in traces:
                return traces.pop(key)
        return None

    def _waiting(self, trace: _Open) -> OrderedDict[bytes, _Open]:
        """Where a trace waits: one that grew after it was cut waits longer, since more may be on
        its way.
        """
        if not trace.whole:
            return self._partial
        return self._not_read if trace.genai and not trace.reopened else self._whole

    def _has_too_many(self) -> bool:
        return (
            self.open_traces > self._config.max_open_traces
            or self._open_items > self._config.max_open_spans
        )

    def _open(self, key: bytes, now_ns: int) -> _Open:
        closed = self._closed.pop(key, None)
        if closed is None:
            return _Open(now_ns, now_ns, after_ns=self._past.pop(key, 0))
        self._open_items += closed.items
        return _Open(
            now_ns,
            now_ns,
            dict.fromkeys(closed.rows),
            items=closed.items,
            size_bytes=closed.size_bytes,
            has_root=closed.has_root,
            genai=closed.genai,
            reopened=True,
            was_whole=closed.whole,
            after_ns=closed.after_ns,
        )

    def _add(self, trace: _Open, fragment: Fragment) -> None:
        if fragment.row not in trace.rows:
            trace.rows[fragment.row] = None
            self.hold((fragment.row,))
        trace.items += fragment.items
        self._open_items += fragment.items
        trace.size_bytes += fragment.size_bytes
        trace.has_root |= fragment.has_root
        trace.genai |= fragment.genai
        # the ids of what came before are forgotten, so nothing is known of a late span's parent
        if not trace.reopened:
            trace.span_ids |= fragment.span_ids
            trace.parents |= fragment.parents

    def _cut(
        self,
        key: bytes,
        trace: _Open | _Closed,
        completeness: Completeness,
        *,
        reopened: bool,
        is_early: bool = False,
    ) -> Cut:
        """A trace as it is now, whose rows are kept until the cut is given to `done`."""
        rows, genai = tuple(trace.rows), trace.genai
        self.hold(rows)
        sizes = trace.size_bytes, trace.items
        return Cut(key, rows, completeness, genai, reopened, is_early, *sizes, trace.after_ns)

    def _close(self, key: bytes, trace: _Open, completeness: Completeness, now_ns: int) -> None:
        cut = self._cut(key, trace, completeness, reopened=trace.reopened)
        self._ready.append(cut)
        self._note_closed(key, trace, cut.rows, now_ns)

    def _note_closed(self, key: bytes, trace: _Open, rows: tuple[int, ...], closed_ns: int) -> None:
        self._open_items -= trace.items
        self._closed[key] = _Closed(
            closed_ns,
            rows,
            trace.items,
            trace.size_bytes,
            trace.has_root,
            trace.genai,
            trace.whole,
            trace.after_ns,
        )

    def _cut_early(self, key: bytes) -> None:
        """Hand out a trace that may be whole, which stays open."""
        trace = self._read_early[key] = self._not_read.pop(key)
        cut = self._cut(key, trace, "complete", reopened=trace.reopened, is_early=True)
        self._ready.append(cut)

    def _cut_old(self, now_ns: int) -> None:
        """Cut what never falls quiet; looked for ten times in `max_age`, since it means a walk over
        all open traces.
        """
        if now_ns < self._next_age_check_ns:
            return
        self._next_age_check_ns = now_ns + self._config.max_age // 10
        oldest_ns = now_ns - self._config.max_age
        for traces, _, _ in self._by_patience():
            for key in [t for t, trace in traces.items() if trace.first_ns <= oldest_ns]:
                self._close(key, traces.pop(key), "truncated", now_ns)

    def _forget(self, now_ns: int) -> None:
        oldest_ns = now_ns - self._config.late_window
        limit = self._config.max_closed_traces
        while self._closed and (
            len(self._closed) > limit or next(iter(self._closed.values())).closed_ns <= oldest_ns
        ):
            self.forget_oldest()
        while len(self._past) > limit:
            self._past.popitem(last=False)

    def _bury(self, key: bytes, rows: Iterable[int], after_ns: int) -> None:
        self._pass(key, after_ns)
        self.let_go(rows)

    def _pass(self, key: bytes, after_ns: int) -> None:
        """Forget what came of it; of a session what comes is its next turn all the same."""
        if not self._goes_on(key.hex()):
            self._past[key] = after_ns


def _quiet_since(traces: OrderedDict[bytes, _Open], since_ns: int) -> Iterator[bytes]:
    for key, trace in traces.items():
        if trace.last_ns > since_ns:
            return
        yield key


class Sessions:
    """Open sessions, by when they were last heard of. Not thread-safe."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._last_ns: dict[str, int] = {}
        self._in_order: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._last_ns)

    def push(self, session_id: str, now_ns: int) -> None:
        """An agent trace of this session was rebuilt."""
        if session_id not in self._last_ns:
            heapq.heappush(self._in_order, (now_ns, session_id))
        self._last_ns[session_id] = now_ns

    def cut(self, now_ns: int) -> list[str]:
        """The sessions that are quiet by now, or too many; each is handed out once for each time it
        goes on.
        """
        quiet_since_ns = now_ns - self._config.session_idle_after
        ready = []
        while self._in_order and (
            self._in_order[0][0] <= quiet_since_ns
            or len(self._last_ns) > self._config.max_open_sessions
        ):
            known_ns, session_id = self._in_order[0]
            last_ns = self._last_ns[session_id]
            if last_ns > known_ns:  # it has gone on since
                heapq.heapreplace(self._in_order, (last_ns, session_id))
                continue
            heapq.heappop(self._in_order)
            del self._last_ns[session_id]
            ready.append(session_id)
        return ready


WorkT = TypeVar("WorkT")


class WorkQueue(Generic[WorkT]):
    """Work in the order in which it was cut, until workers have done it. Belongs to one event loop.

    What one cut gives is taken in whole: it may exceed the bound, and then nothing more is cut
    until there is room.
    """

    def __init__(self, size: int) -> None:
        """Nothing is cut while `size` or more wait."""
        self.unfinished = 0
        """How much was taken in and is not done: what waits, and what workers have taken."""
        self._size = size
        self._queue: asyncio.Queue[WorkT] = asyncio.Queue()
        self._has_room = asyncio.Event()
        self._has_room.set()

    def __len__(self) -> int:
        """How much waits for a worker; what a worker has taken waits no more."""
        return self._queue.qsize()

    async def fill(self, cut: Callable[[], Iterable[WorkT]]) -> int:
        """Wait until there is room, then take in what `cut` gives; how much that was."""
        await self._has_room.wait()
        found = list(cut())
        self.unfinished += len(found)
        for work in found:  # between the cut and the last of these nobody can interrupt
            self._queue.put_nowait(work)
        self._note_room()
        return len(found)

    async def join(self) -> None:
        """Wait until all that was taken in is done."""
        await self._queue.join()

    async def run(
        self,
        batch_size: int,
        do: Callable[[list[WorkT]], Awaitable[None]],
        *,
        size_bytes: Callable[[WorkT], int] = lambda _: 0,
        enough_bytes: int = 1,
    ) -> None:
        """Be a worker: `do` what waits, for ever.

        At most `batch_size` at a time, and no more once they take `enough_bytes` by `size_bytes`.
        """
        while True:
            batch = [await self._queue.get()]
            taken_bytes = size_bytes(batch[0])
            while (
                len(batch) < batch_size and taken_bytes < enough_bytes and not self._queue.empty()
            ):
                batch.append(self._queue.get_nowait())
                taken_bytes += size_bytes(batch[-1])
            self._note_room()
            try:
                await do(batch)
            finally:
                self.unfinished -= len(batch)
                for _ in batch:
                    self._queue.task_done()

    def _note_room(self) -> None:
        if len(self) < self._size:
            self._has_room.set()
        else:
            self._has_room.clear()


_SHORTEST_S, _LONGEST_S = 0.02, 0.15
_IDLE_S = 1.0


def interval_s(config: Config, *, is_idle: bool) -> float:
    """How often to look: a tenth of the shortest wait, 20 to 150 ms; half of it, up to 1 s, where
    nothing waits.
    """
    waits_ns = (config.whole_after, config.complete_after, config.idle_after, config.stitch_window)
    shortest_s = min(*waits_ns, config.session_idle_after) / 1e9
    wanted_s = min(_IDLE_S, shortest_s / 2) if is_idle else min(_LONGEST_S, shortest_s / 10)
    return max(_SHORTEST_S, wanted_s)


async def run(
    cut: Callable[[int], Iterable[WorkT]],
    sessions: Sessions,
    *,
    traces_out: WorkQueue[WorkT],
    sessions_out: WorkQueue[str],
    clock_ns: Callable[[], int],
    every_s: Callable[[], float],
) -> None:
    """Put what is complete into the queues, for ever; a full queue delays the cutting, not the
    receiving.

    `cut` gives, for a time, what is to be done with the traces that are complete by then. `every_s`
    is how long to wait before the next look.
    """
    while True:
        await traces_out.fill(lambda: cut(clock_ns()))
        await sessions_out.fill(lambda: sessions.cut(clock_ns()))
        await threads.next_multiple(every_s())
