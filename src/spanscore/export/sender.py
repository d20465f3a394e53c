"""The loops that send scores, and resend them."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from google.protobuf.message import Message

from spanscore.export import batches, events
from spanscore.export.batches import Batch, Batches
from spanscore.export.config import Config, GrpcConfig, HttpConfig, NetworkConfig
from spanscore.export.delivery import (
    Delivery,
    Forwarding,
    Patience,
    Surroundings,
    first_place,
    forward_to_all,
)
from spanscore.export.filer import Filing
from spanscore.export.port import Exporter, Sink
from spanscore.model.score import Evaluation, Undelivered
from spanscore.model.span import Headers
from spanscore.otlp.signal import SIGNALS, Signal
from spanscore.store.locks import Leadership
from spanscore.store.store import Store
from spanscore.telemetry import Complaints, Meter, declared
from spanscore.threads import Turns

_BATCH = 64

_LOOK_EVERY_S = 0.5
"""How often the sending server looks for scores of the others on its store."""

Again: TypeAlias = Callable[
    [Sequence[tuple[Undelivered, Evaluation, bool]]], Awaitable[Sequence[Undelivered]]
]
"""Sends some again; gives those that still do not arrive.

The flag is true where a later revision has superseded the score.
"""


class Resending:
    """Belongs to one event loop. Each exporter has its own loop, so that none waits for another."""

    def __init__(self, outbox: Store, patience: Patience, ways: Mapping[str, Again]) -> None:
        self._outbox = outbox
        self._patience = patience
        self._ways = ways
        self._requested = {name: asyncio.Event() for name in ways}
        self.counts: dict[str, int] = {}
        """How many scores each exporter could not deliver, those that are configured no more among
        them.
        """

    async def look(self) -> None:
        """Count what is undelivered, and begin to send again what is asked for."""
        found = await self._patience.ask(self._outbox.undelivered)
        self.counts = {name: count for name, (count, _) in found.items()}
        for name, (_, is_requested) in found.items():
            if is_requested and name in self._requested:
                self._requested[name].set()

    @property
    def notice(self) -> str | None:
        """What a person is to know of it; None: nothing."""
        named = ", ".join(
            f"{count:,} by {name}" for name, count in sorted(self.counts.items()) if count
        )
        return (
            f"scores that could not be delivered: {named}; see spanscore scores --undelivered"
            if named
            else None
        )

    def loops(self) -> list[Callable[[], Awaitable[None]]]:
        """What starts the loops, one an exporter."""
        return [partial(self._run, name, again) for name, again in self._ways.items()]

    async def _run(self, name: str, again: Again) -> None:
        while True:
            await self._requested[name].wait()
            self._requested[name].clear()
            sent, still = 0, 0
            while rows := await self._patience.ask(self._outbox.to_send_again, name, _BATCH):
                failed = await again(rows)
                seqs = [note.seq for note, _, _ in rows]
                await self._patience.ask(self._outbox.settle, name, seqs, failed)
                sent, still = sent + len(rows) - len(failed), still + len(failed)
            if sent or still:
                _log.info(
                    "%s: of what was to be sent again %d scores arrived, %d did not",
                    name,
                    sent,
                    still,
                )
                await self.look()


_log = logging.getLogger(__name__)

_NO_SPANS = (
    "%s: no evaluation spans are sent there, since %s shows the same scores; for both set"
    " evaluation_spans: true on it"
)


class Sender:
    """Sends to all exporters; each has its own task and its own place in the outbox, so that none
    waits for another.

    Belongs to one event loop.
    """

    def __init__(
        self,
        config: Config,
        exporters: Mapping[str, Exporter],
        outbox: Store,
        meter: Meter,
        *,
        sinks: Mapping[str, Sink] | None = None,
        by_tenant: bool = False,
        lead: Leadership | None = None,
        turns: Turns | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`exporters` and `sinks` by the names that `config` gives them.

        Scores are sent while this server has the `lead`; None: always. What passes through is
        always sent.

        Reads where the outbox ends now.

        `by_tenant`: the scores of each tenant leave in requests of their own.
        """
        self._by_tenant = by_tenant
        self._lead = lead
        self._config = config
        self._outbox = outbox
        self._around = Surroundings(clock_ns, sleep, chance, meter)
        self._complaints = Complaints(clock_ns)
        self._exporters = config.otlp_exporters
        self._deliveries = [
            Delivery(name, exporter, self._exporters[name].retry_on_failure, self._around)
            for name, exporter in exporters.items()
        ]
        self._forwardings = [Forwarding(x, self._exporters[x.name]) for x in self._deliveries]
        self._filings = [
            Filing(name, sink, config.sinks[name], outbox, self._around)
            for name, sink in (sinks or {}).items()
        ]
        self._batches = Batches(config, outbox, by_tenant=by_tenant, turns=turns)
        self._without_spans = without_spans(config) if config.emit.spans else {}
        self._patience = Patience(self._complaints, sleep)
        self._resending = Resending(outbox, self._patience, self._ways_again())
        self._latest = self._begin = outbox.last_seq
        self._cursors: dict[str, int] = {}
        self._news = asyncio.Event()
        self._progress = asyncio.Event()
        self._draining = self._stopped = False
        self._running: asyncio.Task[None] | None = None
        meter.watch(
            declared.EXPORTER_WAITING_SCORES,
            lambda: {(name,): count for name, count in self.behind().items()},
        )
        meter.watch(
            declared.EXPORTER_UNDELIVERED_SCORES,
            lambda: {(x,): n for x, n in self.undelivered.items()},
        )
        meter.watch(declared.EXPORTER_OLDEST_AGE, self._ages_s)
        meter.watch(
            declared.EXPORTER_QUEUE_SIZE, lambda: {(x.name,): x.waiting for x in self._forwardings}
        )
        meter.watch(
            declared.EXPORTER_QUEUE_CAPACITY,
            lambda: {(x.name,): x.capacity for x in self._forwardings},
        )

    async def run(self) -> None:
        """Send until cancelled or stopped."""
        if not self._deliveries and not self._filings:
            _log.info("no exporter is configured: scores are kept in the store only")
        for name, tool in self._without_spans.items():
            if tool:
                _log.info(_NO_SPANS, name, tool)
        if self._stopped:
            return
        self._running = asyncio.create_task(self._run())
        try:
            await asyncio.wait([self._running])
        finally:
            self._running.cancel()
        if not self._running.cancelled():
            self._running.result()

    def offer(self, pairs: Iterable[tuple[int, Evaluation]]) -> None:
        """Take scores that have just been committed, with their sequence numbers.

        Never blocks: what is too much to hold is read from the store when its time comes.
        """
        if not self._sends:
            return
        fresh = [pair for pair in pairs if pair[0] > self._begin]
        if self._deliveries:
            self._batches.window.add(fresh)
        self._note_latest(max((seq for seq, _ in fresh), default=0))

    def _note_latest(self, seq: int) -> None:
        """There are scores in the outbox up to this sequence number."""
        self._latest = max(self._latest, seq)
        for filing in self._filings:
            filing.offer(self._latest)
        self._news.set()

    @property
    def _sends(self) -> bool:
        """Whether it is this server that sends scores."""
        return self._lead is None or self._lead.is_leader

    def forward(
        self, signal: Signal, request: Message | bytes, headers: Headers = ()
    ) -> "asyncio.Future[None]":
        """Send a received request on to all exporters; the future is done when each delivered or
        refused it for good.

        `headers` are those that it came with.

        Raises RetryableError at once when a queue is full. The future is cancelled when the sender
        stops before.
        """
        body = request if isinstance(request, bytes) else request.SerializeToString()
        return forward_to_all(self._forwardings, signal, body, headers)

    def behind(self) -> dict[str, int]:
        """How many scores each exporter has still to deliver, by its name; where another server
        sends them, none.
        """
        if not self._sends:
            names = [x.name for x in self._deliveries] + [x.name for x in self._filings]
            return dict.fromkeys(names, 0)
        behind = {x.name: self._latest - self._cursors.get(x.name, 0) for x in self._deliveries}
        return behind | {x.name: x.behind for x in self._filings}

    @property
    def undelivered(self) -> dict[str, int]:
        """How many scores each exporter could not deliver, as of the last `look`; those of former
        exporters too.
        """
        return dict.fromkeys(self.behind(), 0) | self._resending.counts

    @property
    def notice(self) -> str | None:
        """What a person is to know of what could not be delivered; None: nothing."""
        return self._resending.notice

    async def look(self) -> None:
        """Count what could not be delivered, and begin to send again what somebody has asked
        for.
        """
        await self._resending.look()

    def _ages_s(self) -> dict[tuple[str, ...], float]:
        """How old the oldest score is that has still to be sent, by exporter, as far as
        memory contains it.
        """
        behind, now_ns = self.behind(), self._around.clock_ns()
        oldest = {
            x.name: self._batches.window.oldest_ns(self._cursors.get(x.name, 0))
            for x in self._deliveries
        }
        oldest |= {x.name: x.oldest_ns for x in self._filings}
        return {
            (name,): (
                max(0.0, (now_ns - since_ns) / 1e9)
                if since_ns is not None and behind[name]
                else 0.0
            )
            for name, since_ns in oldest.items()
        }

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything offered and forwarded has left; False: not within the time.

        Scores whose span a tool has not got yet go after the next start.
        """
        self._draining = True
        try:
            async with asyncio.timeout(timeout_s):
                while self._is_behind() or any(x.waiting for x in self._forwardings):
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return False
        finally:
            self._draining = False
        return True

    def _is_behind(self) -> bool:
        return self._sends and (
            any(self._latest > self._cursors.get(x.name, 0) for x in self._deliveries)
            or any(x.unread for x in self._filings)
        )

    async def stop(self) -> None:
        """Stop sending and close the exporters; what has not left goes after the next start.

        Idempotent.
        """
        self._stopped = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        for forwarding in self._forwardings:
            forwarding.abandon()
        for delivery in self._deliveries:
            await delivery.close()
        for filing in self._filings:
            await filing.close()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for forwarding in self._forwardings:
                for work in forwarding.consumers(self._progress.set):
                    tasks.create_task(work)
            await (
                self._send_scores() if self._lead is None else self._lead.only(self._send_scores)
            )

    async def _send_scores(self) -> None:
        self._cursors.clear()
        if self._outbox.is_shared:
            await self._take_up_news()
        async with asyncio.TaskGroup() as tasks:
            for delivery in self._deliveries:
                tasks.create_task(self._lasting(partial(self._export, delivery)))
            for filing in self._filings:
                tasks.create_task(self._lasting(partial(filing.run, self._progress.set)))
            for resend in self._resending.loops():
                tasks.create_task(self._lasting(resend))
            while self._outbox.is_shared:
                await self._around.sleep(_LOOK_EVERY_S)
                if not self._draining:
                    await self._take_up_news()
            await asyncio.Event().wait()

    async def _take_up_news(self) -> None:
        """Send what other servers have put into the outbox, too."""
        self._note_latest(await self._patience.ask(self._outbox.newest_seq))

    async def _lasting(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work`, which ends only by a fault nobody foresaw, from its place in the outbox on,
        again and again.
        """
        while True:
            try:
                await work()
            except Exception:  # noqa: BLE001 - one exporter must not stop the server
                _log.exception("an exporter met a fault of ours; it is tried again in a minute")
            await self._around.sleep(60.0)

    async def _export(self, delivery: Delivery) -> None:
        cursor = await first_place(self._patience, self._outbox, delivery.name, self._begin)
        counts = events.CumulativeCounts(self._around.clock_ns())
        while True:
            self._cursors[delivery.name] = cursor
            self._batches.window.forget(min(self._cursors.get(x.name, 0) for x in self._deliveries))
            self._progress.set()
            await self._wait_for_more(cursor)
            batch = await self._patience.get(partial(self._batches.after, cursor, self._latest))
            self._count_lost(delivery.name, batch, cursor)
            signals = self._signals_to(delivery.name)
            lost = await batches.send(
                delivery, batch.parts, self._around.clock_ns(), signals=signals
            )
            self._count(delivery.name, batch, lost)
            cursor = batch.last_seq
            await self._patience.ask(self._outbox.set_cursor, delivery.name, cursor, lost)
            # Remembered before it is counted: after a crash a batch may be missing from the
            # histogram, but never twice.
            if self._config.emit.metrics and "metrics" in signals:
                now_ns = self._around.clock_ns()
                for part in batch.parts:
                    counted = events.histogram_request(part.evaluations, counts, now_ns)
                    if counted and not await delivery.deliver(
                        "metrics", counted, part.headers, at_most_once=True
                    ):
                        counts.add(part.evaluations, now_ns)

    async def _wait_for_more(self, cursor: int) -> None:
        """Until there are scores after `cursor`, and either a batch full of them or the flush
        time-out has passed.
        """
        while cursor >= self._latest:
            self._news.clear()
            await self._news.wait()
        if not self._draining and not self._has_full_batch(cursor):
            await self._around.sleep(self._config.batch.flush_timeout / 1e9)

    def _has_full_batch(self, cursor: int) -> bool:
        """Whether a batch full of scores follows; what is in the store alone is not looked at, and
        counts as scores.
        """
        max_size, window = self._config.batch.max_size, self._batches.window
        if self._latest - cursor < max_size:
            return False
        return window.has_full_batch(cursor, max_size) or not window.after(cursor, 1)

    def _signals_to(self, name: str) -> tuple[Signal, ...]:
        """What an exporter gets of each score."""
        taken = self._exporters[name].signals
        return tuple(
            x for x in SIGNALS if x in taken and (x != "traces" or name not in self._without_spans)
        )

    def _ways_again(self) -> dict[str, Again]:
        """By exporter, how scores are sent again that it could not deliver."""

        async def send_again(
            delivery: Delivery, rows: Sequence[tuple[Undelivered, Evaluation, bool]]
        ) -> list[Undelivered]:
            pairs = [(note, evaluation) for note, evaluation, _ in rows]
            now_ns, signals = self._around.clock_ns(), self._signals_to(delivery.name)
            by_tenant = self._by_tenant
            return await batches.send_again(
                delivery, self._config, pairs, now_ns, signals, by_tenant=by_tenant
            )

        ways: dict[str, Again] = {x.name: partial(send_again, x) for x in self._deliveries}
        return ways | {x.name: x.file_again for x in self._filings}

    def _count(self, name: str, batch: Batch, lost: Sequence[Undelivered]) -> None:
        """Count the scores of which something arrived, and those of which nothing did."""
        signals = self._signals_to(name)
        requests = [x for part in batch.parts for x in part.requests if x.signal in signals]
        carried = {seq for request in requests for seq in request.seqs}
        if count := len(carried) - len(lost):
            self._around.meter.add(declared.EXPORTER_SENT_SCORES, count, exporter=name)
        for reason, count in Counter(x.reason for x in lost).items():
            self._around.meter.add(
                declared.EXPORTER_DROPPED_SCORES, count, exporter=name, reason=reason
            )
        if lost:
            losses = f"{len(lost)} could not be delivered, {lost[0].reason}: {lost[0].error}"
            self._complaints.complain(
                f"{name}: scores", f"{losses}; `spanscore scores --undelivered` lists them"
            )

    def _count_lost(self, name: str, batch: Batch, cursor: int) -> None:
        lost = batch.last_seq - cursor - batch.count
        if lost > 0:
            _log.warning(
                "%s: %d scores are not in the store any more and were not sent: deleted by its"
                " retention, or damaged",
                name,
                lost,
            )
            self._around.meter.add(
                declared.EXPORTER_DROPPED_SCORES, lost, exporter=name, reason="retention"
            )


