"""Estimates of a run's questions and cost."""

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from spanscore.control import item_lists
from spanscore.control.item_lists import Drawing
from spanscore.control.measurer import Measurer, Measurers
from spanscore.control.run_sources import Reading, Sources
from spanscore.errors import InputError, RetryableError
from spanscore.evaluation import MAX_EARLIER_BYTES, MAX_EARLIER_TURNS
from spanscore.evaluation.inquiry import CostedCall, costed
from spanscore.judge.config import Config
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline.sessions import SessionTurns
from spanscore.specs import RunSpec, TargetSpec
from spanscore.store.records import DAMAGED
from spanscore.store.store import Store

DEADLINE_S: Final = 120.0

ItemT = TypeVar("ItemT")


class Limit:
    """Ends an estimate `DEADLINE_S` after it was asked for, or as soon as nobody waits for it.

    Thread-safe.
    """

    def __init__(self) -> None:
        """The time runs from here on."""
        self._deadline_s = DEADLINE_S
        self._until_s = time.monotonic() + self._deadline_s
        self._is_given_up = False
        self._stop: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"{self._deadline_s:g} s"

    def give_up(self) -> None:
        """End it now."""
        with self._lock:
            self._is_given_up = True
            if self._stop is not None:
                self._stop()

    def each(self, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """These items. Raises InputError where the time is over before the last."""
        for item in items:
            if self._is_given_up or time.monotonic() >= self._until_s:
                raise InputError(
                    f"cannot be estimated in {self}; narrow the filter, or create the run with a"
                    " budget"
                )
            yield item

    @contextmanager
    def stops(self, stop: Callable[[], object]) -> Iterator[None]:
        """While inside, have `stop` called as soon as the time is over."""
        with self._lock:
            self._stop = stop
            if self._is_given_up:
                stop()
        timer = threading.Timer(max(0.0, self._until_s - time.monotonic()), stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


_PLANNED = 200
_STORE_THREADS: Final = 2
_SOURCE_THREADS: Final = 4
_RETRY_AFTER_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Estimated:
    """Upper bounds for all items, scaled up from those that were `planned`.

    `max_cost_usd` None: a price is not known.
    """

    candidates: int
    items: int
    planned: int
    calls: int
    max_input_tokens: int
    max_output_tokens: int
    max_cost_usd: float | None
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Total:
    """What calls take together; their prompts are not kept.

    `cost_usd` None: a price is not known.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    models: frozenset[str] = frozenset()

    @classmethod
    def of(cls, calls: Iterable[CostedCall]) -> "_Total":
        """That of some calls."""
        return sum((cls._of_one(x) for x in calls), cls())

    @classmethod
    def _of_one(cls, call: CostedCall) -> "_Total":
        by = call.estimate
        return cls(1, by.input_tokens, by.max_output_tokens, by.cost_usd, frozenset({call.model}))

    def __add__(self, other: "_Total") -> "_Total":
        costs = (self.cost_usd, other.cost_usd)
        return _Total(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            None if costs[0] is None or costs[1] is None else costs[0] + costs[1],
            self.models | other.models,
        )


class Estimating:
    """Plans some items of a run: those with the lowest draws, which are a sample of all that it
    would evaluate.
    """

    def __init__(
        self,
        store: Store,
        measurers: Measurers,
        judge: Config,
        sources: Sources,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store = store
        self._measurers = measurers
        self._judge = judge
        self._sources = sources
        self._clock_ns = clock_ns
        self._of_tenants: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._store_threads = ThreadPoolExecutor(_STORE_THREADS, thread_name_prefix="estimate")
        self._source_threads = ThreadPoolExecutor(
            _SOURCE_THREADS, thread_name_prefix="estimate-source"
        )
        self._from_sources: dict[str, Future[Estimated]] = {}

    async def estimate(self, tenant: str, spec: RunSpec) -> Estimated:
        """What `spec` would cost a tenant, in threads of its own; given up where nobody waits for
        it any more.

        Of a tenant one is made at a time. Raises InputError as creating the run does, and where it
        takes minutes; RetryableError while another one of the tenant reads a source, however long
        ago its caller has gone, or four of other tenants do.
        """
        if spec.target.source is not None:
            return await self._estimate_source(tenant, spec)
        async with self._of_tenants.setdefault(tenant, asyncio.Lock()):
            limit = Limit()
            return await _waited_for(
                self._store_threads.submit(self._estimated, tenant, spec, limit), limit
            )

    async def _estimate_source(self, tenant: str, spec: RunSpec) -> Estimated:
        reading = {x: future for x, future in self._from_sources.items() if not future.done()}
        if tenant in reading:
            raise RetryableError(
                "a source is being read for another estimate, and only one is at a time",
                retry_after_s=_RETRY_AFTER_S,
            )
        if len(reading) >= _SOURCE_THREADS:
            raise RetryableError(
                f"sources are being read for {_SOURCE_THREADS} estimates, and no more are at a"
                " time",
                retry_after_s=_RETRY_AFTER_S,
            )
        limit = Limit()
        future = self._source_threads.submit(self._estimated, tenant, spec, limit)
        self._from_sources = {**reading, tenant: future}
        return await _waited_for(future, limit)

    def _estimated(self, tenant: str, spec: RunSpec, limit: Limit) -> Estimated:
        measurer = self._measurers.of(spec)
        item_lists.refuse_unknown(self._store, tenant, spec.target)
        if spec.target.source is None:
            candidates, items, some = self._drawn(tenant, spec, limit)
            totals = [
                self._of_stored(tenant, spec, measurer, subject_id)
                for subject_id in limit.each(some)
            ]
        else:
            candidates, items, totals = self._of_source(tenant, spec, measurer, limit)
        total = sum(totals, _Total())
        factor = items / len(totals) if totals else 0.0
        return Estimated(
            candidates=candidates,
            items=items,
            planned=len(totals),
            calls=round(total.calls * factor),
            max_input_tokens=round(total.input_tokens * factor),
            max_output_tokens=round(total.output_tokens * factor),
            max_cost_usd=None if total.cost_usd is None else total.cost_usd * factor,
            models=tuple(sorted(total.models)),
        )

    def _drawn(self, tenant: str, spec: RunSpec, limit: Limit) -> tuple[int, int, list[str]]:
        """How many the target names, how many of them are drawn, and those of the lowest draws."""
        sampling = spec.target.sampling
        candidates = drawn = 0
        lowest: list[tuple[int, str]] = []
        pages = item_lists.every_page(
            self._store, tenant, spec.target, stored_by_ns=self._clock_ns()
        )
        for page in limit.each(pages):
            taken = [(sampling.draw(x), x) for x in page if sampling.is_in_share(x)]
            candidates, drawn = candidates + len(page), drawn + len(taken)
            lowest = heapq.nsmallest(_PLANNED, itertools.chain(lowest, taken))
        items = drawn if sampling.count is None else min(drawn, sampling.count)
        return candidates, items, [subject_id for _, subject_id in lowest[:items]]

    def _of_source(
        self, tenant: str, spec: RunSpec, measurer: Measurer, limit: Limit
    ) -> tuple[int, int, list[_Total]]:
        reading = self._sources.open(tenant, spec.target, self._clock_ns())
        found = planned(
            reading,
            spec.target,
            _PLANNED,
            limit,
            plan_trace=partial(self._of_trace, measurer),
            plan_session=partial(self._of_session, measurer),
        )
        count = spec.target.sampling.count
        items = found.drawn if count is None else min(found.drawn, count)
        return found.candidates, items, found.plans(items)

    def _of_stored(self, tenant: str, spec: RunSpec, measurer: Measurer, subject_id: str) -> _Total:
        if spec.target.scope == "session":
            found = self._store.sessions([subject_id], tenant=tenant)
            return sum((self._of_session(measurer, x.session) for x in found), _Total())
        trace = self._trace(tenant, subject_id)
        if trace is None:
            return _Total()
        earlier = self._store.turns_before(
            trace, limit=MAX_EARLIER_TURNS, max_bytes=MAX_EARLIER_BYTES
        )
        return self._of_trace(measurer, trace, earlier)

    def _of_session(self, measurer: Measurer, session: Session) -> _Total:
        calls = measurer.engine.plan(session, measurer.overrides, with_signals=True)
        return _Total.of(costed(calls, self._judge))

    def _of_trace(
        self, measurer: Measurer, trace: AgentTrace, earlier: Sequence[AgentTrace]
    ) -> _Total:
        calls = measurer.engine.plan(trace, measurer.overrides, earlier=earlier)
        return _Total.of(costed(calls, self._judge))

    def _trace(self, tenant: str, trace_id: str) -> AgentTrace | None:
        """A trace; None where it is no longer stored, or its record is damaged."""
        try:
            return self._store.trace(trace_id, tenant=tenant)
        except DAMAGED:
            return None


async def _waited_for(future: Future[Estimated], limit: Limit) -> Estimated:
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        limit.give_up()
        raise


PlanT = TypeVar("PlanT")
PlanTrace: TypeAlias = Callable[[AgentTrace, Sequence[AgentTrace]], PlanT]
"""What is planned of a trace, given the turns before it."""


@dataclass(slots=True)
class Lowest(Generic[PlanT]):
    """What is planned of the subjects with the lowest draws; `drawn` counts all that were drawn."""

    limit: int
    candidates: int = 0
    drawn: int = 0
    _plans: list[tuple[int, str, PlanT]] = field(default_factory=list)

    def add(self, draw: int, subject: str, plan: Callable[[], PlanT]) -> None:
        """Take in one that was drawn; `plan` is asked only where it is among the lowest."""
        self.drawn += 1
        if len(self._plans) < self.limit:
            heapq.heappush(self._plans, (-draw, subject, plan()))
        elif -draw > self._plans[0][0]:
            heapq.heapreplace(self._plans, (-draw, subject, plan()))

    def plans(self, count: int) -> list[PlanT]:
        """Those of the `count` lowest."""
        return [plan for _, _, plan in heapq.nlargest(count, self._plans)]


def planned(
    reading: Reading,
    target: TargetSpec,
    count: int,
    limit: Limit,
    *,
    plan_trace: PlanTrace[PlanT],
    plan_session: Callable[[Session], PlanT],
) -> Lowest[PlanT]:
    """What is planned of the `count` lowest of a target's subjects. Blocks.

    Raises InputError or RetryableError where the source cannot be read, InputError also where that
    takes minutes.
    """
    turns = SessionTurns()
    try:
        with limit.stops(reading.stop):
            found, sessions = _read(reading, target, count, turns, plan_trace)
        if reading.is_stopped:
            raise InputError(
                f"{reading}: cannot be read in {limit}; narrow the filter, or create the run with a"
                " budget"
            )
        for key, subject in limit.each(sessions.items()):
            draw = target.sampling.draw(subject)
            found.add(draw, subject, lambda key=key: plan_session(turns.session(key)[0]))  # type: ignore[misc]
        return found
    finally:
        turns.close()


def _read(
    reading: Reading,
    target: TargetSpec,
    count: int,
    turns: SessionTurns,
    plan_trace: PlanTrace[PlanT],
) -> tuple[Lowest[PlanT], dict[str, str]]:
    """Plan the traces as they are read; sessions are planned when all is read: their subjects by
    their keys.
    """
    found: Lowest[PlanT] = Lowest(count)
    drawing, sessions = Drawing(target), dict[str, str]()
    for batch in reading.batches():
        drawn = drawing.of(batch)
        found.candidates += len(drawn.subjects)
        new = {x for x in drawn.subjects if target.sampling.is_in_share(x)}
        for trace in batch:
            subject = drawing.subject_of(trace)
            if subject is not None and subject in new and target.scope == "trace":
                draw = target.sampling.draw(subject)
                found.add(draw, subject, lambda trace=trace: plan_trace(trace, turns.before(trace)))  # type: ignore[misc]
            elif subject in new and trace.session_key is not None:
                sessions[trace.session_key] = subject
            turns.add(trace)
    return found, sessions
