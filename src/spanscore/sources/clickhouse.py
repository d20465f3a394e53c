"""The ClickHouse exporter's tables, over HTTP.

Attributes are maps of texts, or JSON (`clickhouse_columns.py`). Names and values of a query are
parameters of the statement, never part of its text.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from spanscore.errors import InputError
from spanscore.model.json import loads
from spanscore.model.span import Event, Link, LogRecord, Resource, Scope, Span, Value
from spanscore.sources.http import CUT, Answer, Backend, Http
from spanscore.sources.location import Location
from spanscore.sources.port import MAX_TRACE_SPANS, STATUSES, Found, Query, Stored, within

_PAGE: Final = 20_000
"""Traces of one answer to a search."""

_SLACK_NS: Final = 3600 * 10**9
"""How long before `since` and after `until` spans are looked for, of traces around these times."""

_DAY_NS: Final = 24 * 3600 * 10**9
"""How far from its start, as the search gave it, the spans of a trace are looked for."""

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_KINDS: Final = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_FAILED: Final = "StatusCode IN ('Error', 'STATUS_CODE_ERROR')"
_UNKNOWN_TABLE: Final = b"UNKNOWN_TABLE"

_SPANS: Final = """SELECT TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ResourceAttributes, \
ScopeName,
  ScopeVersion,
  SpanAttributes, Duration, StatusCode, StatusMessage, toString(toUnixTimestamp64Nano(Timestamp)) \
AS Start,
  arrayMap(x -> toString(toUnixTimestamp64Nano(x)), Events.Timestamp) AS EventTimes, Events.Name \
AS EventNames,
  Events.Attributes AS EventAttributes, Links.TraceId AS LinkTraceIds, Links.SpanId AS LinkSpanIds,
  Links.Attributes AS LinkAttributes{types}
FROM {table} WHERE TraceId = {{id:String}}{time} ORDER BY Timestamp LIMIT 1 BY SpanId LIMIT \
{limit}"""

_TYPES: Final = """,
  JSONAllPathsWithTypes(SpanAttributes) AS SpanTypes, \
JSONAllPathsWithTypes(ResourceAttributes) AS ResourceTypes"""

_LOGS: Final = """SELECT *, toString(toUnixTimestamp64Nano(Timestamp)) AS Time, \
toTypeName(LogAttributes) AS Type
FROM {table} WHERE TraceId = {{id:String}}{time} ORDER BY Timestamp LIMIT {limit}"""

_READONLY: Final = "SELECT getSetting('readonly') AS Readonly"

_UNQUOTED: Final = {"output_format_json_quote_64bit_integers": "0"}
"""Before version 25.8 integers are texts in ClickHouse's JSON unless this setting is sent."""

_NO_SETTINGS: Final = 1
"""The value of `readonly` with which a user must not send any setting."""

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
"""ClickHouse reads the value of a parameter as a field of its format TabSeparated."""


class Source(Backend):
    """One ClickHouse; see `port.Source`."""

    title = "ClickHouse"

    def __init__(self, location: Location, http: Http | None = None) -> None:
        """Raises InputError where a name of a table is none, or a file of the TLS options cannot be
        used.
        """
        super().__init__(location, http)
        self._database = location.option("database", "default")
        self._table = _identifier(location, "table", "otel_traces")
        self._logs: str | None = _identifier(location, "logs_table", "otel_logs")
        self._is_json: bool | None = None
        self._settings: Mapping[str, str] = {}

    async def find(self, query: Query) -> AsyncIterator[Found]:
        """See `port.Source`."""
        after: tuple[int, str] | None = None
        has_json = bool(query.attributes) and await self._has_json()
        while True:
            statement, parameters = _search(self._table, query, after, has_json=has_json)
            rows = list(self._read(await self._ask(statement, parameters)))
            for row in rows:
                after = int(row["Start"]), str(row["TraceId"])
                yield Found(after[1].lower().zfill(32), after[0])
            if len(rows) < _PAGE:
                return

    async def fetch(self, found: Found) -> Stored | None:
        """See `port.Source`."""
        types = _TYPES if await self._has_json() else ""
        answer = await self._ask(*_of_trace(_SPANS, self._table, found, types))
        spans = [_span(x) for x in self._read(answer)]
        if not spans:
            return None
        first_spans, too_many = within(spans)
        logs = await self._log_records(found)
        truncated = CUT if answer.is_cut else too_many
        return Stored(found.trace_id, first_spans, logs, truncated, (), len(answer.body))

    async def _has_json(self) -> bool:
        """Whether attributes are in columns of JSON."""
        if self._is_json is None:
            columns = self._read(await self._ask(f"DESCRIBE TABLE {self._table}", {}))
            types = {str(x["name"]): str(x["type"]) for x in columns}
            found = is_json(types.get("SpanAttributes", ""))
            if found and await self._may_set():
                self._settings = _UNQUOTED
            self._is_json = found
        return self._is_json

    async def _may_set(self) -> bool:
        """Whether the user may send settings with a statement."""
        rows = self._read(await self._ask(_READONLY, {}))
        return all(int(x["Readonly"]) != _NO_SETTINGS for x in rows)

    async def _log_records(self, found: Found) -> list[LogRecord]:
        if self._logs is None:
            return []
        answer = await self._ask(*_of_trace(_LOGS, self._logs, found), expected=(404,))
        if answer.status == 404:
            if _UNKNOWN_TABLE not in answer.body:
                raise InputError(f"{self._where}: {answer.body[:200].decode(errors='replace')}")
            self._logs = None  # nobody exports log records there
            return []
        return [_log_record(x) for x in self._read(answer)]

    async def _ask(
        self, statement: str, parameters: Mapping[str, Any], expected: tuple[int, ...] = ()
    ) -> Answer:
        query = {
            "database": self._database,
            **self._settings,
            **{f"param_{name}": str(x).translate(_ESCAPES) for name, x in parameters.items()},
        }
        body = f"{statement} FORMAT JSONEachRow"
        return await self._http.ask("POST", "/", query=query, body=body, expected=expected)

    def _read(self, answer: Answer) -> Iterator[dict[str, Any]]:
        lines = answer.body.split(b"\n")
        for line in lines[:-1]:  # each ends its line, but for one that was cut
            try:
                yield loads(line)
            except ValueError:
                shown = line[:200].decode(errors="replace")
                raise InputError(
                    f"{self._where}: ClickHouse answered with no row of JSON: {shown}"
                ) from None


