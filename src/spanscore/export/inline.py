"""Inline mode: every request leaves again at once, but for the spans of agents that wait for their
scores.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.errors import RetryableError
from spanscore.export.attributes import annotate
from spanscore.export.config import Inline
from spanscore.export.holding import Candidate, HeldSpan, Holding
from spanscore.export.sender import Sender
from spanscore.model.headers import Headers
from spanscore.model.score import Evaluation
from spanscore.otlp.signal import Signal
from spanscore.store.leaving import Leaving
from spanscore.telemetry import Meter, declared

_LOOK_EVERY_S = 0.1


class Received(Protocol):
    """A request that is in the journal, in its `row`: in protobuf, and the same decoded."""

    @property
    def signal(self) -> Signal: ...  # noqa: D102 # the class has it
    @property
    def row(self) -> int: ...  # noqa: D102 # the class has it
    @property
    def body(self) -> bytes: ...  # noqa: D102 # the class has it
    @property
    def message(self) -> Any: ...  # noqa: D102 # the class has it
    @property
    def headers(self) -> Headers: ...  # noqa: D102 # the class has it


class Book(Protocol):
    """Who remembers what has left, so that it survives the process.

    Spans are named by trace id and span id.

    A trace is known to it by a key, which the traces of two tenants do not share.
    """

    def key(self, trace_id: bytes, headers: Headers) -> bytes:
        """The key of a trace that a request with these headers holds spans of."""
        ...

    def is_genai(self, key: bytes) -> bool:
        """Whether what has come of a trace may hold GenAI."""
        ...

    def hold(self, row: int) -> None:
        """Keep a request until it is let go as often."""
        ...

    def let_go(self, row: int) -> None:
        """Undo one `hold`."""
        ...

    def rest_left(self, row: int, held: Collection[bytes]) -> None:
        """All of a request but the spans `held` has been delivered, or refused for good; undoes one
        `hold`.
        """
        ...

    def span_left(self, row: int, span: bytes) -> None:
        """A span that was held back has been delivered, or refused for good, or need not leave."""
        ...


class Passing:
    """Passes requests on. Belongs to one event loop.

    `is_agent` says of a span and its scope whether it is an agent's.
    """

    def __init__(
        self,
        config: Inline,
        sender: Sender,
        book: Book,
        *,
        is_agent: Callable[[Any, Any], bool],
        clock_ns: Callable[[], int],
        meter: Meter | None = None,
    ) -> None:
        self._meter = meter or Meter()
        self._sender = sender
        self._book = book
        self._is_agent = is_agent
        self._clock_ns = clock_ns
        self._holding = Holding(config)
        self._overflow: deque[tuple[Signal, Any, Headers, Callable[[], None]]] = deque()

    @property
    def held_roots(self) -> int:
        """How many spans wait for their scores."""
        return len(self._holding)

    def require_room(self) -> None:
        """Raises RetryableError while requests wait for an exporter's queue."""
        if self._overflow:
            problem = "the backend takes requests more slowly than they come"
            raise RetryableError(problem, retry_after_s=5.0, why="queue_full")

    def pass_on(self, request: Received, before: Leaving | None = None) -> None:
        """Send a request on, but for what may be the evaluated span of a trace that shows GenAI.

        `before` is what had left of it before a restart, if it is from before one.
        """
        before = before or Leaving()
        found = list(self._spans(request)) if request.signal == "traces" else []
        held = self._hold(request, found, before)
        if before.rest_left:
            return
        self._book.hold(request.row)
        left = partial(self._book.rest_left, request.row, held)
        left_out = held | before.left
        rest = _without(request.message, left_out) if left_out else request.body
        if isinstance(rest, bytes) or rest.resource_spans:
            self._send(request.signal, rest, request.headers, left)
        else:
            left()

    def _spans(self, request: Received) -> "Iterator[_Found]":
        for group in request.message.resource_spans:
            for scoped in group.scope_spans:
                for span in scoped.spans:
                    yield _Found(
                        self._book.key(span.trace_id, request.headers), group, scoped, span
                    )

    def _hold(self, request: Received, found: "Sequence[_Found]", before: Leaving) -> set[bytes]:
        """Hold back what must wait, and let go what is known not to; returns what names the spans
        that stay behind.
        """
        known = self._candidates(x for x in found if self._book.is_genai(x.trace))
        for inner in self._holding.note(known):
            self._release_one(inner)
        behind: set[bytes] = set()
        for candidate in sorted(known, key=lambda one: not one.is_agent):
            if candidate.name in before.left:
                self._holding.remember(candidate)
            elif not before.rest_left and self._holding.must_wait(candidate):
                behind.add(candidate.name)
                self._hold_one(candidate, request)
        if before.rest_left:
            for candidate in self._candidates(one for one in found if one.name in before.held):
                self._hold_one(candidate, request)
        return behind

    def _hold_one(self, candidate: Candidate, request: Received) -> None:
        if self._holding.is_copy(candidate):
            self._book.span_left(request.row, candidate.name)
            return
        self._book.hold(request.row)
        self._holding.hold(candidate, request.row, request.headers, self._clock_ns())

    def _candidates(self, found: "Iterable[_Found]") -> list[Candidate]:
        """Each span once, however often it is in its request."""
        return [
            Candidate(
                x.trace,
                x.name,
                x.span.span_id,
                x.span.parent_span_id,
                self._is_agent(x.span, x.scope),
                x.alone,
                x.span.SerializeToString,
            )
            for x in {x.name: x for x in found}.values()
        ]

    def held_traces(self) -> list[bytes]:
        """The keys of the traces of which a span waits."""
        return self._holding.traces()

    def take(self, key: bytes, span_ids: Collection[str] | None = None) -> list[HeldSpan]:
        """The spans held back of this trace, or those of them with these ids; the caller must
        `release` them.
        """
        return self._holding.take(key, span_ids)

    def release(
        self,
        held: Sequence[HeldSpan],
        evaluations: Iterable[Evaluation],
        left: Callable[[], None] = lambda: None,
    ) -> None:
        """Send held spans on, each with its own of `evaluations`; `left` is called when all are
        delivered.
        """
        waiting = len(held)
        by_span: dict[str, list[Evaluation]] = {}
        for evaluation in evaluations:
            by_span.setdefault(evaluation.target.span_id, []).append(evaluation)

        def one_left() -> None:
            nonlocal waiting
            waiting -= 1
            if waiting == 0:
                left()

        for one in held:
            scores = by_span.get(one.span_id, ())
            annotate(_span_of(one.request), scores)
            self._meter.add(
                declared.INLINE_RELEASED_ROOTS, reason="scored" if scores else "unscored"
            )
            self._release_one(one, one_left)
        if not held:
            left()

    def _release_one(self, held: HeldSpan, left: Callable[[], None] = lambda: None) -> None:
        def has_left() -> None:
            self._book.span_left(held.row, held.name)
            self._book.let_go(held.row)
            left()

        self._send("traces", held.request, held.headers, has_left)

    async def run(self) -> None:
        """Send on what found a queue full, and spans whose time is up, until cancelled."""
        while True:
            waiting, self._overflow = self._overflow, deque()
            for signal, body, headers, left in waiting:
                self._send(signal, body, headers, left)
            for held in self._holding.take_overdue(self._clock_ns()):
                self._meter.add(declared.INLINE_RELEASED_ROOTS, reason="timeout")
                self._release_one(held)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _send(self, signal: Signal, body: Any, headers: Headers, left: Callable[[], None]) -> None:
        try:
            future = self._sender.forward(signal, body, headers)
        except RetryableError:
            self._overflow.append((signal, body, headers, left))
            return
        future.add_done_callback(lambda done: None if done.cancelled() else left())


