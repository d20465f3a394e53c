"""Inline mode: agents' spans wait for their scores.

The scores of a turn go to its outermost agent's span, or, where it has none or several, to the
root. So an agent's span is held back unless an agent lies above it, and a root unless the trace has
one outermost agent. Children end before their parents, so what lies above a span is mostly known by
spans that come after it.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.errors import RetryableError
from spanscore.export.config import Inline
from spanscore.export.sender import Sender
from spanscore.export.wording import annotate
from spanscore.model.score import Evaluation
from spanscore.model.span import Headers
from spanscore.otlp.signal import Signal
from spanscore.store.departures import Leaving
from spanscore.telemetry import Meter, declared

_MAX_ANCESTRY_SPANS: Final = 200_000
"""Spans of which the parent is remembered; past it the traces heard of longest ago wait for their
end.
"""

_MAX_HELD_BYTES: Final = 256 * 2**20
"""Bytes of spans held back; past it the oldest leave without their scores."""

_MAX_LEFT: Final = 200_000
"""Spans held back that have left, which are remembered so that no copy of them leaves too."""

_NO_SPAN: Final = (b"", bytes(8))

_Key: TypeAlias = tuple[bytes, bytes]
"""A trace, as the assembler knows it, and a span's id."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span of a trace that shows GenAI.

    `alone` makes it a request of its own, `content` is it in protobuf.

    `trace` is what the assembler knows its trace by, which is no other tenant's; `name` what names
    the span within a request: trace id and span id, one behind the other.
    """

    trace: bytes
    name: bytes
    span_id: bytes
    parent_id: bytes
    is_agent: bool
    alone: Callable[[], Any]
    content: Callable[[], bytes]

    @property
    def key(self) -> _Key:
        """Its identity among all spans."""
        return self.trace, self.span_id

    @property
    def is_root(self) -> bool:
        """Whether it names no parent."""
        return self.parent_id in _NO_SPAN


@dataclass(frozen=True, slots=True)
class HeldSpan:
    """A span held back, as a request of its own.

    `row` and `headers` are those of the request it came in.

    `key` and `name` are a `Candidate`'s. It does not refer to that request, which would stay in
    memory with it.
    """

    key: _Key
    name: bytes
    row: int
    headers: Headers
    since_ns: int
    request: Any
    fingerprint: int
    size_bytes: int

    @property
    def span_id(self) -> str:
        """The span's id in hex."""
        return self.key[1].hex()

    @property
    def trace(self) -> bytes:
        """What the assembler knows its trace by."""
        return self.key[0]


@dataclass(slots=True)
class _Ancestry:
    """What lies above what in a trace.

    `outermost` are the agents held back, of which none lies under another as far as is known;
    `waiting` are the same by the span that is missing next above them.
    """

    parents: dict[bytes, bytes] = field(default_factory=dict)
    agents: set[bytes] = field(default_factory=set)
    outermost: set[bytes] = field(default_factory=set)
    waiting: dict[bytes, list[bytes]] = field(default_factory=dict)

    def above(self, span_id: bytes) -> tuple[bool, bytes | None]:
        """Whether an agent is known to lie above a span; where none is, the missing span that would
        tell, if any.
        """
        seen = {span_id}
        above = self.parents.get(span_id, b"")
        while above not in _NO_SPAN and above not in seen:
            if above in self.agents:
                return True, None
            if above not in self.parents:
                return False, above
            seen.add(above)
            above = self.parents[above]
        return False, None

    def settle(self, span_id: bytes) -> bool:
        """Have an agent wait for what is missing above it; False: an agent is there, so it need not
        wait.
        """
        is_under, missing = self.above(span_id)
        if is_under:
            self.outermost.discard(span_id)
            return False
        self.outermost.add(span_id)
        if missing is not None:
            self.waiting.setdefault(missing, []).append(span_id)
        return True


