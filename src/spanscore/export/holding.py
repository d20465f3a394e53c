"""Which spans inline mode holds back for their scores, and which turn out not to need it: pure,
time is passed in.

The scores of a turn go to its outermost agent's span, or, where it has none or several, to the
root. So an agent's span is held back unless an agent lies above it, and a root unless the trace has
one outermost agent. Children end before their parents, so what lies above a span is mostly known by
spans that come after it.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from spanscore.export.config import Inline
from spanscore.model.headers import Headers

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