def _identifier(location: Location, option: str, default: str) -> str:
    name = location.option(option, default)
    if not _IDENTIFIER.fullmatch(name):
        raise InputError(f"{location}: {option}={name}: write TABLE or DATABASE.TABLE")
    return name


def _search(
    table: str, query: Query, after: tuple[int, str] | None, *, has_json: bool
) -> tuple[str, dict[str, Any]]:
    """The statement for a page of the traces that a query accepts, the newest first, and its
    parameters.
    """
    given: dict[str, Any] = {}
    where, having = [], []
    start = "toUnixTimestamp64Nano(min(Timestamp))"
    if query.since_ns is not None:
        given["since"], given["since_slack"] = query.since_ns, max(query.since_ns - _SLACK_NS, 0)
        where.append(f"Timestamp >= {_moment('since_slack')}")
        having.append(f"{start} >= {{since:Int64}}")
    if query.until_ns is not None:
        given["until"], given["until_slack"] = query.until_ns, query.until_ns + _SLACK_NS
        where.append(f"Timestamp < {_moment('until_slack')}")
        having.append(f"{start} < {{until:Int64}}")
    if query.min_duration_ns is not None:
        given["duration"] = query.min_duration_ns
        having.append(
            f"max(toUnixTimestamp64Nano(Timestamp) + toInt64(Duration)) - {start} >="
            " {duration:Int64}"
        )
    having += [f"countIf({condition}) > 0" for condition in _of_spans(query, given, has_json)]
    if after is not None:
        given["after"], given["after_id"] = after
        having.append(f"({start}, TraceId) < ({{after:Int64}}, {{after_id:String}})")
    return (
        f"SELECT TraceId, toString({start}) AS Start FROM {table}"  # noqa: S608 - the name of a table, held to be one
        f"{' WHERE ' if where else ''}{' AND '.join(where)} GROUP BY TraceId"
        f"{' HAVING ' if having else ''}{' AND '.join(having)} ORDER BY {start} DESC, TraceId DESC"
        f" LIMIT {_PAGE}"
    ), given


def _of_spans(query: Query, given: dict[str, Any], has_json: bool) -> Iterator[str]:
    """Conditions of which each must hold for a span; their values are added to `given`."""
    of_service = ""
    if query.service is not None:
        given["service"] = query.service
        of_service = "ServiceName = {service:String} AND "
        yield "ServiceName = {service:String}"
    if query.errors:
        yield f"{of_service}{_FAILED}"
    for number, (name, value) in enumerate(query.attributes.items()):
        given[f"name{number}"], given[f"value{number}"] = name, value
        either = " OR ".join(
            f"{_attribute(column, number, has_json)} = {{value{number}:String}}"
            for column in ("SpanAttributes", "ResourceAttributes")
        )
        yield f"{of_service}({either})"


def _attribute(column: str, number: int, has_json: bool) -> str:
    """An attribute as text."""
    name = f"{{name{number}:String}}"
    return f"toString(getSubcolumn({column}, {name}))" if has_json else f"{column}[{name}]"


