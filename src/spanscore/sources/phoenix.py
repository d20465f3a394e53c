"""Arize Phoenix's REST API.

Phoenix keeps neither resource nor scope nor kind of a span, times in whole microseconds, and reads
some attributes that are JSON when they come: these are put together again here.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from spanscore.errors import InputError
from spanscore.model.span import Event, Resource, Scope, Span, Value
from spanscore.sources.http import CUT, Backend, Http, as_sent, time_of
from spanscore.sources.location import Location
from spanscore.sources.port import MAX_TRACE_SPANS, STATUSES, Found, Query, Stored

_PAGE: Final = 1000
_SPANS_PAGE: Final = 200
_KIND: Final = "openinference.span.kind"
_NO_KIND: Final = "UNKNOWN"
_CONTENT: Final = ("llm.input_messages.", "input.value")
_GENAI_CONTENT: Final = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
)
_ADDED: Final = (
    "input.",
    "output.",
    "embedding.",
    "llm.finish_reason",
    "llm.input_messages.",
    "llm.invocation_parameters",
    "llm.model_name",
    "llm.output_messages.",
    "llm.provider",
    "llm.system",
    "llm.token_count.",
    "llm.tools.",
    "retrieval.documents.",
)
"""What Phoenix adds to a span of OpenTelemetry's GenAI conventions
(phoenix.trace.gen_ai.conversion).
"""

_JSON_TEXTS: Final = (
    "metadata",
    "llm.prompt_template.variables",
    "tool.parameters",
    "llm.invocation_parameters",
)
"""Attributes that are JSON as they are sent, and objects as Phoenix answers."""


class Source(Backend):
    """One project of a Phoenix; see `port.Source`."""

    title = "Phoenix"
    depth = 2
    """{data: [...: how deep a list of spans lies."""

    def __init__(self, location: Location, http: Http | None = None) -> None:
        """Raises InputError where a file of the TLS options cannot be used, or a service is asked
        for.
        """
        if location.query.service is not None:
            raise InputError(
                f"{location}: Phoenix keeps no service of a span; choose by project=NAME instead of"
                " service"
            )
        super().__init__(location, http)
        self._project = f"/v1/projects/{quote(location.option('project', 'default'), safe='')}"

    def pushed(self, query: Query) -> frozenset[str]:
        """See `port.Source`."""
        return frozenset(query.conditions) & {"since", "until", "errors", "min_duration"}

    def is_exact(self, query: Query) -> bool:
        """See `port.Source`."""
        return not query.attributes and query.min_duration_ns is None

    async def find(self, query: Query) -> AsyncIterator[Found]:
        """See `port.Source`."""
        parameters = _parameters(query)
        while True:
            body = self._parsed(await self._http.get(f"{self._project}/traces", parameters))
            for trace in body.get("data") or ():
                yield Found(str(trace["trace_id"]).lower(), time_of(trace["start_time"]))
            if not (cursor := body.get("next_cursor")):
                return
            parameters["cursor"] = cursor

    async def fetch(self, found: Found) -> Stored | None:
        """See `port.Source`."""
        spans: list[Span] = []
        size_bytes = 0
        parameters = {"trace_id": found.trace_id, "limit": _SPANS_PAGE}
        parameters |= {"sort": "start_time", "order": "asc"}
        while True:
            answer = await self._http.get(f"{self._project}/spans", parameters)
            size_bytes += len(answer.body)
            body = self._parsed(answer)
            spans += [self._span(x) for x in body.get("data") or ()]
            cursor = body.get("next_cursor")
            truncated = _why(spans, is_cut=answer.is_cut, has_more=bool(cursor))
            if truncated or not cursor:
                break
            parameters["cursor"] = cursor
        if not spans:
            return None
        return Stored(found.trace_id, spans[:MAX_TRACE_SPANS], (), truncated, (), size_bytes)

    def _span(self, given: Any) -> Span:
        try:
            return _span(given)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{self._where}: Phoenix answered with a span that cannot be read: {error!r}"
            ) from None


def _parameters(query: Query) -> dict[str, Any]:
    """The parameters of a search; its times are microseconds, its durations milliseconds."""
    parameters: dict[str, Any] = {"limit": _PAGE}
    if query.since_ns is not None:
        parameters["start_time"] = _time(query.since_ns)
    if query.until_ns is not None:
        parameters["end_time"] = _time(query.until_ns + 999)
    if query.errors:
        parameters["error"] = "true"
    if query.min_duration_ns is not None:
        parameters["min_latency_ms"] = max(query.min_duration_ns // 10**6 - 1, 0)
    return parameters


def _span(given: Mapping[str, Any]) -> Span:
    context = given["context"]
    return Span(
        str(context["trace_id"]).lower(),
        str(context["span_id"]).lower(),
        str(given.get("parent_id") or "").lower(),
        str(given["name"]),
        0,
        time_of(given["start_time"]),
        time_of(given["end_time"]),
        STATUSES.get(str(given.get("status_code")).lower(), 0),
        str(given.get("status_message") or ""),
        _attributes(given),
        Resource(),
        Scope(),
        tuple(map(_event, given.get("events") or ())),
    )


def _event(given: Mapping[str, Any]) -> Event:
    name, attributes = str(given.get("name") or ""), dict(given.get("attributes") or {})
    return Event(name, time_of(given["timestamp"]), attributes)


def _attributes(given: Mapping[str, Any]) -> dict[str, Value]:
    """A span's attributes as they were sent.

    OpenInference's kind, which Phoenix keeps apart, is with them again. To a span of
    OpenTelemetry's GenAI conventions Phoenix adds what OpenInference would have: that is left out.
    """
    attributes = dict(_put_together(given.get("attributes") or {}))
    if _is_converted(attributes):
        return {name: value for name, value in attributes.items() if not name.startswith(_ADDED)}
    kind = str(given.get("span_kind") or _NO_KIND)
    return attributes if kind == _NO_KIND else {**attributes, _KIND: kind}


def _is_converted(attributes: Mapping[str, Value]) -> bool:
    """Whether Phoenix made attributes of OpenInference from GenAI ones: not where only the former
    have content.
    """
    if not any(name.startswith("gen_ai.") for name in attributes):
        return False
    has_content = any(name.startswith(_CONTENT) for name in attributes)
    return not has_content or any(name in attributes for name in _GENAI_CONTENT)


def _put_together(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """Attributes with those that were sent as JSON as their text again."""
    for name in _JSON_TEXTS:
        below = [(x.removeprefix(f"{name}."), x) for x in attributes if x.startswith(f"{name}.")]
        if below:
            yield name, as_sent(_nested((x, attributes[y]) for x, y in below))
    for name, value in attributes.items():
        if not name.startswith(tuple(f"{x}." for x in _JSON_TEXTS)):
            yield name, as_sent(value)


def _nested(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        *path, last = name.split(".")
        at = made
        for step in path:
            below = at.setdefault(step, {})
            at = below if isinstance(below, dict) else at
        at[last] = value
    return made


def _why(spans: list[Span], *, is_cut: bool, has_more: bool) -> str:
    """Why it is not all of the trace; "" where it is, or may yet be."""
    if is_cut:
        return CUT
    if len(spans) > MAX_TRACE_SPANS or (len(spans) == MAX_TRACE_SPANS and has_more):
        return (
            f"it has more than {MAX_TRACE_SPANS:,} spans, of which the first {MAX_TRACE_SPANS:,}"
            " are read"
        )
    return ""


def _time(ns: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).isoformat()
