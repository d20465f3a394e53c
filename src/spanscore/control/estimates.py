"""Estimates of a run's questions and cost."""

import asyncio
import heapq
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from spanscore.control.item_lists import Drawing, RunContext, Targeted
from spanscore.control.measurer import Measurer
from spanscore.control.run_sources import Reading
from spanscore.errors import InputError, RetryableError
from spanscore.evaluation import MAX_EARLIER_BYTES, MAX_EARLIER_TURNS
from spanscore.evaluation.inquiry import costed
from spanscore.judge import Estimate
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline.sessions import SessionTurns
from spanscore.specs import RunSpec, Sampling, TargetSpec
from spanscore.store.records import DAMAGED

DEADLINE_S: Final = 120.0

ItemT = TypeVar("ItemT")


class Limit:
    """Ends an estimate `DEADLINE_S` after it was asked for, or as soon as nobody waits for it.

    Thread-safe.
    """

    def __init__(self) -> None:
        """The time runs from here on."""
        self._until_s = time.monotonic() + DEADLINE_S
        self._stop: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"{DEADLINE_S:g} s"

    def give_up(self) -> None:
        """End it now."""
        with self._lock:
            self._until_s = 0.0
            if self._stop is not None:
                self._stop()

    def each(self, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """These items. Raises InputError where the time is over before the last."""
        for item in items:
            if time.monotonic() >= self._until_s:
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


_Plan: TypeAlias = list[tuple[Estimate, str]]
"""Of each call for a subject how much it takes at most, and the model."""


class Estimating:
    """Plans some items of a run: those with the lowest draws, which are a sample of all that it
    would evaluate.
    """

    def __init__(self, context: RunContext) -> None:
        self._store = context.store
        self._context = context
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
        measurer = self._context.measurers.of(spec)
        Targeted(self._store, tenant, spec.target).refuse_unknown()
        if spec.target.source is None:
            stored = self._drawn(tenant, spec.target, limit)
            plans = [self._of_stored(tenant, spec, measurer, x) for x in limit.each(stored.kept)]
            candidates, items = stored.candidates, stored.items
        else:
            found = self._of_source(tenant, spec.target, measurer, limit)
            candidates, items, plans = found.candidates, found.items, found.kept
        calls = [call for plan in plans for call, _ in plan]
        costs = [x.cost_usd for x in calls if x.cost_usd is not None]
        factor = items / len(plans) if plans else 0.0
        return Estimated(
            candidates=candidates,
            items=items,
            planned=len(plans),
            calls=round(len(calls) * factor),
            max_input_tokens=round(sum(x.input_tokens for x in calls) * factor),
            max_output_tokens=round(sum(x.max_output_tokens for x in calls) * factor),
            max_cost_usd=sum(costs) * factor if len(costs) == len(calls) else None,
            models=tuple(sorted({model for plan in plans for _, model in plan})),
        )

    def _drawn(self, tenant: str, target: TargetSpec, limit: Limit) -> "Lowest[str]":
        lowest = Lowest[str](target.sampling)
        named, now_ns = Targeted(self._store, tenant, target), self._context.clock_ns()
        for page in limit.each(named.every_page(stored_by_ns=now_ns)):
            lowest.candidates += len(page)
            for subject in filter(target.sampling.is_in_share, page):
                lowest.add(subject, subject.__str__)
        return lowest

    def _of_source(
        self, tenant: str, target: TargetSpec, measurer: Measurer, limit: Limit
    ) -> "Lowest[_Plan]":
        """Plan the traces as they are read, and sessions when all is read.

        Raises InputError or RetryableError where the source cannot be read, InputError also where
        that takes minutes.
        """
        reading = self._context.sources.open(tenant, target, self._context.clock_ns())
        lowest, turns = Lowest[_Plan](target.sampling), SessionTurns()
        try:
            with limit.stops(reading.stop):
                sessions = self._read(reading, target, measurer, turns, lowest)
            if reading.is_stopped:
                raise InputError(
                    f"{reading}: cannot be read in {limit}; narrow the filter, or create the run"
                    " with a budget"
                )
            for key, subject in limit.each(sessions.items()):
                session = partial(turns.session, key)
                lowest.add(subject, lambda read=session: self._planned(measurer, read()[0]))  # type: ignore[misc]
            return lowest
        finally:
            turns.close()

    def _read(
        self,
        reading: Reading,
        target: TargetSpec,
        measurer: Measurer,
        turns: SessionTurns,
        lowest: "Lowest[_Plan]",
    ) -> dict[str, str]:
        """Plan the traces; gives the subjects of sessions by their keys."""
        drawing, sessions = Drawing(target), dict[str, str]()

        def plan(trace: AgentTrace) -> _Plan:
            return self._planned(measurer, trace, turns.before(trace))

        for batch in reading.batches():
            subjects = drawing.of(batch).subjects
            lowest.candidates += len(subjects)
            new = set(filter(target.sampling.is_in_share, subjects))
            for trace in batch:
                subject = drawing.subject_of(trace)
                if subject in new and target.scope == "trace":
                    lowest.add(trace.id, partial(plan, trace))
                elif subject in new and trace.session_key is not None:
                    sessions[trace.session_key] = subject
                turns.add(trace)
        return sessions

    def _of_stored(self, tenant: str, spec: RunSpec, measurer: Measurer, subject_id: str) -> _Plan:
        if spec.target.scope == "session":
            found = self._store.sessions([subject_id], tenant=tenant)
            return [call for x in found for call in self._planned(measurer, x.session)]
        try:
            trace = self._store.trace(subject_id, tenant=tenant)
        except DAMAGED:
            trace = None
        if trace is None:  # or it is no longer stored
            return []
        earlier = self._store.turns_before(
            trace, limit=MAX_EARLIER_TURNS, max_bytes=MAX_EARLIER_BYTES
        )
        return self._planned(measurer, trace, earlier)

    def _planned(
        self, measurer: Measurer, subject: AgentTrace | Session, earlier: Sequence[AgentTrace] = ()
    ) -> _Plan:
        """The calls for a trace with the turns before it, or for a session with its signals."""
        engine, overrides = measurer.engine, measurer.overrides
        is_session = isinstance(subject, Session)
        calls = engine.plan(subject, overrides, earlier=earlier, with_signals=is_session)
        judge = self._context.measurers.settings.judge
        return [(x.estimate, x.model) for x in costed(calls, judge)]


async def _waited_for(future: Future[Estimated], limit: Limit) -> Estimated:
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        limit.give_up()
        raise


PlanT = TypeVar("PlanT")


@dataclass(slots=True)
class Lowest(Generic[PlanT]):
    """What is planned of the subjects with the lowest draws; `drawn` counts all that were drawn."""

    sampling: Sampling
    candidates: int = 0
    drawn: int = 0
    _plans: list[tuple[int, str, PlanT]] = field(default_factory=list)

    def add(self, subject: str, plan: Callable[[], PlanT]) -> None:
        """Take in one that was drawn; `plan` is asked only where it is among the lowest."""
        self.drawn += 1
        draw = -self.sampling.draw(subject)
        if len(self._plans) < _PLANNED:
            heapq.heappush(self._plans, (draw, subject, plan()))
        elif draw > self._plans[0][0]:
            heapq.heapreplace(self._plans, (draw, subject, plan()))

    @property
    def items(self) -> int:
        """How many items the run would have."""
        return self.drawn if self.sampling.count is None else min(self.drawn, self.sampling.count)

    @property
    def kept(self) -> list[PlanT]:
        """The plans of the lowest items."""
        return [plan for _, _, plan in heapq.nlargest(self.items, self._plans)]