def _of_trace(
    statement: str, table: str, found: Found, types: str = ""
) -> tuple[str, dict[str, Any]]:
    given: dict[str, Any] = {"id": found.trace_id}
    time = ""
    if found.start_ns:
        given["low"], given["high"] = max(found.start_ns - _DAY_NS, 0), found.start_ns + _DAY_NS
        time = f" AND Timestamp >= {_moment('low')} AND Timestamp <= {_moment('high')}"
    return statement.format(table=table, time=time, limit=MAX_TRACE_SPANS + 1, types=types), given


def _moment(parameter: str) -> str:
    return f"fromUnixTimestamp64Nano({{{parameter}:Int64}})"


def _span(row: Mapping[str, Any]) -> Span:
    start_ns = int(row["Start"])
    attributes = from_json if "SpanTypes" in row else from_map
    events = zip(row["EventNames"], row["EventTimes"], row["EventAttributes"], strict=True)
    links = zip(row["LinkTraceIds"], row["LinkSpanIds"], row["LinkAttributes"], strict=True)
    return Span(
        str(row["TraceId"]).lower(),
        str(row["SpanId"]).lower(),
        str(row["ParentSpanId"]).lower(),
        str(row["SpanName"]),
        _KINDS.get(_word(row["SpanKind"]), 0),
        start_ns,
        start_ns + int(row["Duration"]),
        STATUSES.get(_word(row["StatusCode"]), 0),
        str(row["StatusMessage"]),
        _typed(row, "Span"),
        Resource(_typed(row, "Resource")),
        Scope(str(row["ScopeName"]), str(row["ScopeVersion"])),
        tuple(Event(name, int(time_ns), attributes(x)) for name, time_ns, x in events),
        tuple(Link(trace_id, span_id, attributes(x)) for trace_id, span_id, x in links),
    )


def _typed(row: Mapping[str, Any], whose: str) -> dict[str, Value]:
    """The attributes of a span or of its resource."""
    column, types = row[f"{whose}Attributes"], row.get(f"{whose}Types")
    return from_map(column) if types is None else from_json(column, types)


def _log_record(row: Mapping[str, Any]) -> LogRecord:
    read = from_json if is_json(str(row["Type"])) else from_map
    attributes = read(row["LogAttributes"])
    named = row.get("EventName") or attributes.get("event.name")
    return LogRecord(
        str(row["TraceId"]).lower(),
        str(row["SpanId"]).lower(),
        int(row["Time"]),
        named if isinstance(named, str) else "",
        _body(row["Body"]),
        attributes,
        Resource(read(row["ResourceAttributes"])),
        Scope(str(row["ScopeName"]), str(row["ScopeVersion"])),
        int(row["SeverityNumber"]),
    )


def _word(text: Any) -> str:
    """What `Client` and `SPAN_KIND_CLIENT` have in common: older versions of the exporter wrote the
    latter.
    """
    return str(text).rpartition("_")[2].lower()


def _body(text: Any) -> Value:
    """A record's body: of objects and lists there is the JSON."""
    if isinstance(text, str) and text[:1] in ("{", "["):
        try:
            parsed: Value = loads(text)
        except ValueError:
            return text
        return parsed
    return str(text)


_OF_ID: Final = re.compile(r"(?:^|[._-])(?:id|ids|uuid|key|hash|version|name)$", re.IGNORECASE)
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_FLOAT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+(?:e[+-]?[0-9]+)?")
_TRUTHS: Final = {"true": True, "false": False}
_INTEGER_TYPES: Final = ("Int", "UInt")


def is_json(type_name: str) -> bool:
    """Whether a column of this type has JSON, and not a map.

    >>> is_json("JSON(max_dynamic_paths=256)"), is_json("Map(LowCardinality(String), String)")
    (True, False)
    """
    return type_name.startswith("JSON")


def from_map(column: Mapping[str, str]) -> dict[str, Value]:
    """A map of texts with the numbers and truth values that its texts are; what is an id stays
    text.
    """
    return {name: text if _OF_ID.search(name) else _scalar(text) for name, text in column.items()}


def from_json(
    column: Mapping[str, Any], types: Mapping[str, str] | None = None
) -> dict[str, Value]:
    """The attributes in a column of JSON, by their whole names.

    `types` has ClickHouse's types by name: some versions write integers in quotes for a user who
    must not send settings.
    """
    known = types or {}
    found = dict(_leaves(column))
    for name, value in found.items():
        if isinstance(value, str) and known.get(name, "").startswith(_INTEGER_TYPES):
            found[name] = int(value)
    return found


def _leaves(column: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in column.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value


def _scalar(text: str) -> Value:
    if text in _TRUTHS:
        return _TRUTHS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