class Holding:
    """The spans held back, by what names them, oldest first."""

    def __init__(self, config: Inline) -> None:
        self._config = config
        self._held: OrderedDict[_Key, HeldSpan] = OrderedDict()
        self._held_bytes = 0
        self._of_trace: dict[bytes, dict[_Key, None]] = {}
        self._ancestry: OrderedDict[bytes, _Ancestry] = OrderedDict()
        self._ancestry_spans = 0
        self._left: OrderedDict[_Key, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def is_copy(self, candidate: Candidate) -> bool:
        """Whether this span is held back already, or was and has left: senders repeat
        themselves.
        """
        return self._known(candidate.key) == hash(candidate.content())

    def note(self, candidates: Sequence[Candidate]) -> list[HeldSpan]:
        """Learn what lies above what, from all spans of a request; gives what is held no more,
        since an agent does.
        """
        for candidate in candidates:
            trace = self._ancestry.setdefault(candidate.trace, _Ancestry())
            self._ancestry.move_to_end(candidate.trace)
            self._ancestry_spans += candidate.span_id not in trace.parents
            trace.parents[candidate.span_id] = candidate.parent_id
            if candidate.is_agent:
                trace.agents.add(candidate.span_id)
        inner = [
            (x.trace, span_id)
            for x in candidates
            for trace in (self._ancestry[x.trace],)
            for span_id in trace.waiting.pop(x.span_id, ())
            if not trace.settle(span_id)
        ]
        while self._ancestry_spans > _MAX_ANCESTRY_SPANS:
            self._forget(next(iter(self._ancestry)))
        return self._taken(inner)

    def must_wait(self, candidate: Candidate) -> bool:
        """Whether a span may be the one that gets the scores, or is a copy of one; agents are asked
        about before roots.

        Other content under the same ids is none of both: who sent it means it to replace what was
        sent before.
        """
        if self._known(candidate.key) is not None:
            return self.is_copy(candidate)
        trace = self._ancestry.get(candidate.trace)
        if candidate.is_agent:
            return trace is None or not trace.above(candidate.span_id)[0]
        return candidate.is_root and (trace is None or len(trace.outermost) != 1)

    def hold(self, candidate: Candidate, row: int, headers: Headers, now_ns: int) -> None:
        """Hold a span back."""
        content = candidate.content()
        self._held[candidate.key] = HeldSpan(
            candidate.key,
            candidate.name,
            row,
            headers,
            now_ns,
            candidate.alone(),
            hash(content),
            len(content),
        )
        self._held_bytes += len(content)
        self._of_trace.setdefault(candidate.trace, {})[candidate.key] = None
        trace = self._ancestry.get(candidate.trace)
        if trace is not None and candidate.is_agent:
            trace.settle(candidate.span_id)

    def remember(self, candidate: Candidate) -> None:
        """A span that was held back has left."""
        self._left[candidate.key] = hash(candidate.content())
        self._trim()

    def traces(self) -> list[bytes]:
        """The traces of which a span is held back, as the assembler knows them."""
        return list(self._of_trace)

    def take(self, trace: bytes, span_ids: Collection[str] | None = None) -> list[HeldSpan]:
        """The spans held back of a trace that has its scores, or those with these ids; they are
        held no more.
        """
        keys = self._of_trace.get(trace, ())
        if span_ids is None:
            self._forget(trace)
            return self._taken(keys)
        return self._taken([x for x in keys if self._held[x].span_id in span_ids])

    def take_overdue(self, now_ns: int) -> list[HeldSpan]:
        """What has waited for as long as it may, and the oldest of too many; they are held no
        more.
        """
        oldest_ns = now_ns - self._config.max_delay
        count, size_bytes = len(self._held), self._held_bytes
        overdue = []
        for key, span in self._held.items():
            is_room = count <= self._config.max_held_roots and size_bytes <= _MAX_HELD_BYTES
            if span.since_ns > oldest_ns and is_room:
                break
            overdue.append(key)
            count, size_bytes = count - 1, size_bytes - span.size_bytes
        return self._taken(overdue)

    def _taken(self, keys: Iterable[_Key]) -> list[HeldSpan]:
        taken = [span for key in list(keys) if (span := self._held.pop(key, None)) is not None]
        for span in taken:
            self._held_bytes -= span.size_bytes
            del self._of_trace[span.trace][span.key]
            if not self._of_trace[span.trace]:
                del self._of_trace[span.trace]
            self._left[span.key] = span.fingerprint
        self._trim()
        return taken

    def _known(self, key: _Key) -> int | None:
        span = self._held.get(key)
        return self._left.get(key) if span is None else span.fingerprint

    def _trim(self) -> None:
        while len(self._left) > _MAX_LEFT:
            self._left.popitem(last=False)

    def _forget(self, trace: bytes) -> None:
        ancestry = self._ancestry.pop(trace, None)
        self._ancestry_spans -= len(ancestry.parents) if ancestry is not None else 0


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
