"""The server: every stage, and scores that others gave."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, TypeVar

from spanscore import dialects, discovery, received_scores
from spanscore.assemble import fragments
from spanscore.assemble.backlog import MAX_DECODED_BYTES, Backlog, Journaled
from spanscore.assemble.fragments import Units
from spanscore.config import Settings
from spanscore.control.alerts import Events
from spanscore.control.monitors import Monitors
from spanscore.evaluation import Unscored
from spanscore.export import open_exporters, open_sinks
from spanscore.export.inline import Passing
from spanscore.export.reporter import open_reportings
from spanscore.model.external import HUMAN, PROGRAMMATIC
from spanscore.model.score import Evaluation
from spanscore.model.span import Delivery, Headers, Partition, Resource
from spanscore.otlp import codec
from spanscore.otlp.signal import Signal
from spanscore.receive.auth import open_authenticators
from spanscore.receive.server import Server
from spanscore.serving.processing import Processing, evaluation_setup
from spanscore.store.journal import Journal
from spanscore.store.store import SessionRecord, Store
from spanscore.telemetry import Meter, declared, logs
from spanscore.telemetry.meter import watch
from spanscore.threads import Precedence
from spanscore.workers import WorkerPool
from spanscore.workers.answers import Setup

_log = logging.getLogger(__name__)

ItemT = TypeVar("ItemT")


class Pipeline:
    """The running server but for its control service: `receive.Intake` and `api.Backend`.

    Belongs to one event loop.
    """

    def __init__(self, settings: Settings, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """Open journal, store and exporters.

        Raises ConfigError where one cannot be opened, or an installed dialect cannot be used.
        """
        self._are_dialects_loaded = discovery.is_extended("spanscore.dialects")
        if self._are_dialects_loaded:
            dialects.all_dialects()  # an idle server needs the memory; only these can be broken
        self.meter = Meter(clock_ns)
        self.authenticators = open_authenticators(
            settings.authenticators, has_tenants=settings.tenancy.enabled
        )
        self._settings = settings
        self.why_unscored = Unscored(settings.evaluation).why
        self._clock_ns = clock_ns
        self._backlog = Backlog(
            settings.assemble,
            Journal(settings.journal),
            self.meter,
            shows_genai=_late("shows_genai"),
            units=Units(*map(_late, ("unit_scopes", "unit_of", "goes_on"))),
            clock_ns=clock_ns,
            max_decoded_bytes=0 if settings.worker_processes else MAX_DECODED_BYTES,
        )
        self._workers = _workers(settings, self._backlog, self.meter)
        precedence = Precedence(is_urgent=lambda: self._backlog.is_filling)
        exporters = open_exporters(settings.export, self.authenticators)
        self._processing = Processing(
            settings,
            self._backlog,
            self.meter,
            store=Store.open(settings.store, clock_ns=clock_ns, alone=True),
            exporters=exporters,
            sinks=open_sinks(settings.export),
            precedence=precedence,
            workers=self._workers,
            clock_ns=clock_ns,
        )
        self._store, self._sender = self._processing.store, self._processing.sender
        self.has_room, self.quarantine = self._backlog.has_room, self._backlog.quarantine
        self.trace, self.score, self.read = self._store.trace, self._store.score, self._store.read
        self.list_scores, self.list_traces = self._store.list_scores, self._store.list_traces
        self.list_sessions = self._store.list_sessions
        self.evaluate, self.finish_queued = (
            self._processing.evaluate,
            self._processing.finish_queued,
        )
        self.why_not_stored = self._processing.why_not_stored
        self.required_of_judges = settings.judge.required
        self.trace_url = settings.page.trace_url
        self.has_judge = any(x.models for x in settings.judges)
        self.runs = self._processing.open_runs()
        self.annotation, self.labels, self.given = (
            self._store.annotation,
            self._store.labels,
            self._store.given,
        )
        self.given.created = partial(count_external, self.meter)
        self._passing = (
            Passing(
                settings.inline,
                self._sender,
                self._backlog,
                is_agent=_is_agent,
                clock_ns=clock_ns,
                meter=self.meter,
            )
            if settings.mode == "inline"
            else None
        )
        self._processing.hold_back(self._passing)
        self._score_intake = ScoreIntake(
            self._backlog,
            partial(self._processing.patiently, self._store.put_external),
            self.meter,
            session_scope=settings.assemble.session_scope,
        )
        self._taking: set[asyncio.Task[None]] = set()
        telemetry = settings.telemetry
        who = logs.resource_attributes(telemetry.resource)
        self.monitors = Monitors(
            settings.monitors,
            settings.alerting,
            self._store.monitors,
            self.runs,
            events=Events(exporters, who),
            refuses_uncertified=settings.judge.refuses_uncertified,
            meter=self.meter,
            clock_ns=clock_ns,
        )
        self._reportings = open_reportings(telemetry.metrics.periodic, self.meter, who)
        self.server = Server(
            settings.receive,
            self,
            self.meter,
            tokens=self.authenticators,
            tenancy=settings.tenancy,
            headers=settings.needed_headers,
            resource=who,
            scraped=telemetry.metrics.scraped,
            precedence=precedence,
        )
        if (passing := self._passing) is not None:
            self.meter.watch(declared.INLINE_HELD_ROOTS, lambda: passing.held_roots)
        watch(self.meter, clock_ns)

    async def run(
        self, stopping: asyncio.Event, started: Callable[[], None] = lambda: None
    ) -> None:
        """Serve until `stopping` is set; then stop receiving, finish what is under way within the
        bound, and close.

        `started` is called when all ports are bound. Raises ConfigError where one is taken.
        """
        await self._recover()  # before there is anybody to keep waiting
        try:
            await self.server.start()
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(work) for work in self._loops()]
                started()
                await stopping.wait()
                await self._drain()
                for task in running:
                    task.cancel()
        finally:
            await self.server.stop(0.0)
            if self._workers is not None:
                await asyncio.to_thread(self._workers.close)
            await self._sender.stop()
            await self.monitors.close()
            await asyncio.gather(*(x.close() for x in self._reportings))
            await asyncio.to_thread(self._backlog.close)
            self._store.close()

    async def accept(
        self,
        signal: Signal,
        body: bytes,
        request: Any,
        headers: Headers = (),
        delivery: Delivery | None = None,
    ) -> None:
        """Keep a request; when this returns it is in the journal.

        Raises RetryableError when it cannot be kept now.
        """
        if signal == "metrics" and self._passing is None:
            # nothing is evaluated from metrics, and in branch mode the backend has them already
            return
        if self._passing is not None:
            self._passing.require_room()
        taking = asyncio.create_task(self._take_in(signal, body, request, headers, delivery))
        self._taking.add(taking)
        taking.add_done_callback(self._taken)
        # a sender that goes away meanwhile must not leave a row that nobody knows of
        await asyncio.shield(taking)

    def _taken(self, taking: asyncio.Task[None]) -> None:
        """A request was kept or not; where its sender has left, nobody else looks at what went
        wrong.
        """
        self._taking.discard(taking)
        if not taking.cancelled():
            taking.exception()

    async def give_up(self, partitions: Collection[Partition], within_s: float) -> None:
        """See `receive.Intake.give_up`."""
        if not self._backlog.rows_of(partitions):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._processing.finish_queued()

    def forget(self, partitions: Collection[Partition]) -> None:
        """See `receive.Intake.forget`."""
        self._processing.forget(self._backlog.rows_of(partitions))

    @property
    def trouble(self) -> str | None:
        """See `receive.Intake.trouble`."""
        return self._backlog.trouble

    @property
    def notice(self) -> str | None:
        """See `receive.Intake.notice`."""
        judge = self._processing.judge_trouble
        store = self._store.trouble
        waiting = (
            f"nothing is scored or sent, requests wait in the journal: {store}" if store else None
        )
        workers = self._workers.trouble if self._workers is not None else None
        others = (self._backlog.notice, judge, self._sender.notice, self.server.notice)
        notices = (waiting, workers, *others)
        return "; ".join(x for x in notices if x) or None

    def health(self) -> dict[str, Any]:
        """What the health endpoint shows beside the counters."""
        return self._processing.health() | {
            "held_roots": self._passing.held_roots if self._passing else 0,
            "journal": self._backlog.trouble or self._backlog.notice or "ok",
            "journal_bytes": self._backlog.size_bytes,
            **self.server.health(),
        }

    @property
    def page_key(self) -> bytes:
        """The key with which the API's page tokens are sealed."""
        return self._store.page_key

    def evaluations(
        self,
        *,
        tenant: str = "",
        trace_id: str | None = None,
        session_id: str | None = None,
        run: str = "",
    ) -> list[Evaluation]:
        """The newest scores of a trace, or of a session and its traces: ours, then those that
        others gave.

        Of an evaluation `run`, only its own.
        """
        own = self._store.evaluations(
            trace_id=trace_id, session_id=session_id, run=run, tenant=tenant
        )
        if run:
            return own
        return [
            *own,
            *self._store.external_scores(trace_id=trace_id, session_id=session_id, tenant=tenant),
        ]

    def sessions(self, session_id: str, *, tenant: str = "") -> list[SessionRecord]:
        """The sessions with this key or id."""
        return self._store.sessions(
            self._store.session_keys(session_id, tenant=tenant), tenant=tenant
        )

    async def _take_in(
        self, signal: Signal, body: bytes, request: Any, headers: Headers, delivery: Delivery | None
    ) -> None:
        are_needed = self._settings.assemble.enabled or self._passing is not None
        if are_needed and not self._are_dialects_loaded:
            await asyncio.to_thread(dialects.all_dialects)  # others are served meanwhile
            self._are_dialects_loaded = True
        journaled = await self._backlog.add(signal, body, request, headers, delivery)
        if self._passing is not None:
            self._passing.pass_on(journaled)
        self._take_scores(journaled)
        self._backlog.let_go(journaled.row)

    def _take_scores(self, journaled: Journaled) -> None:
        if journaled.signal != "metrics" and self._settings.assemble.enabled:
            self._score_intake.offer(journaled.row, journaled.body)

    async def _recover(self) -> None:
        """Take up what the journal contains from before a restart, and the sessions that were still
        open.
        """
        is_delivered_again = self._settings.receive.kafka is not None
        for journaled, leaving in self._backlog.recover(delivered=not is_delivered_again):
            if self._passing is not None:
                self._passing.pass_on(journaled, leaving)
            self._take_scores(journaled)
            self._backlog.let_go(journaled.row)
        if self._passing is not None:
            await self._release_scored(self._passing)
        await self._processing.take_up_sessions()

    async def _release_scored(self, passing: Passing) -> None:
        """Send on what was scored before a restart: these scores leave on the span, and in no other
        form.
        """
        for key in passing.held_traces():
            trace_id, tenant = fragments.id_in(key).hex(), fragments.tenant_in(key)
            found = await self._processing.patiently(
                self._store.evaluations, trace_id=trace_id, tenant=tenant
            )
            scores = [x for x in found if x.inline]
            passing.release(passing.take(key, {x.target.span_id for x in scores}), scores)

    def _loops(self) -> list[Coroutine[Any, Any, None]]:
        passing = [self._passing.run()] if self._passing else []
        reporting = [x.run() for x in self._reportings]
        only = self._processing.leadership.only
        led = [only(self.runs.run), only(self.monitors.run)]
        scoring = [*self._processing.loops(), self._score_intake.run()]
        return [*scoring, *led, *passing, *reporting]

    async def _drain(self) -> None:
        """Stop receiving, then finish what was cut and send what was scored, all within the
        configured bound.
        """
        deadline_s = time.monotonic() + self._settings.shutdown_timeout / 1e9
        await self.server.stop(self._settings.shutdown_timeout / 1e9 / 4)
        await self.runs.stop()
        try:
            async with asyncio.timeout(max(0.0, deadline_s - time.monotonic())):
                await self._processing.finish_queued()
                await self._score_intake.finish()
        except TimeoutError:
            _log.warning(
                "traces are still being evaluated; they are taken up again after the restart"
            )
        if not await self._sender.drain(max(0.0, deadline_s - time.monotonic())):
            left = ", ".join(
                f"{count} by {name}" for name, count in self._sender.behind().items() if count
            )
            _log.warning(
                "not all has left, the rest does after the restart: %s",
                left or "requests that pass through",
            )


