"""The port of backends with stored traces."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from spanscore.model.span import STATUS_ERROR, STATUS_OK, LogRecord, Span, Value

DEFAULT_SINCE_NS: Final = 24 * 3600 * 10**9
"""How far back a backend is asked where no `since` and no trace id is given, in nanoseconds."""


STATUSES: Final = {"ok": STATUS_OK, "error": STATUS_ERROR}
"""By what backends call them; any other is not set."""


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions on a trace, all of which must hold; one that is not set always does.

    A trace's start is that of its first span, its duration ends with its last one. Where `service`
    is given, only spans of that service count for `attributes` and `errors`. Times are Unix
    nanoseconds.
    """

    service: str | None = None
    """`service.name` of the resource of at least one span."""

    since_ns: int | None = None
    """The trace started then or later."""

    until_ns: int | None = None
    """The trace started earlier than that."""

    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes of spans or of their resources, compared as text; each is on some span, not all on
    the same one.
    """

    errors: bool = False
    """Whether at least one span must have failed."""

    min_duration_ns: int | None = None
    """How long the trace took at least."""

    trace_ids: tuple[str, ...] = ()
    """OTel trace ids in lower-case hex, of 32 digits."""

    limit: int | None = None
    """How many traces are read at most, the newest."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """The names of the conditions that are set, as a URL has them; `limit` is none of them."""
        given = {
            "trace_id": self.trace_ids,
            "since": self.since_ns is not None,
            "until": self.until_ns is not None,
            "service": self.service is not None,
            **{f"attribute.{name}": True for name in self.attributes},
            "errors": self.errors,
            "min_duration": self.min_duration_ns is not None,
        }
        return tuple(name for name, is_given in given.items() if is_given)

    def accepts(self, spans: Sequence[Span], logs: Sequence[LogRecord] = ()) -> bool:
        """Whether all conditions hold for a trace with these spans; one of log records alone is
        held by those.
        """
        records: Sequence[Span | LogRecord] = spans or logs
        if not records or (self.trace_ids and records[0].trace_id not in self.trace_ids):
            return False
        if not self.accepts_time(min(map(_start_ns, records)), max(map(_end_ns, records))):
            return False
        counted = [
            x for x in records if self.service is None or x.resource.service_name == self.service
        ]
        if not counted or (self.errors and not any(map(_has_failed, counted))):
            return False
        return all(_has(counted, name, value) for name, value in self.attributes.items())

    def accepts_time(self, start_ns: int, end_ns: int) -> bool:
        """Whether the conditions on times hold for a trace that began and ended then."""
        if self.since_ns is not None and start_ns < self.since_ns:
            return False
        if self.until_ns is not None and start_ns >= self.until_ns:
            return False
        return self.min_duration_ns is None or end_ns - start_ns >= self.min_duration_ns


def as_text(value: Value) -> str:
    """An attribute's value as a URL has it.

    >>> as_text(True), as_text(3), as_text(0.5), as_text("x")
    ('true', '3', '0.5', 'x')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _start_ns(item: Span | LogRecord) -> int:
    return item.start_ns if isinstance(item, Span) else item.time_ns


def _end_ns(item: Span | LogRecord) -> int:
    return item.end_ns if isinstance(item, Span) else item.time_ns


def _has_failed(item: Span | LogRecord) -> bool:
    return isinstance(item, Span) and item.status_code == STATUS_ERROR


def _has(items: Iterable[Span | LogRecord], name: str, value: str) -> bool:
    attributes = (x for item in items for x in (item.attributes, item.resource.attributes))
    return any(as_text(x[name]) == value for x in attributes if x.get(name) is not None)


class Found(NamedTuple):
    """A trace that a search of a backend gave: its id, and its first start as far as the search
    tells, in Unix ns.
    """

    trace_id: str
    start_ns: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """One trace as a backend has it.

    `truncated` says why it is not all of the trace, and is empty where nothing speaks against it.
    `refused` names spans that were left out, with the reason.
    """

    trace_id: str
    spans: Sequence[Span]
    logs: Sequence[LogRecord] = ()
    truncated: str = ""
    refused: Sequence[str] = field(default=())
    size_bytes: int = 0
    """How long the backend's answer was."""


class Source(Protocol):
    """A backend's stored traces.

    Errors are `InputError` where asking again does not help, else `RetryableError`.

    A query that names trace ids needs no search: only `fetch` is called.
    """

    def pushed(self, query: Query) -> frozenset[str]:
        """Those of `query.conditions` that the backend itself is asked for."""
        ...

    def is_exact(self, query: Query) -> bool:
        """Whether `find` gives only traces that `query` accepts."""
        ...

    def find(self, query: Query) -> AsyncIterator[Found]:
        """All traces that may fulfil `query`, each once, mostly the newest first; `query.limit` is
        not applied.
        """
        ...

    async def fetch(self, found: Found) -> Stored | None:
        """One trace, at most as many of its spans as `limits` has; None where the backend has it no
        more.
        """
        ...

    async def close(self) -> None:
        """Let go of connections. Calling it again does nothing."""
        ...


MAX_TRACE_SPANS: Final = 10_000
MAX_TRACE_BYTES: Final = 64 * 2**20
"""Spans, and bytes of a backend's answer; the same numbers as `assemble.max_spans` and
`assemble.max_trace_bytes`.
"""


def within(spans: Sequence[Span]) -> tuple[Sequence[Span], str]:
    """At most MAX_TRACE_SPANS of a trace's spans, those that began first, and why it is not all of
    them, else "".
    """
    if len(spans) <= MAX_TRACE_SPANS:
        return spans, ""
    first = sorted(spans, key=lambda x: x.start_ns)[:MAX_TRACE_SPANS]
    return first, f"it has {len(spans):,} spans, of which the first {MAX_TRACE_SPANS:,} are read"