_Place: TypeAlias = tuple[str, int | None]

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - compared, not bound
_PORTS: Final = {"http": 80, "https": 443}


def without_spans(config: Config) -> dict[str, str]:
    """The OTLP exporters that get no evaluation spans, each with the tool that shows the scores in
    their place.

    The tool is "" where `evaluation_spans: false` leaves them out. A tool whose host and port an
    exporter has is behind that exporter. Another one gets its traces in a way that cannot be seen
    from here, mostly through the collector that an exporter sends to, so it is taken to be behind
    all of them.
    """
    network = {name: x for name, x in config.otlp_exporters.items() if isinstance(x, NetworkConfig)}
    places = {name: _place_of(x) for name, x in network.items()}
    found: dict[str, str] = {}
    for tool, sink in config.sinks.items():
        same = [name for name, place in places.items() if place == _place(sink.endpoint)]
        found |= dict.fromkeys(same or network, tool)
    left_out = {
        name: tool for name, tool in found.items() if network[name].evaluation_spans is None
    }
    return left_out | {name: "" for name, x in network.items() if x.evaluation_spans is False}


def _place_of(exporter: NetworkConfig) -> _Place | None:
    if isinstance(exporter, HttpConfig):
        return _place(exporter.traces_endpoint or exporter.endpoint)
    return _place(exporter.endpoint) if isinstance(exporter, GrpcConfig) else None


def _place(endpoint: str) -> _Place | None:
    """Host and port; None where they are not known, as of a gRPC target with a scheme of its own.

    >>> _place("https://phoenix.example/"), _place("localhost:4317")
    (('phoenix.example', 443), ('127.0.0.1', 4317))
    """
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    host = (parts.hostname or "").lower()
    return ("127.0.0.1" if host in _LOOPBACK else host, port) if host else None