@dataclass(frozen=True, slots=True)
class _Found:
    """A span in its place in a request; `trace` is the key of its trace."""

    trace: bytes
    group: Any
    scoped: Any
    span: Any

    @property
    def scope(self) -> Any:
        return self.scoped.scope

    @property
    def name(self) -> bytes:
        return _name(self.span)

    def alone(self) -> ExportTraceServiceRequest:
        """The span as a request of its own, with its resource and scope."""
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add(schema_url=self.group.schema_url)
        group.resource.CopyFrom(self.group.resource)
        scoped = group.scope_spans.add(schema_url=self.scoped.schema_url)
        scoped.scope.CopyFrom(self.scoped.scope)
        scoped.spans.append(self.span)
        return request


def _name(span: Any) -> bytes:
    return bytes(span.trace_id + span.span_id)


def _without(request: Any, left_out: Collection[bytes]) -> ExportTraceServiceRequest:
    """A copy of the request without these spans; groups that become empty are left out."""
    rest = ExportTraceServiceRequest()
    rest.CopyFrom(request)
    for group in rest.resource_spans:
        for scoped in group.scope_spans:
            remaining = [span for span in scoped.spans if _name(span) not in left_out]
            if len(remaining) < len(scoped.spans):
                copies = (
                    ExportTraceServiceRequest()
                    .resource_spans.add()
                    .scope_spans.add(spans=remaining)
                    .spans
                )
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
