"""The items of a run that reads a source: its traces, read in the background, and those that are
drawn stored.
"""

import asyncio
import hashlib
import heapq
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

from spanscore.control import listing
from spanscore.control.listing import Page
from spanscore.control.sources import Reading, Sources
from spanscore.errors import InputError, RetryableError
from spanscore.model.trace import AgentTrace
from spanscore.offline.sessions import SessionTurns
from spanscore.scoring import Scoring
from spanscore.specs.target import TargetSpec, TraceFilter
from spanscore.store import records
from spanscore.store.runs import Run
from spanscore.store.store import Store, StoredTrace
from spanscore.store.writing import IMPORTED, key

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


class SourceListing:
    """Lists the items of one run.

    What is stored meanwhile stays, and is found again when it has to begin anew.
    """

    def __init__(
        self,
        run: Run,
        target: TargetSpec,
        sources: Sources,
        scoring: Scoring,
        store: Store,
        *,
        max_items: int,
        looks_back: bool,
        give_way: Callable[[], Awaitable[None]],
        clock_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """A run that has more than `max_items` cannot be done. `looks_back` is as for `Drawing`.

        `give_way` is awaited before more is taken in.
        """
        self._run = run
        self._target = target
        self._sources = sources
        self._scoring = scoring
        self._store = store
        self._max_items = max_items
        self._looks_back = looks_back
        self._give_way = give_way
        self._clock_ns = clock_ns
        self._sleep = sleep
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
                _log.warning("run %s: %s; it is tried again", self._run.id, error)
                await self._note(reason=f"waiting: {error}")
            await self._sleep(wait_s)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
        return None

    async def _read(self) -> Run | None:
        """Read the source from its beginning."""
        run = await self._note(candidates=0, reason=None)
        reading = self._reading = self._sources.open(
            self._run.tenant, self._target, self._run.created_ns
        )
        batches, drawing = reading.batches(), Drawing(self._target, looks_back=self._looks_back)
        parts = _parts(batches, drawing)
        thread = ThreadPoolExecutor(1, thread_name_prefix="source")
        try:
            while run is not None and not self._is_ended:
                part = await asyncio.get_running_loop().run_in_executor(thread, next, parts, None)
                if part is None:
                    return (
                        None
                        if reading.is_stopped
                        else await self._add(run, _Part([], []), is_last=True)
                    )
                await self._give_way()
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
        await self._scoring.patiently(
            self._store.commit,
            part.traces,
            [],
            also=lambda tables: listed.append(
                listing.add(tables, run, self._target.sampling, page, self._clock_ns())
            ),
        )
        found = listed[-1]
        if found is not None:
            self._require_few(found)
        return found

    def _require_few(self, run: Run) -> None:
        count = self._target.sampling.count
        if run.progress.items > self._max_items and (count is None or count > self._max_items):
            raise InputError(
                f"the source has more than {self._max_items:,} traces or sessions that are wanted;"
                " narrow the filter, draw a sample, or raise evaluation.runs.max_from_source"
            )

    async def _note(self, **progress: Any) -> Run | None:
        def noted(run: Run) -> Run:
            return replace(run, progress=replace(run.progress, **progress))

        found: Run | None = await self._scoring.patiently(
            self._store.write_runs,
            lambda tables: tables.change(self._run.id, self._clock_ns(), noted),
        )
        return found


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
