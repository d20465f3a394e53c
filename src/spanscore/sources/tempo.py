"""Grafana Tempo's API."""

import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any, Final

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from spanscore.errors import InputError
from spanscore.otlp import codec
from spanscore.otlp.signal import WIRE
from spanscore.sources.http import CUT, Answer, Backend, sliced, stored
from spanscore.sources.port import Found, Query, Stored

_now_ns = time.time_ns

_PAGE: Final = 200
"""Traces of one answer to a search, each with its id and times alone."""

_SECOND_NS: Final = 10**9
_RANGE_NS: Final = 24 * 3600 * _SECOND_NS
"""The longest time of one search; Tempo refuses a week and more unless it is configured
otherwise.
"""

_SLACK_NS: Final = 3600 * _SECOND_NS
"""How long after a trace's start a span of it may come that fulfils a condition."""

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"})
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")


class Source(Backend):
    """One Tempo; see `port.Source`."""

    title = "Tempo"
    depth = 7
    """{trace: {resourceSpans: [{scopeSpans: [{spans: [...: how deep a list of spans lies."""

    _has_v2 = True

    async def find(self, query: Query) -> AsyncIterator[Found]:
        """See `port.Source`."""
        seen: set[str] = set()
        end_ns = _now_ns() if query.until_ns is None else query.until_ns + _SLACK_NS
        start_ns = query.since_ns or 0
        while end_ns > start_ns:
            low_ns = max(start_ns, end_ns - _RANGE_NS)
            search, shortest_ns = partial(self._search, query), 2 * _SECOND_NS
            listed = sliced(low_ns, end_ns, search, self._overfull_at, shortest_ns=shortest_ns)
            async for found in listed:
                if found.trace_id not in seen:
                    seen.add(found.trace_id)
                    yield found
            end_ns = low_ns

    async def fetch(self, found: Found) -> Stored | None:
        """See `port.Source`."""
        answer = await self._trace(found, "application/protobuf")
        if answer is None:
            return None
        if answer.is_cut or "json" in answer.content_type:
            return await self._fetch_json(found)
        try:
            request, partial_why = trace_of(answer.body, is_wrapped=self._has_v2)
        except DecodeError as error:
            raise InputError(
                f"{self._where}: trace {found.trace_id} cannot be decoded ({error})"
            ) from None
        return _with_spans(stored(found.trace_id, [request], partial_why, len(answer.body)))

    async def _trace(self, found: Found, accept: str) -> Answer | None:
        """The answer with a trace; None where Tempo has it no more."""
        for path in ("/api/v2/traces", "/api/traces") if self._has_v2 else ("/api/traces",):
            answer = await self._http.get(
                f"{path}/{found.trace_id}", headers={"Accept": accept}, expected=(404,)
            )
            if answer.status != 404:
                self._has_v2 = "v2" in path  # else it has the trace, and no second API
                return answer
        return None

    async def _fetch_json(self, found: Found) -> Stored | None:
        """A trace in JSON, of which the beginning can be read where it is too long."""
        answer = await self._trace(found, "application/json")
        if answer is None:
            return None
        body = self._parsed(answer)
        request, partial = _request(body.get("trace", body)), _partial(body)
        truncated = CUT if answer.is_cut else partial
        return _with_spans(stored(found.trace_id, [request], truncated, len(answer.body)))

    async def _search(self, query: Query, low_ns: int, high_ns: int) -> tuple[list[Found], bool]:
        parameters = {
            "q": trace_ql(query),
            "start": low_ns // _SECOND_NS,
            "end": -(-high_ns // _SECOND_NS) + 1,
            "limit": _PAGE,
            "spss": 1,
        }
        answer = await self._http.get("/api/search", parameters)
        listed = self._parsed(answer).get("traces") or []
        found = [x for one in listed for x in _found(query, one)]
        return sorted(found, key=lambda x: x.start_ns, reverse=True), len(listed) >= _PAGE

    def _overfull_at(self, low_ns: int, _high_ns: int) -> None:
        when = low_ns // _SECOND_NS
        raise InputError(
            f"{self._where}: {_PAGE} traces or more within two seconds, at {when} s of Unix time,"
            " which is what a search of Tempo gives at most; give conditions that fewer fulfil"
        )


def trace_ql(query: Query) -> str:
    """The TraceQL of a query, without its times, which are parameters of a search.

    >>> trace_ql(Query(service="shop", errors=True))
    '{ resource.service.name = "shop" && status = error }'
    """
    service = query.service
    of_service = [] if service is None else [f"resource.service.name = {_text(service)}"]
    spansets = [[*of_service, x] for x in _of_spans(query)] or [of_service]
    if query.min_duration_ns is not None:
        spansets[0].append(f"traceDuration >= {query.min_duration_ns}ns")
    return " && ".join(f"{{ {' && '.join(x)} }}" if x else "{ }" for x in spansets)


def _of_spans(query: Query) -> Iterator[str]:
    if query.errors:
        yield "status = error"
    for name, value in query.attributes.items():
        key = f".{name}" if _PLAIN.fullmatch(name) else f".{_text(name)}"
        forms = [_text(value)]
        if value in {"true", "false"} or _NUMBER.fullmatch(value):
            forms.append(value)  # which is another value than the text
        either = " || ".join(f"{key} = {x}" for x in forms)
        yield f"({either})" if len(forms) > 1 else either


def _text(value: str) -> str:
    return f'"{value.translate(_ESCAPES)}"'


def _found(query: Query, listed: Any) -> Iterator[Found]:
    """A trace of a search's answer, where it began when it was to."""
    try:
        trace_id = str(listed["traceID"]).lower().zfill(32)
        start_ns = int(listed.get("startTimeUnixNano") or 0)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"Tempo's search answered with a trace that cannot be read: {error!r}"
        ) from None
    # which Tempo has held it against, in more digits than it shows
    duration_ns = query.min_duration_ns or 0
    if not start_ns or query.accepts_time(start_ns, start_ns + duration_ns):
        yield Found(trace_id, start_ns)


def _request(trace: Any) -> Message:
    listed = trace.get("resourceSpans") or trace.get("batches") or []
    try:
        return codec.from_object("traces", {"resourceSpans": listed})
    except ValueError as error:
        raise InputError(f"Tempo answered with a trace that cannot be read: {error}") from None


def _partial(body: Mapping[str, Any]) -> str:
    if body.get("status") not in {"PARTIAL", 1}:
        return ""
    message = body.get("message")
    return f"Tempo says that it is partial{f': {message}' if message else ''}"


def _with_spans(found: Stored) -> Stored | None:
    return found if found.spans else None


_TRACE, _STATUS, _MESSAGE = 1, 3, 4
"""Fields of tempopb.TraceByIDResponse; its metrics (2) are passed over."""


def trace_of(body: bytes, *, is_wrapped: bool) -> tuple[Any, str]:
    """The trace as an export request, which has the same fields, and why it is partial, else "".

    `is_wrapped`: False for the older API, whose answer is the trace alone. Raises DecodeError.
    """
    if not is_wrapped:
        return WIRE["traces"].request.FromString(body), ""
    request, found = WIRE["traces"].request(), dict[str, Any]()
    fields: Any = UnknownFieldSet(Empty.FromString(body))
    for field in fields:
        if field.field_number == _TRACE and isinstance(field.data, bytes):
            request.MergeFromString(field.data)
        elif field.field_number == _STATUS:
            found["status"] = field.data
        elif field.field_number == _MESSAGE and isinstance(field.data, bytes):
            found["message"] = field.data.decode(errors="replace")
    return request, _partial(found)
