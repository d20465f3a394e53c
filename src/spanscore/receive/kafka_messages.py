"""Kafka messages: which trace each is of, and which are done."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from spanscore.otlp.signal import WIRE, Signal

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
