"""Jaeger's query service.

A search of the older API takes tags, which that of v3 does not over HTTP, and gives whole traces,
of which only the ids are used here: in v3 times have nanoseconds and attributes their types. `raw`
keeps Jaeger from correcting clocks.
"""

import logging
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from google.protobuf.message import Message

from spanscore.errors import InputError
from spanscore.otlp import codec, files
from spanscore.sources.http import CUT, Backend, as_json, sliced, stored
from spanscore.sources.port import MAX_TRACE_SPANS, Found, Query, Stored

_log = logging.getLogger(__name__)
_now_ns = time.time_ns

_PAGE: Final = 20
"""Traces of one answer; they come whole."""

_SLACK_NS: Final = 3600 * 10**9
"""How long after a trace's start its first span of the wanted service may come."""

_MAX_SERVICES: Final = 1000
_TRACE_ID: Final = re.compile(rb'"traceID":\s*"([0-9a-f]{1,32})"')
_V3_DEPTH: Final = 7
"""{result: {resourceSpans: [{scopeSpans: [{spans: [...: how deep a list of spans lies."""


class Source(Backend):
    """One Jaeger; see `port.Source`.

    A search gives whole traces, so they are held against the query at once.
    """

    title = "Jaeger"
    depth = 4
    """{data: [{spans: [...: how deep a list of spans lies in the older API."""

    _has_v3 = True

    def pushed(self, query: Query) -> frozenset[str]:
        """See `port.Source`."""
        tags = {f"attribute.{name}" for name in _tags(query)}
        return frozenset(query.conditions) & ({"since", "until", "service"} | tags)

    async def find(self, query: Query) -> AsyncIterator[Found]:
        """See `port.Source`."""
        start_ns = query.since_ns or 0
        end_ns = _now_ns() if query.until_ns is None else query.until_ns + _SLACK_NS
        services = await self._services(query)
        seen: set[bytes] = set()
        # Where only the newest are wanted, all services are searched in one slice of time before
        # the one before it.
        for group in [services] if query.limit is not None else [[x] for x in services]:
            search = partial(self._search_all, query, group)
            async for found in sliced(start_ns, end_ns, search, self._overfull_at):
                if (key := bytes.fromhex(found.trace_id)) not in seen:
                    seen.add(key)
                    yield found

    async def fetch(self, found: Found) -> Stored | None:
        """See `port.Source`."""
        if self._has_v3:
            path = f"/api/v3/traces/{found.trace_id}"
            answer = await self._http.get(path, {"raw_traces": "true"}, expected=(400, 404))
            body: dict[str, Any] = {}
            with suppress(InputError):  # it is no JSON
                body = self._parsed(answer, _V3_DEPTH)
            if "result" in body:
                request = codec.from_object("traces", body["result"])
                truncated = CUT if answer.is_cut else ""
                return _judged(stored(found.trace_id, [request], truncated, len(answer.body)))
            if "error" in body and answer.status == 404:
                return None
            self._has_v3 = False  # an older Jaeger answers with the page of its UI
        return await self._fetch_older(found)

    async def _fetch_older(self, found: Found) -> Stored | None:
        path = f"/api/traces/{found.trace_id}"
        answer = await self._http.get(path, {"raw": "true"}, expected=(404,))
        if answer.status == 404:
            return None
        body = self._parsed(answer)
        listed = body.get("data") or []
        errors = "; ".join(dict.fromkeys(_errors(body)))
        truncated = CUT if answer.is_cut else errors
        return _judged(stored(found.trace_id, map(_request, listed), truncated, len(answer.body)))

    async def _services(self, query: Query) -> Sequence[str]:
        """The services to search in: Jaeger searches in one at a time."""
        if query.service is not None:
            return [query.service]
        answer = await self._http.get("/api/services")
        services = sorted(x for x in self._parsed(answer).get("data") or () if isinstance(x, str))
        if len(services) > _MAX_SERVICES:
            raise InputError(
                f"{self._where}: it has {len(services):,} services; name one by service=NAME"
            )
        return services

    async def _search_all(
        self, query: Query, services: Sequence[str], low_ns: int, high_ns: int
    ) -> tuple[list[Found], bool]:
        """What `_search` gives for several services together, the newest first."""
        answers = [await self._search(query, x, low_ns, high_ns) for x in services]
        found = {x for listed, _ in answers for x in listed}
        has_more = any(more for _, more in answers)
        return sorted(found, key=lambda x: x.start_ns, reverse=True), has_more

    async def _search(
        self, query: Query, service: str, low_ns: int, high_ns: int
    ) -> tuple[list[Found], bool]:
        """The wanted traces of one service with a span in this time, and whether there may be
        more.
        """
        tags = _tags(query)
        parameters = {
            "service": service,
            "start": low_ns // 1000,
            "end": -(-high_ns // 1000),
            "limit": _PAGE,
            "raw": "true",
            **({"tags": as_json(tags)} if tags else {}),
        }
        answer = await self._http.get("/api/traces", parameters)
        if answer.is_cut:
            return _ids(answer.body), True
        listed = self._parsed(answer).get("data") or []
        return [x for trace in listed for x in _wanted(query, trace)], len(listed) >= _PAGE

    def _overfull_at(self, low_ns: int, _high_ns: int) -> None:
        what = "%s: more than %d traces within the millisecond at %d ns; some are not read"
        _log.warning(what, self._where, _PAGE, low_ns)


def _tags(query: Query) -> dict[str, str]:
    """The first attribute: all tags of a search are to be on one span, and those of a query need
    not be.
    """
    return dict(list(query.attributes.items())[:1])


def _wanted(query: Query, trace: Any) -> Iterator[Found]:
    """A trace of a search, where the query accepts it."""
    spans = list(codec.spans(_request(trace)))
    if query.accepts(spans):
        yield Found(spans[0].trace_id, min(x.start_ns for x in spans))


def _request(trace: Any) -> Message:
    try:
        # which come last, so an answer that is cut has none
        return files.jaeger_request({"processes": {}, **trace})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"Jaeger answered with a trace that cannot be read: {error!r}") from None


def _ids(body: bytes) -> list[Found]:
    """The traces that an answer mentions of which only the beginning is there."""
    return [Found(x.decode().zfill(32)) for x in dict.fromkeys(_TRACE_ID.findall(body))]


def _errors(body: dict[str, Any]) -> Iterator[str]:
    for error in body.get("errors") or ():
        if isinstance(error, dict):
            yield f"Jaeger says {error.get('msg')!r} of it"


def _judged(trace: Stored) -> Stored | None:
    """None for a trace without spans; one of as many as Jaeger's storages give at most is cut."""
    if not trace.spans:
        return None
    if len(trace.spans) == MAX_TRACE_SPANS and not trace.truncated:
        why = f"it has {MAX_TRACE_SPANS:,} spans, and Jaeger's storages give no more"
        return replace(trace, truncated=why)
    return trace
