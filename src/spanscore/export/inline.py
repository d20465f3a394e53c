"""Inline mode: every request leaves again at once, but for the roots of agent traces, which wait for their scores."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import BaseModel, ConfigDict, Field

from spanscore.errors import RetryableError
from spanscore.export.attributes import annotate
from spanscore.export.sender import Sender
from spanscore.model.quantity import Duration, duration_ns
from spanscore.model.score import Evaluation
from spanscore.otlp.signal import Signal

_LOOK_EVERY_S = 0.1


class Inline(BaseModel):
    """What holds in inline mode only."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    max_delay: Duration = duration_ns("60s")
    """How long a root span waits for its scores; then it leaves without, and they follow as evaluation spans."""

    max_held_roots: int = Field(default=20_000, ge=1)
    """Root spans held back at once; above it the one that has waited longest leaves without its scores."""


@dataclass(frozen=True, slots=True)
class Held:
    """A root span held back, as a request of its own."""

    span_id: str
    since_ns: int
    request: ExportTraceServiceRequest


class Passing:
    """Passes requests on. Belongs to one event loop.

    `left` is called with a request's row when all of it but its held roots has been delivered (or refused for good).
    """

    def __init__(
        self, config: Inline, sender: Sender, *, left: Callable[[int], None], clock_ns: Callable[[], int]
    ) -> None:
        self._config = config
        self._sender = sender
        self._left = left
        self._clock_ns = clock_ns
        self._held: OrderedDict[bytes, list[Held]] = OrderedDict()
        self._count = 0
        self._overflow: deque[tuple[Signal, Any, int | None]] = deque()

    @property
    def held_roots(self) -> int:
        """How many root spans wait for their scores."""
        return self._count

    def require_room(self) -> None:
        """Raises RetryableError while requests wait for an exporter's queue."""
        if self._overflow:
            raise RetryableError("the backend takes requests more slowly than they come", retry_after_s=5.0)

    def pass_on(
        self, signal: Signal, row: int, body: bytes, request: Any, *, is_agent: Callable[[bytes], bool]
    ) -> None:
        """Send a request on; `is_agent` says of a trace id whether its roots are to be held back."""
        roots = _roots(request, is_agent) if signal == "traces" else []
        if not roots:
            self._send(signal, body, row)
            return
        for trace_id, root in roots:
            self._held.setdefault(trace_id, []).append(Held(_span_of(root).span_id.hex(), self._clock_ns(), root))
            self._count += 1
        rest = _without(request, {_span_of(root).span_id for _, root in roots})
        if rest.resource_spans:
            self._send(signal, rest, row)
        else:
            self._left(row)

    def take(self, trace_id: bytes) -> list[Held]:
        """The roots held back of this trace; the caller must `release` them."""
        taken = self._held.pop(trace_id, [])
        self._count -= len(taken)
        return taken

    async def release(self, held: Iterable[Held], evaluations: Mapping[str, Sequence[Evaluation]]) -> None:
        """Send held roots on, each with the evaluations of its span id, and wait until they are delivered."""
        for root in held:
            annotate(_span_of(root.request), evaluations.get(root.span_id, ()))
            await self._deliver(root.request)

    async def run(self) -> None:
        """Send on what found a queue full, and roots whose time is up, until cancelled."""
        while True:
            waiting, self._overflow = self._overflow, deque()
            for signal, body, row in waiting:
                self._send(signal, body, row)
            for root in self._overdue():
                self._send("traces", root.request, None)
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

    def _send(self, signal: Signal, body: Any, row: int | None) -> None:
        try:
            future = self._sender.forward(signal, body)
        except RetryableError:
            self._overflow.append((signal, body, row))
            return
        if row is not None:
            future.add_done_callback(lambda done: None if done.cancelled() else self._left(row))

    async def _deliver(self, request: ExportTraceServiceRequest) -> None:
        while True:
            try:
                future = self._sender.forward("traces", request)
            except RetryableError:
                await asyncio.sleep(_LOOK_EVERY_S)
            else:
                return await future


def _roots(request: Any, is_agent: Callable[[bytes], bool]) -> list[tuple[bytes, ExportTraceServiceRequest]]:
    """The parentless spans of agent traces, each as a request of its own with its resource and scope."""
    found = []
    for group in request.resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                if not span.parent_span_id and is_agent(span.trace_id):
                    alone = ExportTraceServiceRequest()
                    resource_spans = alone.resource_spans.add(schema_url=group.schema_url)
                    resource_spans.resource.CopyFrom(group.resource)
                    scope_spans = resource_spans.scope_spans.add(schema_url=scoped.schema_url)
                    scope_spans.scope.CopyFrom(scoped.scope)
                    scope_spans.spans.append(span)
                    found.append((span.trace_id, alone))
    return found


def _without(request: Any, span_ids: set[bytes]) -> ExportTraceServiceRequest:
    """A copy of the request without these root spans; groups that become empty are left out."""
    rest = ExportTraceServiceRequest()
    rest.CopyFrom(request)
    for group in rest.resource_spans:
        for scoped in group.scope_spans:
            kept = [span for span in scoped.spans if span.parent_span_id or span.span_id not in span_ids]
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
