"""Kafka behind proxies, and a producer that plays the collector's exporter to it."""

import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from load import Message

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "kafka")]
_PARTITIONS = 6
_TOPIC = "otlp_spans"
_WITHIN_S = 60
_NEVER_MS = 30 * 60 * 1000
_UNKEYED = 0.2
"""The share of traces that come in messages with others, without a key."""
_BATCH = 5
_FLUSH_S = 1.0


class Brokers:
    """Three brokers, of which clients and the others see proxies."""

    def __init__(self, folder: Path, proxies) -> None:
        """Start them. Needs Java and Maven, as `tests/live/kafka/broker.py` says."""
        from broker import Cluster as Kafka
        from reserved_ports import free_ports

        self._kafka = Kafka(folder, free_ports(3), free_ports(3))
        self.brokers = self._kafka.brokers
        self.links = [proxies.link(f"broker-{x.node}", x.port) for x in self.brokers]
        for broker, link in zip(self.brokers, self.links, strict=True):
            known = f"advertised.listeners=PLAINTEXT://127.0.0.1:{broker.port}"
            text = broker.properties.read_text()
            broker.properties.write_text(
                text.replace(known, known.replace(str(broker.port), str(link.port)))
            )
        self._kafka.start()
        self._make_topic()

    @property
    def addresses(self) -> list[str]:
        """Where the proxies listen."""
        return [f"127.0.0.1:{x.port}" for x in self.links]

    def settings(self) -> dict:
        """What a replica's `receive` has besides."""
        return {"kafka": {"brokers": self.addresses, "logs": {"topics": []}}}

    def kill(self) -> None:
        """End all of them."""
        self._kafka.kill()

    def _make_topic(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": ",".join(self.addresses), "log_level": 0})
        made = admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 3)])
        made[_TOPIC].result(_WITHIN_S)


class Writer:
    """Writes each trace under its id, and some together without one; acknowledged by all."""

    def __init__(self, addresses: list[str]) -> None:
        from confluent_kafka import Producer

        self._counts: Counter[str] = Counter()
        self._batch: list[Message] = []
        self._batch_since_s = 0.0
        self._producer = Producer(
            {
                "bootstrap.servers": ",".join(addresses),
                "enable.idempotence": True,  # with acks=all
                "partitioner": "fnv1a_random",
                "message.timeout.ms": _NEVER_MS,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        self._closed = threading.Event()
        self._polling = threading.Thread(target=self._poll, daemon=True)
        self._polling.start()

    def send(self, message: Message) -> None:
        """Have a request written."""
        trace_id = message.turn.trace_id
        if random.Random(trace_id).random() >= _UNKEYED:
            self._write([message], trace_id)
        else:
            self._batch_since_s = self._batch_since_s or time.monotonic()
            self._batch.append(message)
        late = self._batch and time.monotonic() - self._batch_since_s > _FLUSH_S
        if late or len(self._batch) >= _BATCH:
            self._write_batch()

    def finish(self) -> None:
        """Wait until all are written."""
        self._write_batch()
        self._closed.set()
        self._polling.join()
        self._producer.flush()

    def counts(self) -> Counter[str]:
        """As those of `load.Sender`."""
        return self._counts

    def _write_batch(self) -> None:
        batch, self._batch, self._batch_since_s = self._batch, [], 0.0
        if batch:
            self._write(batch, None)

    def _write(self, messages: list[Message], key: str | None) -> None:
        def delivered(error, _message) -> None:
            self._counts["refused" if error else "acknowledged"] += len(messages)
            for message in messages:
                message.turn.answered(error and error.name())

        body = b"".join(x.body for x in messages)
        self._producer.produce(_TOPIC, body, key, on_delivery=delivered)

    def _poll(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(0.1)
