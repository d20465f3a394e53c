"""OTLP from Kafka: messages in, committed offsets back."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.aio import AIOConsumer
from google.protobuf.message import Message

from spanscore import threads
from spanscore.errors import PermanentError, RetryableError
from spanscore.model.span import Delivery, Headers, Partition, of_tenant, tenant_in
from spanscore.otlp.signal import WIRE, Signal
from spanscore.receive.auth import Tenancy, UnauthenticatedError
from spanscore.receive.config import Kafka
from spanscore.receive.exports import Decoded, Exports, Intake, items_in
from spanscore.receive.kafka_clients import (
    GroupProtocol,
    Rekeyer,
    TooLargeError,
    client_settings,
    consumer_settings,
    log_ends,
)
from spanscore.telemetry import Complaints, Meter, declared

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 64
"""Messages that are taken together: they share commits of the journal."""

_POLL_S: Final = 0.1
_TAKING_S: Final = 1.0
"""How long the messages in hand may take before others are held back, and polling goes on."""

_RETRY_S: Final = 1.0
_STARTS: Final = 5
"""How often committed offsets are asked for, since leaders change while brokers go away."""

_COMMIT_EVERY_S: Final = 1.0
_LOOK_EVERY_S: Final = 5.0
_GIVE_UP_S: Final = 10.0
"""How long what is being scored may take when its partition is taken away, of the five minutes in
which a member must poll.
"""

_ABOUT: Final = "Kafka"
_NOT_SUPPORTED: Final = "not supported"
"""What librdkafka says of a broker without the newer protocol of groups (KIP-848), whose code is
that of any fatal error.
"""


class KafkaReceiver:
    """A member of a consumer group. Belongs to one event loop.

    The broker is the durable copy: the offset of a message is committed when the journal has let go
    of its row. Whatever happens before that, it is read again.
    """

    def __init__(
        self, config: Kafka, exports: Exports, intake: Intake, meter: Meter, tenancy: Tenancy
    ) -> None:
        self._config = config
        self._exports = exports
        self._intake = intake
        self._meter = meter
        self._tenancy = tenancy
        self._admin = AdminClient(client_settings(config))
        self._rekeyer = (
            None
            if config.rekeyed_topic is None
            else Rekeyer(config, config.rekeyed_topic, self._admin)
        )
        self._signals: dict[str, tuple[Signal, bool]] = {
            **dict.fromkeys(config.traces.topics, ("traces", config.traces.is_json)),
            **dict.fromkeys(config.logs.topics, ("logs", config.logs.is_json)),
        }
        self._offsets: dict[Partition, PartitionOffsets] = {}
        self._work: dict[asyncio.Task[None], Partition] = {}
        self._ends: dict[Partition, int] = {}
        self._missing: dict[Partition, int] = {}
        self._to_seek: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._next_commit_s = 0.0
        self._give_up_s = _GIVE_UP_S
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._complaints = Complaints(time.time_ns)
        self._faults: dict[str, str] = {}
        meter.watch(declared.RECEIVER_KAFKA_LAG, lambda: lag(self._ends, self._offsets))

    @property
    def notice(self) -> str | None:
        """What does not work; None where all does."""
        return "; ".join(f"{_ABOUT}: {x}" for x in self._faults.values()) or None

    def start(self) -> None:
        """Begin to read; a broker that is away is waited for."""
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._look())]

    async def stop(self, grace_s: float) -> None:
        """Leave the group; what is not done by then is read again, by whoever has its partition."""
        self._give_up_s = min(_GIVE_UP_S, grace_s)
        self._stopping.set()
        if self._tasks:
            reading, looking = self._tasks
            looking.cancel()
            await asyncio.wait([reading], timeout=self._give_up_s + _GIVE_UP_S)
        if self._rekeyer is not None:
            self._rekeyer.close()

    async def _run(self) -> None:
        """Read until it is stopped; a consumer that has failed is replaced."""
        protocol: GroupProtocol = "consumer"
        while not self._stopping.is_set():
            try:
                await self._read(protocol)
            except KafkaException as error:
                if protocol == "consumer" and _NOT_SUPPORTED in error.args[0].str():
                    protocol = "classic"
                    _log.info("the brokers have no group.protocol=consumer: it is classic")
                    continue
                self._complain("reading", f"reading failed: {error.args[0].str()}")
            except Exception:  # noqa: BLE001 - whatever it is, the next consumer may do without
                _log.exception("reading from Kafka failed, and begins again")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _LOOK_EVERY_S)

    async def _read(self, protocol: GroupProtocol) -> None:
        """Poll, whatever becomes of what was read, until it is stopped or fails."""
        settings = consumer_settings(self._config, protocol)
        consumer = AIOConsumer(
            {**settings, "error_cb": _ignore, "on_commit": self._committed}, max_workers=4
        )
        try:
            await consumer.subscribe(
                self._config.topics,
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._lost,
            )
            while not self._stopping.is_set():
                await self._regulate(consumer)
                for message in await consumer.consume(_AT_ONCE, timeout=_POLL_S):
                    self._receive(message)
                await self._seek_missing(consumer)
                if time.monotonic() >= self._next_commit_s:
                    await self._commit(consumer, self._offsets, asynchronous=True)
                    self._next_commit_s = time.monotonic() + _COMMIT_EVERY_S
        finally:
            with suppress(KafkaException):
                await consumer.close()
            await self._drop(list(self._offsets))

    async def _regulate(self, consumer: AIOConsumer) -> None:
        """Hold messages back while those in hand are not taken, or the journal has no room."""
        if self._work:
            await asyncio.wait(self._work, timeout=_TAKING_S)
        if self._work or not await self._intake.has_room():
            flowing = self._offsets.keys() - self._paused
            if flowing:
                await consumer.pause([TopicPartition(*x) for x in flowing])
                self._paused |= flowing
        elif self._paused:
            await consumer.resume([TopicPartition(*x) for x in self._paused])
            self._paused.clear()

    def _receive(self, message: Any) -> None:
        error = message.error()
        if error is not None:
            self._note(error)
            return
        place = (message.topic(), message.partition())
        offsets = self._offsets.get(place)
        if offsets is None:  # it was taken away meanwhile
            return
        self._forgive("reading")
        offset = message.offset()
        position = offset if offsets.position is None else offsets.position
        if offset < position:
            return  # it was taken already
        if offset > position and self._missing.get(place) != position:
            self._to_seek[place] = position
            return
        offsets.take(offset)
        delivery = Delivery(place, offset, partial(offsets.finish, offset))
        task = asyncio.create_task(self._take(message, delivery))
        self._work[task] = place
        task.add_done_callback(self._work.pop)

    async def _seek_missing(self, consumer: AIOConsumer) -> None:
        """Ask once more for what was passed over: no such message, or librdkafka has dropped it,
        as it may where partitions are paused while it fetches.
        """
        to_seek, self._to_seek = self._to_seek, {}
        for place, position in to_seek.items():
            _log.info("asks again for message %d of %s, partition %d", position, *place)
            self._missing[place] = position
            await consumer.seek(TopicPartition(*place, position))

    async def _take(self, message: Any, delivery: Delivery) -> None:
        """Take a message over, as often as it takes."""
        while True:
            try:
                await self._take_once(message, delivery)
            except RetryableError as error:
                self._complain("taking", f"messages wait: {error}")
                await asyncio.sleep(_RETRY_S)
            except Exception:  # noqa: BLE001 - it would hold up its partition for ever
                about = "%s, partition %d: the message at %d failed, and is left out"
                _log.exception(about, *delivery.partition, delivery.offset)
                delivery.done()
                return
            else:
                self._forgive("taking")
                return

    async def _take_once(self, message: Any, delivery: Delivery) -> None:
        body = message.value() or b""
        signal: Signal = "traces"
        headers: Headers = ()
        try:
            signal, as_json = self._form(message)
            headers = of_tenant(self._tenant(message))
            decoded = await self._exports.decode(signal, body, as_json=as_json)
        except RetryableError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is in a message must not hold up others
            await self._put_aside(signal, body, error, tenant_in(headers))
            delivery.done()
            return
        rest = await self._rekeyed(message, signal, decoded)
        if rest is None:
            delivery.done()
            return
        await self._intake.accept(signal, rest.body, rest.request, headers, delivery)
        self._exports.count("kafka", signal, rest)

    def _form(self, message: Any) -> tuple[Signal, bool]:
        """The signal of a message, and whether it is JSON. Raises ValueError."""
        if message.topic() in self._signals:
            return self._signals[message.topic()]
        named = header(message.headers() or [], SIGNAL_HEADER)
        if named == [b"traces"]:
            return "traces", False
        if named == [b"logs"]:
            return "logs", False
        raise ValueError(f"the header {SIGNAL_HEADER} is neither traces nor logs")

    def _tenant(self, message: Any) -> str:
        try:
            return self._tenancy.of(None, header(message.headers() or [], self._tenancy.header))
        except UnauthenticatedError as error:
            raise ValueError(str(error)) from error

    async def _put_aside(self, signal: Signal, body: bytes, error: Exception, tenant: str) -> None:
        try:
            await self._exports.put_aside("kafka", signal, body, error, tenant)
        except PermanentError as refused:
            _log.warning("a message is left out: %s", refused)
            self._exports.refused("kafka", signal, refused)

    async def _rekeyed(self, message: Any, signal: Signal, decoded: Decoded) -> Decoded | None:
        """What is left of a message once that of traces is written again, keyed by them; None where
        nothing is.
        """
        ids = trace_ids(signal, decoded.request)
        is_right = is_keyed(message.key(), ids) or not ids - {b""}
        if self._rekeyer is None or is_right or message.topic() not in self._signals:
            return decoded
        parts = by_trace(signal, decoded.request)
        rest = parts.pop(b"", None)
        others = [x for x in message.headers() or [] if x[0].lower() != SIGNAL_HEADER]
        bodies = {key.hex().encode(): part.SerializeToString() for key, part in parts.items()}
        try:
            await self._rekeyer.send(bodies, [*others, (SIGNAL_HEADER, signal.encode())])
        except TooLargeError as error:
            self._complain("size", f"a message is read where it is, {error}; see max.message.bytes")
            return decoded
        self._meter.add(declared.RECEIVER_KAFKA_REKEYED_MESSAGES, signal=signal)
        if rest is None:
            return None
        return Decoded(rest.SerializeToString(), rest, decoded.refused, items_in(signal, rest))

    async def _assigned(self, consumer: AIOConsumer, partitions: Sequence[TopicPartition]) -> None:
        """Go on from the committed offsets."""
        for found in await self._starts(consumer, partitions):
            start = found.offset if found.offset >= 0 else None
            self._offsets[found.topic, found.partition] = PartitionOffsets(start)
        self._forgive("reading")
        _log.info("reads %d partitions", len(self._offsets))

    async def _starts(
        self, consumer: AIOConsumer, partitions: Sequence[TopicPartition]
    ) -> Sequence[TopicPartition]:
        """Where reading begins; where that is the end, it is committed, or a restart would leave
        out what came meanwhile.
        """
        for _ in range(_STARTS):
            try:
                committed: list[TopicPartition] = await consumer.committed(
                    list(partitions), timeout=_GIVE_UP_S
                )
                for found in committed:
                    if found.offset < 0:
                        low, high = await consumer.get_watermark_offsets(found, timeout=_GIVE_UP_S)
                        is_latest = self._config.initial_offset == "latest"
                        found.offset = high if is_latest else low
                        if is_latest:
                            await consumer.commit(offsets=[found], asynchronous=False)
            except KafkaException as error:
                _log.warning("where to begin is not known yet (%s)", error.args[0].str())
                await asyncio.sleep(_RETRY_S)
            else:
                return committed
        return partitions

    async def _revoked(self, consumer: AIOConsumer, partitions: Sequence[TopicPartition]) -> None:
        """Finish what is being scored, commit what is done, and forget the rest."""
        places = [(x.topic, x.partition) for x in partitions]
        work = [task for task, place in self._work.items() if place in places]
        if work:
            await asyncio.wait(work, timeout=_TAKING_S)
        await self._intake.give_up(places, self._give_up_s)
        await self._commit(consumer, places, asynchronous=False)
        await self._drop(places)

    async def _lost(self, _consumer: AIOConsumer, partitions: Sequence[TopicPartition]) -> None:
        """Others have them already."""
        await self._drop([(x.topic, x.partition) for x in partitions])

    async def _drop(self, places: Collection[Partition]) -> None:
        """Forget all of these partitions: it is read again, here or elsewhere."""
        work = [task for task, place in self._work.items() if place in places]
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        self._intake.forget(places)
        for place in places:
            self._offsets.pop(place, None)
            self._missing.pop(place, None)
            self._to_seek.pop(place, None)
            self._paused.discard(place)

    async def _commit(
        self, consumer: AIOConsumer, places: Iterable[Partition], *, asynchronous: bool
    ) -> None:
        due = []
        for place in places:
            offsets = self._offsets.get(place)
            if offsets is not None and offsets.committable != offsets.committed:
                offsets.committed = offsets.committable
                due.append(TopicPartition(*place, offsets.committable))
        if due:
            try:
                await consumer.commit(offsets=due, asynchronous=asynchronous)
            except KafkaException as error:
                await self._committed(error.args[0], due)

    async def _committed(
        self, error: KafkaError | None, partitions: Sequence[TopicPartition]
    ) -> None:
        """What could not be committed is committed the next time."""
        if error is None:
            return
        _log.debug("offsets cannot be committed now: %s", error.str())
        for found in partitions:
            if (offsets := self._offsets.get((found.topic, found.partition))) is not None:
                offsets.committed = None

    async def _look(self) -> None:
        """Ask how far the partitions go, which shows whether a broker answers."""
        while True:
            try:
                self._ends = await log_ends(self._admin, list(self._offsets))
                self._forgive("brokers")
            except KafkaException as error:
                where = ", ".join(self._config.brokers)
                why = error.args[0].str()
                self._complain("brokers", f"no broker answers at {where} ({why}): nothing is read")
            await threads.next_multiple(_LOOK_EVERY_S)

    def _note(self, error: KafkaError) -> None:
        """Look at an error that came in place of a message. Raises KafkaException if fatal."""
        if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 - as the package has it
            raise KafkaException(error)
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            _log.debug("%s", error.str())  # it is read once it is there
        else:
            self._complain("reading", error.str())

    def _complain(self, about: str, what: str) -> None:
        self._faults[about] = what
        self._complaints.complain(f"{_ABOUT}, {about}", what)

    def _forgive(self, about: str) -> None:
        self._faults.pop(about, None)
        if self._complaints.is_over(f"{_ABOUT}, {about}"):
            _log.info("%s, %s: works again", _ABOUT, about)


async def _ignore(error: Any) -> None:
    _log.debug("%s", error)


SIGNAL_HEADER: Final = "otelcol.signal"
"""The header by which the collector tells signals in one topic apart (`signal_header`)."""

_ID_BYTES: Final = 16


class PartitionOffsets:
    """The messages of a partition that were read, up to which all are done."""

    def __init__(self, start: int | None = None) -> None:
        """`start` is where reading begins, None where that is not known."""
        self._waiting: deque[int] = deque()
        self._done: set[int] = set()
        self._next = start
        self.committed = start
        """What was committed last."""

    @property
    def position(self) -> int | None:
        """The offset of the message that is read next; None where none was read yet."""
        return self._next

    @property
    def committable(self) -> int | None:
        """The offset from which a restart must read; None where nothing was read yet."""
        return self._waiting[0] if self._waiting else self._next

    def take(self, offset: int) -> None:
        """A message was read; they come in their order."""
        self._waiting.append(offset)
        self._next = offset + 1

    def finish(self, offset: int) -> None:
        """Nothing needs this message any more."""
        self._done.add(offset)
        while self._waiting and self._waiting[0] in self._done:
            self._done.remove(self._waiting.popleft())


def header(headers: Iterable[tuple[str, bytes | None]], name: str) -> list[bytes]:
    """The values of a header, whose name may be in any case."""
    return [value for key, value in headers if key.lower() == name and value is not None]


def is_keyed(key: bytes | None, trace_ids: Iterable[bytes]) -> bool:
    """Whether a message contains this one trace, with its id as the key, as the collector has it.

    >>> is_keyed(b"61" * 16, [b"a" * 16])
    True
    """
    return key is not None and [x.hex().encode() for x in trace_ids] == [key.lower()]


def by_trace(signal: Signal, request: Any) -> dict[bytes, Message]:
    """A request as one for each trace id in it; what has none that could be one is under b""."""
    found: dict[bytes, Message] = {}
    of_traces = signal == "traces"
    for group in request.resource_spans if of_traces else request.resource_logs:
        for scoped in group.scope_spans if of_traces else group.scope_logs:
            parts: dict[bytes, Any] = {}
            for item in scoped.spans if of_traces else scoped.log_records:
                key = item.trace_id if len(item.trace_id) == _ID_BYTES else b""
                if key not in parts:
                    part = found.setdefault(key, WIRE[signal].request())
                    parts[key] = _scope_in(signal, part, group, scoped)
                parts[key].append(item)
    return found


def _scope_in(signal: Signal, part: Any, group: Any, scoped: Any) -> Any:
    """The empty list of items of this resource and scope in a request."""
    if signal == "traces":
        resource = part.resource_spans.add(resource=group.resource, schema_url=group.schema_url)
        return resource.scope_spans.add(scope=scoped.scope, schema_url=scoped.schema_url).spans
    resource = part.resource_logs.add(resource=group.resource, schema_url=group.schema_url)
    return resource.scope_logs.add(scope=scoped.scope, schema_url=scoped.schema_url).log_records


def trace_ids(signal: Signal, request: Any) -> set[bytes]:
    """The ids of the traces in a request; b"" is among them where an item has none."""
    if signal == "traces":
        items = (
            span.trace_id
            for group in request.resource_spans
            for scoped in group.scope_spans
            for span in scoped.spans
        )
    else:
        items = (
            record.trace_id
            for group in request.resource_logs
            for scoped in group.scope_logs
            for record in scoped.log_records
        )
    return {x if len(x) == _ID_BYTES else b"" for x in items}


def lag(
    ends: Mapping[tuple[str, int], int], offsets: Mapping[tuple[str, int], PartitionOffsets]
) -> dict[tuple[str, ...], float]:
    """Messages that are not read yet, by topic and partition, where both ends are known."""
    found: dict[tuple[str, ...], float] = {}
    for partition, end in ends.items():
        position = offsets[partition].position if partition in offsets else None
        if position is not None:
            found[partition[0], str(partition[1])] = float(max(0, end - position))
    return found
