"""Inline mode: every request leaves again at once, but for the roots of agents, which wait for their scores."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.errors import RetryableError
from spanscore.export.attributes import annotate
from spanscore.export.config import Inline
from spanscore.export.sender import Sender
from spanscore.model.score import Evaluation
from spanscore.otlp.signal import Signal

_LOOK_EVERY_S = 0.1
_NO_SPAN = (b"", bytes(8))


@dataclass(frozen=True, slots=True)
class Held:
    """A root span held back, as a request of its own."""

    span_id: str
    since_ns: int
    request: ExportTraceServiceRequest


class Passing:
    """Passes requests on. Belongs to one event loop.

    `is_agent` says of a span and its scope whether it is an agent's. `left` is called with a request's row when all of
    it but what is held back has been delivered (or refused for good).
    """

    def __init__(
        self,
        config: Inline,
        sender: Sender,
        *,
        is_agent: Callable[[Any, Any], bool],
        left: Callable[[int], None],
        clock_ns: Callable[[], int],
    ) -> None:
        self._config = config
        self._sender = sender
        self._is_agent = is_agent
        self._left = left
        self._clock_ns = clock_ns
        self._held: OrderedDict[bytes, list[Held]] = OrderedDict()
        self._count = 0
        self._overflow: deque[tuple[Signal, Any, Callable[[], None]]] = deque()

    @property
    def held_roots(self) -> int:
        """How many root spans wait for their scores."""
        return self._count

    def require_room(self) -> None:
        """Raises RetryableError while requests wait for an exporter's queue."""
        if self._overflow:
            raise RetryableError("the backend takes requests more slowly than they come", retry_after_s=5.0)

    def pass_on(
        self, signal: Signal, row: int, body: bytes, request: Any, *, is_genai: Callable[[bytes], bool]
    ) -> None:
        """Send a request on; of traces that `is_genai`, by id, what may be the evaluated span is held back."""
        held = self.hold_roots(request, is_genai) if signal == "traces" else set()
        if not held:
            self._send(signal, body, partial(self._left, row))
            return
        rest = _without(request, held)
        if rest.resource_spans:
            self._send(signal, rest, partial(self._left, row))
        else:
            self._left(row)

    def hold_roots(self, request: Any, is_genai: Callable[[bytes], bool]) -> set[bytes]:
        """Hold back the agents' spans in a request and, of traces without any, the roots; returns their span ids.

        To be called by itself for a request whose rest had left before a restart.
        """
        spans = [x for x in _spans(request) if is_genai(x.span.trace_id)]
        agents = [x for x in spans if self._is_agent(x.span, x.scope)]
        for found in agents:
            self._hold(found)
        roots = [x for x in spans if x.span.parent_span_id in _NO_SPAN and x.span.trace_id not in self._held]
        for found in roots:
            self._hold(found)
        return {x.span.span_id for x in (*agents, *roots)}

    def _hold(self, found: "_Found") -> None:
        held = Held(found.span.span_id.hex(), self._clock_ns(), found.alone())
        self._held.setdefault(found.span.trace_id, []).append(held)
        self._count += 1

    def take(self, trace_id: bytes) -> list[Held]:
        """The roots held back of this trace; the caller must `release` them."""
        taken = self._held.pop(trace_id, [])
        self._count -= len(taken)
        return taken

    def release(
        self, held: Sequence[Held], evaluations: Mapping[str, Sequence[Evaluation]], left: Callable[[], None]
    ) -> None:
        """Send held roots on, each with the evaluations of its span id; `left` is called when all are delivered."""
        waiting = len(held)

        def one_left() -> None:
            nonlocal waiting
            waiting -= 1
            if waiting == 0:
                left()

        for root in held:
            annotate(_span_of(root.request), evaluations.get(root.span_id, ()))
            self._send("traces", root.request, one_left)
        if not held:
            left()

    async def run(self) -> None:
        """Send on what found a queue full, and roots whose time is up, until cancelled."""
        while True:
            waiting, self._overflow = self._overflow, deque()
            for signal, body, left in waiting:
                self._send(signal, body, left)
            for root in self._overdue():
                self._send("traces", root.request, lambda: None)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _overdue(self) -> list[Held]:
        oldest_ns = self._clock_ns() - self._config.max_delay
        overdue: list[Held] = []
        while self._held:
            trace_id, roots = next(iter(self._held.items()))
            if roots[0].since_ns > oldest_ns and self._count <= self._config.max_held_roots:
                break
            overdue += self.take(trace_id)
        return overdue

    def _send(self, signal: Signal, body: Any, left: Callable[[], None]) -> None:
        try:
            future = self._sender.forward(signal, body)
        except RetryableError:
            self._overflow.append((signal, body, left))
            return
        future.add_done_callback(lambda done: None if done.cancelled() else left())


@dataclass(frozen=True, slots=True)
class _Found:
    """A span in its place in a request."""

    group: Any
    scoped: Any
    span: Any

    @property
    def scope(self) -> Any:
        return self.scoped.scope

    def alone(self) -> ExportTraceServiceRequest:
        """The span as a request of its own, with its resource and scope."""
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add(schema_url=self.group.schema_url)
        group.resource.CopyFrom(self.group.resource)
        scoped = group.scope_spans.add(schema_url=self.scoped.schema_url)
        scoped.scope.CopyFrom(self.scoped.scope)
        scoped.spans.append(self.span)
        return request


def _spans(request: Any) -> Iterator[_Found]:
    for group in request.resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                yield _Found(group, scoped, span)


def _without(request: Any, span_ids: set[bytes]) -> ExportTraceServiceRequest:
    """A copy of the request without these spans; groups that become empty are left out."""
    rest = ExportTraceServiceRequest()
    rest.CopyFrom(request)
    for group in rest.resource_spans:
        for scoped in group.scope_spans:
            kept = [span for span in scoped.spans if span.span_id not in span_ids]
            if len(kept) < len(scoped.spans):
                copies = ExportTraceServiceRequest().resource_spans.add().scope_spans.add(spans=kept).spans
                del scoped.spans[:]
                scoped.spans.extend(copies)
        for place in range(len(group.scope_spans) - 1, -1, -1):
            if not group.scope_spans[place].spans:
                del group.scope_spans[place]
    for place in range(len(rest.resource_spans) - 1, -1, -1):
        if not rest.resource_spans[place].scope_spans:
            del rest.resource_spans[place]
    return rest


def _span_of(request: ExportTraceServiceRequest) -> Any:
    return request.resource_spans[0].scope_spans[0].spans[0]
