"""Requests split into fragments of traces."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from spanscore.otlp import codec
from spanscore.threads import cached_property

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Units:
    """`unit_of` finds what a span or log record is read with, by the name of its scope, its trace
    id and attributes: an id, as hex, or "" for nothing. It is called where the scope's name starts
    with one that `find_scopes` gives; `goes_on` finds units that have no end.
    """

    find_scopes: Callable[[], tuple[str, ...]] = tuple
    unit_of: Callable[..., str] = lambda *_, **_of_log: ""
    goes_on: Callable[[str], bool] = lambda _unit: False

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """What `find_scopes` gives, which is called when this is first used."""
        return self.find_scopes()

    def key(self, scope_name: str, item: Any, *, of_log: bool) -> bytes:
        """The id by which a decoded span or log record is gathered; empty for a record that belongs
        to nothing.
        """
        if not scope_name.startswith(self.scopes):
            return item.trace_id  # type: ignore[no-any-return]  # protobuf's bytes
        trace_id = item.trace_id.hex()
        try:
            unit = self.unit_of(
                scope_name, trace_id, lambda: codec.attributes(item.attributes), of_log=of_log
            )
        except Exception as error:  # noqa: BLE001 - one item must not stop all that come, nor every start after it
            _warn_once(
                next(x for x in self.scopes if scope_name.startswith(x)), type(error).__name__
            )
            return item.trace_id  # type: ignore[no-any-return]  # protobuf's bytes
        return bytes.fromhex(unit)


@lru_cache(maxsize=64)
def _warn_once(scope: str, error: str) -> None:
    """Warn once: there would be a line for each item."""
    _log.warning(
        "%s: what an item belongs to could not be found (%s): it goes by its trace id", scope, error
    )


BY_TRACE = Units()
"""All by trace id."""


_NO_SPAN = bytes(8)
"""How some senders write that a span has no parent."""

_OWN_SCOPE = "spanscore"
_SDK_SCOPE, _SCORE = "spanscore.sdk", "evaluation "
_RESULTS = frozenset({"gen_ai.evaluation.result", "gen_ai.evaluation.results"})
"""Events that are scores of others; they are read by themselves."""


@dataclass(slots=True)
class Fragment:
    """What one request contains of one trace, or of another unit that is read as one.

    `key` is as `keys` has it. `row` is the request's place in the journal (or any other store of
    requests). `parents` are the parent ids that the fragment's spans name; `has_root`: a span has
    none.
    """

    key: bytes
    row: int
    items: int = 0
    size_bytes: int = 0
    has_root: bool = False
    span_ids: set[bytes] = field(default_factory=set)
    parents: set[bytes] = field(default_factory=set)
    genai: bool = True


def of_traces(
    request: Any,
    row: int,
    *,
    size_bytes: int = 0,
    genai: bool = True,
    units: Units = BY_TRACE,
    tenant: str = "",
) -> list[Fragment]:
    """The fragments of an ExportTraceServiceRequest, one a trace; `size_bytes` is shared out by
    number of spans.

    What spanscore itself emitted belongs to none, so that scores that come back re-open nothing,
    nor do scores that are recorded a day later.
    """
    found: dict[bytes, Fragment] = {}
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            scope_name = scope_spans.scope.name
            if scope_name == _OWN_SCOPE:
                continue
            by_trace = not scope_name.startswith(units.scopes)
            records_scores = scope_name == _SDK_SCOPE
            for span in scope_spans.spans:
                if records_scores and span.name.startswith(_SCORE):
                    continue
                trace_id = span.trace_id if by_trace else units.key(scope_name, span, of_log=False)
                fragment = found.get(trace_id)
                if fragment is None:
                    fragment = found[trace_id] = Fragment(trace_id, row, genai=genai)
                fragment.items += 1
                fragment.span_ids.add(span.span_id)
                parent = span.parent_span_id
                if parent and parent != _NO_SPAN:
                    fragment.parents.add(parent)
                else:
                    fragment.has_root = True
    return _finished(found, size_bytes, tenant)


def of_logs(
    request: Any,
    row: int,
    *,
    size_bytes: int = 0,
    genai: bool = True,
    units: Units = BY_TRACE,
    tenant: str = "",
) -> list[Fragment]:
    """The fragments of an ExportLogsServiceRequest; records that belong to no trace or other unit
    are left out.

    So are those with a trace id of another length: nobody checks the ids of records when they are
    received.
    """
    found: dict[bytes, Fragment] = {}
    for scope_name, record in _records(request):
        if record.event_name in _RESULTS:
            continue
        trace_id = units.key(scope_name, record, of_log=True)
        if len(trace_id) == ID_BYTES:
            fragment = found.setdefault(trace_id, Fragment(trace_id, row, genai=genai))
            fragment.items += 1
    return _finished(found, size_bytes, tenant)


def _records(request: Any) -> Iterator[tuple[str, Any]]:
    for resource_logs in request.resource_logs:
        for scope_logs in resource_logs.scope_logs:
            for record in scope_logs.log_records:
                yield scope_logs.scope.name, record


def _finished(found: dict[bytes, Fragment], size_bytes: int, tenant: str) -> list[Fragment]:
    """The fragments, each with its share of the request's size, and under the key of its sender's
    tenant.
    """
    fragments = list(found.values())
    total = sum(fragment.items for fragment in fragments)
    for fragment in fragments:
        fragment.size_bytes = size_bytes * fragment.items // total
        fragment.key = with_tenant(fragment.key, tenant)
    return fragments


ID_BYTES: Final = 16
"""The length of a trace's id, and of what stands for another unit."""


def with_tenant(trace_id: bytes, tenant: str) -> bytes:
    """The key of a trace, or other unit, with an id of 16 bytes; "" where there are no tenants."""
    return trace_id + tenant.encode() if tenant else trace_id


def id_in(key: bytes) -> bytes:
    """The id of the trace, or other unit, with this key."""
    return key[:ID_BYTES]


def tenant_in(key: bytes) -> str:
    """Whose the trace, or other unit, with this key is; "" where there are no tenants.

    >>> tenant_in(with_tenant(bytes(16), "acme"))
    'acme'
    """
    return key[ID_BYTES:].decode()
