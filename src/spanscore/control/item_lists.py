"""The traces or sessions of a target."""

import asyncio
import hashlib
import heapq
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from spanscore.control.measurer import Measurers
from spanscore.control.run_sources import Reading, Sources
from spanscore.errors import InputError, NotFoundError, RetryableError
from spanscore.evaluation.config import Runs as Config
from spanscore.model.trace import AgentTrace
from spanscore.offline.sessions import SessionTurns
from spanscore.scoring import Scoring
from spanscore.specs import Sampling, TargetSpec, TraceFilter
from spanscore.store import records
from spanscore.store.listing import TraceScores
from spanscore.store.runs import Booked, Run, RunTables
from spanscore.store.store import Store, StoredTrace
from spanscore.store.stored_rows import IMPORTED, key

_TRACES, _SESSIONS, _IDS = 500, 50, 200
_MAX_BYTES = 8 * 2**20
_SHOWN = 3
_LAST = 2**63 - 1


@dataclass(eq=False)
class RunContext:
    """What the runs of a server share."""

    config: Config
    measurers: Measurers
    scoring: Scoring
    store: Store
    _: KW_ONLY
    sources: Sources = field(default_factory=lambda: Sources({}))
    """Where runs may read traces that are stored elsewhere."""
    is_busy: Callable[[], bool] = lambda: False
    """While the server is busy with what comes in, runs wait."""
    leads: Callable[[], bool] = lambda: True
    """Unless this server leads, another one works off the runs."""
    clock_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    async def ask(self, ask: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the store answers, however long it takes."""
        return await self.scoring.patiently(ask, *arguments, **options)

    async def change(self, run_id: str, change: Callable[[Run], Run]) -> Run | None:
        """Write what `change` makes of a run; None where that is gone."""
        found: Run | None = await self.ask(
            self.store.write_runs, lambda x: x.change(run_id, self.clock_ns(), change)
        )
        return found

    async def book(self, run_id: str, booked: Callable[[], Booked | None]) -> None:
        """Store what of a run's budget is booked at the moment of the transaction."""
        await self.ask(
            self.store.write_runs, lambda x: x.finish(run_id, (), self.clock_ns(), booked)
        )


class Page(NamedTuple):
    """Some of what a target names, and where the next page begins; None after the last."""

    subjects: list[str]
    next: str | None


Rows: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Targeted:
    """What a target names of what a tenant has. Methods block."""

    store: Store
    tenant: str
    target: TargetSpec

    def refuse_unknown(self) -> None:
        """Raise NotFoundError where a tenant has not all that a target names by its ids; a source
        is not asked.
        """
        if self.target.source is not None:
            return
        ids = [id_.lower() for id_ in self.target.trace_ids]
        what, read = "traces", partial(RunTables.unknown_traces, tenant=self.tenant, ids=ids)
        if not ids:
            ids, what = list(self.target.session_ids), "sessions"
            read = partial(RunTables.unknown_sessions, tenant=self.tenant, ids=ids)
        if ids and (unknown := self.store.read_runs(read)):
            some = ", ".join(map(repr, unknown[:_SHOWN]))
            more = " and others" if len(unknown) > _SHOWN else ""
            raise NotFoundError(
                f"{len(unknown)} of the {what} are not stored (retention may have deleted them):"
                f" {some}{more}"
            )

    def page(self, cursor: str, *, stored_by_ns: int, rows: Rows | None = None) -> Page:
        """What follows `cursor`, "" at the beginning, of all that is named, before a sample is
        taken.

        Where there are `rows`, without ids, only traces with rows above the first up to the second,
        and their sessions.
        """
        if self.target.trace_ids or self.target.session_ids:
            return self._of_ids(int(cursor or 0))
        if self.target.scope == "session":
            return self._of_sessions(cursor, stored_by_ns, rows)
        rows = rows and (int(cursor or rows[0]), rows[1])
        places = self.store.read_runs(
            lambda x: x.places(self.tenant, cursor, _TRACES, stored_by_ns=stored_by_ns, rows=rows)
        )
        has_conditions = self.target.filter not in (None, TraceFilter()) or self.target.where
        if has_conditions:
            totals_bytes = accumulate((x.size_bytes for x in places), initial=0)
            places = [
                x for x, before in zip(places, totals_bytes, strict=False) if before < _MAX_BYTES
            ]
        subjects = [x.id for x in places]
        if has_conditions:
            subjects = self._that_meet(subjects)
        return Page(subjects, places[-1].place if places else None)

    def _that_meet(self, ids: Sequence[str]) -> list[str]:
        """The ids of the traces that meet the target's filter, and its condition, which may be on
        their scores.
        """
        condition, wanted = self.target.condition(), self.target.filter or TraceFilter()
        found = self.store.read_runs(lambda x: x.traces(ids))
        traces = {id_: x for id_, x in found.items() if wanted.accepts(x)}
        if condition is None:
            return list(traces)
        scores = self.store.read_runs(lambda x: x.scores(self.tenant, list(traces)))
        return [
            id_
            for id_, trace in traces.items()
            if condition.matches(TraceScores(trace, scores[id_]))
        ]

    def has_newer(self, row: int) -> bool:
        """Whether a trace of what is named was stored or changed after a row."""
        is_named = bool(self.target.trace_ids or self.target.session_ids)
        rows = None if is_named else (row, _LAST)
        return any(
            subjects and (not is_named or self._is_newer(subjects, row))
            for subjects in self.every_page(stored_by_ns=_LAST, rows=rows)
        )

    def _is_newer(self, subjects: Sequence[str], row: int) -> bool:
        are_sessions = self.target.scope == "session"
        return self.store.monitors.read(
            lambda tables: tables.has_newer(self.tenant, subjects, row, are_sessions=are_sessions)
        )

    def every_page(self, *, stored_by_ns: int, rows: Rows | None = None) -> Iterator[list[str]]:
        """All that is named, in pages."""
        cursor: str | None = ""
        while cursor is not None:
            found = self.page(cursor, stored_by_ns=stored_by_ns, rows=rows)
            cursor = found.next
            yield found.subjects

    def digest(self) -> str:
        """The same as long as the same traces or sessions are named."""
        found = hashlib.sha256()
        for subjects in self.every_page(stored_by_ns=_LAST):
            for subject in subjects:
                found.update(subject.encode("utf-8", "surrogatepass") + b"\0")
        return found.hexdigest()

    def _of_ids(self, start: int) -> Page:
        ids = list(dict.fromkeys(self.target.trace_ids or self.target.session_ids))
        some, read = ids[start : start + _IDS], RunTables.turns
        if self.target.session_ids and self.target.scope == "session":
            read = RunTables.sessions
        elif self.target.session_ids:
            read = RunTables.turns_of_sessions
        found = self.store.read_runs(lambda x: read(x, self.tenant, some))
        end = start + len(some)
        return Page(list(dict.fromkeys(found)), str(end) if end < len(ids) else None)

    def _of_sessions(self, cursor: str, stored_by_ns: int, rows: Rows | None) -> Page:
        keys = self.store.read_runs(
            lambda x: x.session_keys(
                self.tenant, cursor, _SESSIONS, stored_by_ns=stored_by_ns, rows=rows
            )
        )
        accepted = keys
        if self.target.filter is not None and self.target.filter != TraceFilter():
            has_trace = partial(
                RunTables.has_trace, tenant=self.tenant, is_wanted=self.target.filter.accepts
            )
            accepted = [
                key for key in keys if self.store.read_runs(partial(has_trace, session_key=key))
            ]
        condition = self.target.condition()
        if condition is not None:  # one at a time: a session may be large
            accepted = [
                key
                for key in accepted
                if any(map(condition.matches, self.store.sessions([key], tenant=self.tenant)))
            ]
        return Page(accepted, keys[-1] if len(keys) == _SESSIONS else None)


def add(tables: RunTables, run: Run, sampling: Sampling, found: Page, now_ns: int) -> Run | None:
    """Keep those of a page that are drawn as items of `run`, with how far its listing is; None
    where it is gone.
    """
    drawn = [(x, sampling.draw(x)) for x in found.subjects if sampling.is_in_share(x)]
    items = run.progress.items + tables.add_items(run, drawn)
    # before the end twice as many may stay
    if sampling.count is not None and items > sampling.count * (1 if found.next is None else 2):
        items -= tables.keep_lowest(run.id, sampling.count)

    def listed(current: Run) -> Run:
        candidates = current.progress.candidates + len(found.subjects)
        probability = sampling.probability(candidates)
        return current.noting(
            cursor=found.next, candidates=candidates, items=items, sampling=probability
        )

    return tables.change(run.id, now_ns, listed)


_log = logging.getLogger(__name__)

_TRIES = 6
_WAIT_S, _LONGEST_WAIT_S = 2.0, 60.0
_MAX_PART_BYTES = 8 * 2**20


class Drawn(NamedTuple):
    """Of some traces: the subjects that the target names and that were not seen before, and the
    traces to be stored.
    """

    subjects: list[str]
    traces: list[AgentTrace]


class Drawing:
    """What a target names of the traces of its source, and what of it is drawn, each once."""

    def __init__(self, target: TargetSpec, *, looks_back: bool = False) -> None:
        """`looks_back`: a trace is evaluated with the turns of its session before it, so these are
        stored too.
        """
        self._target = target
        self._filter = target.filter or TraceFilter()
        self._seen: set[int] = set()
        # ids of the traces to be stored: an earlier turn is stored once
        self._listed: set[str] = set()
        self._lowest: list[int] = []  # negative draws: the highest comes first
        self._turns = SessionTurns() if looks_back and target.scope == "trace" else None

    def close(self) -> None:
        """Let go of the turns that were seen."""
        if self._turns is not None:
            self._turns.close()

    def of(self, traces: Sequence[AgentTrace]) -> Drawn:
        """The subjects among some more traces.

        Of a session that may be drawn all traces are stored.

        Blocks: earlier turns are read from a file.
        """
        subjects: list[str] = []
        listed: list[AgentTrace] = []
        for trace in traces:
            subject, is_accepted = self.subject_of(trace), self._filter.accepts(trace)
            if subject is None:
                continue
            draw = self._target.sampling.draw(subject)
            if is_accepted and draw not in self._seen:
                self._see(draw)
                subjects.append(subject)
            if (is_accepted or self._target.scope == "session") and self._may_be_drawn(
                subject, draw
            ):
                new = [*self._before(trace), trace]
                self._listed.update(x.id for x in new)
                listed += new
            if self._turns is not None:
                self._turns.add(trace)
        return Drawn(subjects, listed)

    def subject_of(self, trace: AgentTrace) -> str | None:
        """What a trace is evaluated as, or with; None where it is of no session, and sessions are
        evaluated.
        """
        if self._target.scope == "trace":
            return trace.id
        return None if trace.session_key is None else key(trace.session_key)

    def _see(self, draw: int) -> None:
        self._seen.add(draw)
        count = self._target.sampling.count
        if count is not None:
            heapq.heappush(self._lowest, -draw)
            if len(self._lowest) > count:
                heapq.heappop(self._lowest)

    def _may_be_drawn(self, subject: str, draw: int) -> bool:
        """Whether a subject is drawn, unless others with lower draws come."""
        sampling = self._target.sampling
        if sampling.count is None:
            return sampling.is_in_share(subject)
        return len(self._lowest) < sampling.count or draw <= -self._lowest[0]

    def _before(self, trace: AgentTrace) -> Sequence[AgentTrace]:
        return () if self._turns is None else self._turns.before(trace, self._listed)


@dataclass(eq=False)
class SourceListing:
    """Lists the items of one run.

    What is stored meanwhile stays, and is found again when it has to begin anew.
    """

    context: RunContext
    run: Run
    target: TargetSpec
    _: KW_ONLY
    looks_back: bool
    """As for `Drawing`."""
    give_way: Callable[[], Awaitable[None]]
    """Awaited before more is taken in."""

    def __post_init__(self) -> None:
        self._reading: Reading | None = None
        self._is_ended = False

    def end(self) -> None:
        """Read no further."""
        self._is_ended = True
        if self._reading is not None:
            self._reading.stop()

    async def list(self) -> Run | None:
        """The run once all of its items are listed; None where it was ended before, or is gone.

        A source that cannot be reached is asked again for some minutes. Raises InputError where it
        cannot be read.
        """
        wait_s = _WAIT_S
        for is_last in [False] * (_TRIES - 1) + [True]:
            try:
                return await self._read()
            except RetryableError as error:
                if is_last:
                    raise InputError(f"{error}; it was tried {_TRIES} times") from None
                _log.warning("run %s: %s; it is tried again", self.run.id, error)
                await self._note(reason=f"waiting: {error}")
            await self.context.sleep(wait_s)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
        return None

    async def _read(self) -> Run | None:
        """Read the source from its beginning."""
        run = await self._note(candidates=0, reason=None)
        reading = self._reading = self.context.sources.open(
            self.run.tenant, self.target, self.run.created_ns
        )
        batches, drawing = reading.batches(), Drawing(self.target, looks_back=self.looks_back)
        parts = _parts(batches, drawing)
        thread = ThreadPoolExecutor(1, thread_name_prefix="source")
        try:
            while run is not None and not self._is_ended:
                part = await asyncio.get_running_loop().run_in_executor(thread, next, parts, None)
                if part is None:
                    ended = _Part([], [])
                    return None if reading.is_stopped else await self._add(run, ended, is_last=True)
                await self.give_way()
                run = await self._add(run, part, is_last=False)
            return None
        finally:
            reading.stop()
            for opened in (parts, batches, drawing):
                thread.submit(opened.close)  # after what it reads now
            thread.shutdown(wait=False)

    async def _add(self, run: Run, part: "_Part", *, is_last: bool) -> Run | None:
        """Store the traces and list the subjects in one transaction."""
        listed: list[Run | None] = []
        page = Page(part.subjects, None if is_last else "")
        sampling, most = self.target.sampling, self.context.config.max_from_source

        def also(tables: RunTables) -> None:
            listed.append(add(tables, run, sampling, page, self.context.clock_ns()))

        await self.context.ask(self.context.store.commit, part.traces, [], also=also)
        found = listed[-1]
        is_sampled = sampling.count is not None and sampling.count <= most
        if found is not None and found.progress.items > most and not is_sampled:
            raise InputError(
                f"the source has more than {most:,} traces or sessions that are wanted;"
                " narrow the filter, draw a sample, or raise evaluation.runs.max_from_source"
            )
        return found

    async def _note(self, **progress: Any) -> Run | None:
        return await self.context.change(self.run.id, lambda run: run.noting(**progress))


class _Part(NamedTuple):
    """What is committed at once: subjects, and the traces to be stored."""

    subjects: list[str]
    traces: list[StoredTrace]


def _parts(batches: Iterable[Sequence[AgentTrace]], drawing: Drawing) -> Generator[_Part]:
    """What is drawn of each batch, some megabytes at a time. Blocks."""
    for batch in batches:
        part, part_bytes = _Part([], []), 0
        for trace in batch:
            drawn = drawing.of([trace])
            part.subjects.extend(drawn.subjects)
            for stored_trace, size_bytes in map(_encoded, drawn.traces):
                part.traces.append(stored_trace)
                part_bytes += size_bytes
            if part_bytes >= _MAX_PART_BYTES:
                yield part
                part, part_bytes = _Part([], []), 0
        yield part


def stored(traces: Iterable[AgentTrace]) -> list[StoredTrace]:
    """Traces as the store keeps those that never came here."""
    return [_encoded(x)[0] for x in traces]


def _encoded(trace: AgentTrace) -> tuple[StoredTrace, int]:
    """A trace as `stored` has it, and the bytes of its record."""
    record = records.encode(trace).encode("utf-8", "surrogatepass")
    return StoredTrace(trace, IMPORTED, hashlib.sha256(record).hexdigest()), len(record)
