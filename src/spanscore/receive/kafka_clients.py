"""Settings of Kafka's clients, and the producer that keys messages by their trace."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from spanscore.errors import RetryableError
from spanscore.model.span import Partition
from spanscore.receive.config import Kafka

_log = logging.getLogger(__name__)

GroupProtocol: TypeAlias = Literal["consumer", "classic"]

_PATIENCE_S: Final = 5.0
_BROKERS_DEFAULT: Final = -1
_QUEUED_KIB: Final = 32 * 2**10
_MAX_MESSAGE_BYTES: Final = 100 * 2**20
"""Librdkafka's own bound of a message that is sent; the broker's is what counts."""


def client_settings(config: Kafka) -> dict[str, Any]:
    """What all clients have in common, by the names of librdkafka."""
    tls, sasl = config.tls, config.auth.sasl if config.auth else None
    is_secured = tls is not None and not tls.insecure
    settings: dict[str, Any] = {
        "bootstrap.servers": ",".join(config.brokers),
        "client.id": config.client_id,
        "security.protocol": f"{'sasl_' if sasl else ''}{'ssl' if is_secured else 'plaintext'}",
        "log_level": 2,  # what goes wrong is logged in our words, once a minute
        "error_cb": _ignore,
    }
    if sasl is not None:
        settings["sasl.mechanism"] = sasl.mechanism
        settings["sasl.username"] = sasl.username
        settings["sasl.password"] = sasl.password.get_secret_value()
    if tls is not None and is_secured:
        settings["enable.ssl.certificate.verification"] = not tls.insecure_skip_verify
        files = {
            "ssl.ca.location": tls.ca_file,
            "ssl.certificate.location": tls.cert_file,
            "ssl.key.location": tls.key_file,
        }
        settings |= {name: str(path) for name, path in files.items() if path is not None}
    return settings


def _ignore(error: KafkaError) -> None:
    _log.debug("%s", error)


def consumer_settings(config: Kafka, protocol: GroupProtocol) -> dict[str, Any]:
    """What a consumer is made with.

    Partitions with one number go to one member whatever their topic is, so that spans and log
    records of a trace, and what was keyed anew, come together.
    """
    assignor = "group.remote.assignor" if protocol == "consumer" else _CLASSIC_ASSIGNOR
    return {
        **client_settings(config),
        "group.id": config.group_id,
        "group.protocol": protocol,
        assignor: "range",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",  # also where retention was faster than we are
        "topic.metadata.refresh.interval.ms": 10_000,  # partitions that are added
        "queued.max.messages.kbytes": _QUEUED_KIB,
    }


_CLASSIC_ASSIGNOR: Final = "partition.assignment.strategy"


async def log_ends(admin: AdminClient, partitions: Collection[Partition]) -> dict[Partition, int]:
    """The offset after the last message of each partition, where its leader gives it.

    Raises KafkaException where no broker answers, also if there are no partitions.
    """
    await asyncio.wrap_future(admin.describe_cluster(request_timeout=_PATIENCE_S))
    if not partitions:
        return {}
    asked = {TopicPartition(*x): OffsetSpec.latest() for x in partitions}
    found = admin.list_offsets(asked, request_timeout=_PATIENCE_S)
    ends = await asyncio.gather(*map(asyncio.wrap_future, found.values()), return_exceptions=True)
    if any(isinstance(x, BaseException) for x in ends):
        # it does not notice by itself that a partition has another leader
        await asyncio.to_thread(admin.list_topics, timeout=_PATIENCE_S)
    return {
        (x.topic, x.partition): y.offset
        for x, y in zip(found, ends, strict=True)
        if not isinstance(y, BaseException)
    }


class TooLargeError(Exception):
    """The broker takes no message of this size."""


class Rekeyer:
    """Writes messages keyed by their trace. Belongs to one event loop."""

    def __init__(self, config: Kafka, topic: str, admin: AdminClient) -> None:
        self._config = config
        self._topic = topic
        self._admin = admin
        self._is_there = False
        self._polling: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "kafka-producer")
        self._producer = Producer(
            {
                **client_settings(config),
                "acks": "all",
                # a new partition that refuses the first batch takes the second, and then calls the
                # first, sent again, a duplicate: it would be lost, where a repeated span is not
                "enable.idempotence": False,
                "partitioner": "fnv1a_random",  # that of the collector's exporter
                "message.max.bytes": _MAX_MESSAGE_BYTES,
                "delivery.timeout.ms": 30_000,
                "linger.ms": 5,
            }
        )

    async def send(
        self, parts: Mapping[bytes, bytes], headers: Sequence[tuple[str, bytes | None]]
    ) -> None:
        """Write messages by their keys, and wait until the brokers have them.

        Raises RetryableError, or TooLargeError where a broker never takes one.
        """
        await self._make_topic()
        sent = [self._produce(key, body, headers) for key, body in parts.items()]
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        _refuse(x for x in await asyncio.gather(*sent) if x is not None)

    def _produce(
        self, key: bytes, body: bytes, headers: Sequence[tuple[str, bytes | None]]
    ) -> "asyncio.Future[KafkaError | None]":
        """Have a message written; the future gives what went wrong, or None."""
        loop = asyncio.get_running_loop()
        sent: asyncio.Future[KafkaError | None] = loop.create_future()

        def settle(error: KafkaError | None) -> None:
            if not sent.done():  # nobody waits for it any more
                sent.set_result(error)

        def delivered(error: KafkaError | None, _message: object) -> None:
            loop.call_soon_threadsafe(settle, error)

        try:
            self._producer.produce(
                self._topic, body, key, headers=list(headers), on_delivery=delivered
            )
        except BufferError as error:
            raise RetryableError("Kafka's producer is busy", why="busy") from error
        except KafkaException as error:
            settle(error.args[0])
        return sent

    async def _poll(self) -> None:
        """Have the producer tell what it has sent, until nothing is under way."""
        loop = asyncio.get_running_loop()
        while len(self._producer):
            await loop.run_in_executor(self._thread, self._producer.poll, 0.1)

    def close(self) -> None:
        """Let go of its thread; what was not sent is sent when its message is read again."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _make_topic(self) -> None:
        """Make the topic if it is not there, with as many partitions as the largest source."""
        if self._is_there:
            return
        try:
            topics = (await asyncio.to_thread(self._admin.list_topics, timeout=_PATIENCE_S)).topics
            if self._topic not in topics:
                sources = [x for x in self._config.topics if x in topics]
                count = max(len(topics[x].partitions) for x in sources)
                new = NewTopic(self._topic, count, _BROKERS_DEFAULT)
                made = self._admin.create_topics([new], operation_timeout=_PATIENCE_S)
                await asyncio.wrap_future(made[self._topic])
                _log.info("made the topic %s with %d partitions", self._topic, count)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise RetryableError(
                    f"the topic {self._topic} (receive.kafka.rekeyed_topic) is not there and"
                    f" cannot be made ({error.args[0].str()}); make it with as many partitions as"
                    " the topics that are read",
                    why="kafka",
                ) from error
        self._is_there = True


def _refuse(errors: Iterable[KafkaError]) -> None:
    """Raise what a failed message needs; nothing where there are no errors."""
    for error in errors:
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            raise TooLargeError(error.str())
        raise RetryableError(f"Kafka does not take a message: {error.str()}", why="kafka")