def _workers(settings: Settings, backlog: Backlog, meter: Meter) -> WorkerPool | None:
    """The processes that read traces, not started yet; None where this one does."""
    count = settings.worker_processes
    if not count:
        return None
    setup = Setup(
        settings.journal.path,
        settings.telemetry,
        frozenset(settings.assemble.stitch_off),
        tuple(settings.assemble.session_scope),
        frozenset(settings.evaluation.span_attributes),
        evaluation_setup(settings),
        settings.span_names,
    )
    return WorkerPool(setup, count, meter, backlog.checksums)


def _is_agent(span: Any, scope: Any) -> bool:
    """Whether a span is an agent's, as its dialect reads it."""
    reading = dialects.read([codec.span(span, Resource(), codec.scope(scope))])
    return any(step.kind == "agent" for step in reading.steps)


def _late(name: str) -> Callable[..., Any]:
    """A function of `dialects`, which are imported when the first request comes."""

    def call(*given: Any, **named: Any) -> Any:
        return getattr(dialects, name)(*given, **named)

    return call


_BATCH = 64
"""Requests whose scores are committed together."""


@dataclass(eq=False)
class ScoreIntake:
    """Has the requests wait that may hold scores of others, until these are in the store.

    What waits is a row of the journal for each request, so the journal's cap bounds it. Belongs to
    one event loop.
    """

    requests: Backlog
    keep: Callable[[Sequence[Evaluation]], Awaitable[Sequence[Evaluation]]]
    """Puts scores into the store and returns those of them that are new."""
    meter: Meter
    _: KW_ONLY
    session_scope: Sequence[str]

    def __post_init__(self) -> None:
        self._rows: asyncio.Queue[int] = asyncio.Queue()

    def offer(self, row: int, body: bytes) -> None:
        """Take up a request, by its row and its protobuf, if it may hold such scores."""
        if received_scores.may_hold(body):
            self.requests.hold(row)
            self._rows.put_nowait(row)

    async def run(self) -> None:
        """Read and keep, for ever."""
        while True:
            rows = [await self._rows.get()]
            while len(rows) < _BATCH and not self._rows.empty():
                rows.append(self._rows.get_nowait())
            scores = await asyncio.to_thread(self._read, rows)
            if scores:
                await self._commit(scores)
            for row in rows:
                self.requests.let_go(row)
                self._rows.task_done()

    async def finish(self) -> None:
        """Wait until all that was offered is kept."""
        await self._rows.join()

    async def _commit(self, scores: Sequence[Evaluation]) -> None:
        try:
            new = await self.keep(scores)
        except Exception:  # noqa: BLE001 - what the store refuses for good must not stop the server
            # one that cannot be stored costs no others, which may be of other senders
            if len(scores) > 1:
                for score in scores:
                    await self._commit([score])
                return
            lost = scores[0]
            about = {"trace_id": lost.target.trace_id, "tenant": lost.tenant}
            _log.exception(
                "a score that others gave, %r, cannot be stored", lost.metric, extra=about
            )
            return
        count_external(self.meter, new)

    def _read(self, rows: Iterable[int]) -> list[Evaluation]:
        """The scores in these requests. Runs in a thread."""
        return [score for row in rows for score in self._read_one(row)]

    def _read_one(self, row: int) -> list[Evaluation]:
        try:
            loaded = self.requests.load_request(row, received_scores.may_hold)
            return received_scores.read_external(*loaded, session_scope=self.session_scope)
        except Exception:  # noqa: BLE001 - the same request would stop the server at each start
            _log.exception("the scores in a request cannot be read, and are left out")
            return []


def count_external(meter: Meter, scores: Iterable[Evaluation]) -> None:
    """Count scores that others gave, by the kind of who gave them."""
    for source, count in Counter(map(_kind_of_source, scores)).items():
        meter.add(declared.EXTERNAL_SCORES, count, source=source)


def _kind_of_source(score: Evaluation) -> str:
    source = score.evaluator.source
    return source if source in {HUMAN, PROGRAMMATIC} and source is not None else "evaluator"
