"""Topics of a test's own, and messages as the collector writes them."""

import base64
import time
import uuid

from google.protobuf.json_format import MessageToDict

from spanscore.model.json import dumps

DEADLINE_S = 60


class Topics:
    """The topics of one test, and what writes into them."""

    def __init__(self, cluster, partitions):
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.cluster = cluster
        name = uuid.uuid4().hex[:8]
        self.spans, self.logs, self.rekeyed = (f"{name}-{x}" for x in ("spans", "logs", "rekeyed"))
        self.group = f"{name}-group"
        where = {"bootstrap.servers": ",".join(cluster.addresses), "log_level": 0}
        self.admin = AdminClient(where)
        self._producer = Producer({**where, "partitioner": "fnv1a_random", "acks": "all"})
        self.create(self.spans, partitions)
        self.create(self.logs, partitions)

    def create(self, topic, partitions):
        from confluent_kafka.admin import NewTopic

        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(DEADLINE_S)

    def add_partitions(self, topic, partitions):
        from confluent_kafka.admin import NewPartitions

        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(DEADLINE_S)

    def settings(self, **changed):
        """`receive.kafka` for these topics."""
        given = {
            "brokers": self.cluster.addresses,
            "group_id": self.group,
            "traces": {"topics": [self.spans]},
            "logs": {"topics": [self.logs]},
            "rekeyed_topic": self.rekeyed,
        }
        return {"receive": {"kafka": given | changed}}

    def write(self, requests, *, keyed=True, topic=None, encode=None):
        """A message for each request, which contains one trace if it is `keyed`."""
        for request in requests:
            key = trace_id_of(request).hex() if keyed else None
            body = (encode or type(request).SerializeToString)(request)
            self._producer.produce(topic or self.spans, body, key)
        assert not self._producer.flush(DEADLINE_S)

    def write_bytes(self, body, *, topic=None, **options):
        self._producer.produce(topic or self.spans, body, **options)
        assert not self._producer.flush(DEADLINE_S)

    def committed(self):
        """The sum of the offsets that the group has committed."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        found = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)])
        return sum(x.offset for x in found[self.group].result(DEADLINE_S).topic_partitions)


def trace_id_of(request):
    return request.resource_spans[0].scope_spans[0].spans[0].trace_id


def as_json(request):
    """As OTLP has it, with ids in hex."""
    found = MessageToDict(request)
    for group in found["resourceSpans"]:
        for scoped in group["scopeSpans"]:
            for span in scoped["spans"]:
                for key in {"traceId", "spanId", "parentSpanId"} & span.keys():
                    span[key] = base64.b64decode(span[key]).hex()
    return dumps(found).encode()


def until(holds, seconds=DEADLINE_S):
    """Wait until something holds."""
    deadline_s = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def attribute(span, key):
    return next(iter(next(x["value"] for x in span["attributes"] if x["key"] == key).values()))
