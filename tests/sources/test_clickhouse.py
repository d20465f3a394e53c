"""What is sent to ClickHouse and made of its answers; tests/live/ui holds the statements against
its real engine.
"""

import json
import re
from urllib.parse import quote

import pytest
from aiohttp import web

from spanscore.errors import InputError
from spanscore.sources.clickhouse import from_json

COLUMN = {"name": "SpanAttributes", "type": "Map(LowCardinality(String), String)"}
JSON_COLUMN = {"name": "SpanAttributes", "type": "JSON(max_dynamic_paths=256)"}
QUOTES = "output_format_json_quote_64bit_integers"


def row(span, **others):
    return {
        "TraceId": span.trace_id,
        "SpanId": span.span_id,
        "ParentSpanId": span.parent_span_id,
        "SpanName": span.name,
        "SpanKind": "Internal",
        "ResourceAttributes": span.resource.attributes,
        "ScopeName": span.scope.name,
        "ScopeVersion": span.scope.version,
        "SpanAttributes": {
            k: v if isinstance(v, str) else json.dumps(v) for k, v in span.attributes.items()
        },
        "Duration": str(span.end_ns - span.start_ns),
        "StatusCode": "Unset",
        "StatusMessage": "",
        "Start": str(span.start_ns),
        **{x: [] for x in ("EventTimes", "EventNames", "EventAttributes")},
        **{x: [] for x in ("LinkTraceIds", "LinkSpanIds", "LinkAttributes")},
        **others,
    }


ESCAPED = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r", "0": "\0"}


def unescaped(text):
    """The value of a parameter as ClickHouse reads it: a field of its format TabSeparated, which
    ends at a tab or newline.
    """
    parts = re.findall(r"\\.|[^\\\t\n]", text, re.DOTALL)
    assert "".join(parts) == text, "ClickHouse does not parse this"
    return "".join(ESCAPED.get(x[1], x[1]) if x[0] == "\\" else x for x in parts)


def quoted(value):
    """What ClickHouse's JSON had before version 25.8: integers as texts."""
    if isinstance(value, dict):
        return {name: quoted(x) for name, x in value.items()}
    if isinstance(value, list):
        return [quoted(x) for x in value]
    return str(value) if type(value) is int else value


def lines(rows, request):
    rows = rows if request.query.get(QUOTES) == "0" else quoted(rows)
    return web.Response(text="".join(json.dumps(x) + "\n" for x in rows))


def no_table():
    return web.Response(status=404, text="Code: 60. DB::Exception: no such table (UNKNOWN_TABLE)")


@pytest.fixture
def clickhouse(backend):
    """Call it with spans, and what a request for log records is answered; gives the statements that
    were sent, with their parameters as ClickHouse reads them.

    `written`: spans as rows, where they are not of texts. `readonly`: the user's setting.
    """

    def made(spans, logs=None, column=COLUMN, written=row, readonly=0):
        statements = []

        async def answer(request, body):
            statement = body.decode()
            if statement.startswith("DESCRIBE"):
                return web.Response(text=json.dumps(column) + "\n")
            if "getSetting('readonly')" in statement:
                return lines([{"Readonly": readonly}], request)
            if readonly == 1 and QUOTES in request.query:
                return web.Response(status=403, text="Cannot modify setting (READONLY)")
            given = {k: unescaped(v) for k, v in request.query.items() if k.startswith("param_")}
            statements.append((statement, given))
            if "GROUP BY" in statement:
                rows = [{"TraceId": x.trace_id, "Start": str(x.start_ns)} for x in reversed(spans)]
            elif "otel_logs" in statement:
                rows = logs
            else:
                rows = [written(x) for x in spans if x.trace_id == given["param_id"]]
            return no_table() if rows is None else lines(rows, request)

        backend.answer = answer
        return statements

    return made


def test_spans_come_as_they_were_sent_with_the_numbers_that_their_texts_are(
    backend, clickhouse, make_span, read
):
    spans = [
        make_span(2, 2, started_s=90),
        make_span(1, 1, count=3, share=0.5, cached=True, **{"session.id": "42"}),
    ]
    clickhouse(spans)
    assert [list(x.spans) for x in read(f"clickhouse://127.0.0.1:{backend.port}")] == [
        [spans[0]],
        [spans[1]],
    ]


def test_names_and_values_of_a_query_are_never_in_the_statement(
    backend, clickhouse, make_span, read
):
    statements = clickhouse([make_span(**{"a'b": "c'; DROP"})])
    read(
        f"clickhouse://127.0.0.1:{backend.port}?service=shop&attribute.a'b=c';"
        " DROP&errors=true&min_duration=0s"
    )
    search, parameters = statements[0]
    assert "DROP" not in search
    assert (parameters["param_service"], parameters["param_name0"], parameters["param_value0"]) == (
        "shop",
        "a'b",
        "c'; DROP",
    )


@pytest.mark.parametrize(
    "text",
    [
        r"C:\new",
        "ends in \\",
        "a\tb",
        "two\nlines",
        "two\r\nlines",
        "a\0b",
        r"\N",
        r"\\x41",
        "it's",
    ],
)
def test_a_text_of_a_query_arrives_as_it_is(backend, clickhouse, make_span, read, text):
    statements = clickhouse([make_span()])
    value = quote(text)
    read(f"clickhouse://127.0.0.1:{backend.port}?service={value}&attribute.path={value}")
    _, parameters = statements[0]
    assert (parameters["param_service"], parameters["param_value0"]) == (text, text)


LARGE = 2**53 + 1
OF_JSON = {"n": 7, "large": LARGE, "list": [1, LARGE], "text": "7", "objects": [{"n": 1}]}


def json_row(span):
    """A row of a table with columns of JSON."""
    return row(
        span,
        SpanAttributes=span.attributes,
        SpanTypes={"n": "Int64", "large": "Int64", "list": "Array(Nullable(Int64))"},
        ResourceTypes={},
        EventTimes=["1"],
        EventNames=["e"],
        EventAttributes=[OF_JSON],
        LinkTraceIds=["1" * 32],
        LinkSpanIds=["1" * 16],
        LinkAttributes=[OF_JSON],
    )


def json_log(span):
    return {
        "TraceId": span.trace_id,
        "SpanId": span.span_id,
        "Time": str(span.start_ns),
        "Type": "JSON",
        "SeverityNumber": 9,
        "Body": "hello",
        "LogAttributes": OF_JSON,
        "ResourceAttributes": {},
        "ScopeName": "s",
        "ScopeVersion": "",
    }


def test_numbers_in_columns_of_json_stay_numbers_also_in_lists_events_links_and_log_records(
    backend, clickhouse, make_span, read
):
    span = make_span(**OF_JSON)
    clickhouse([span], [json_log(span)], column=JSON_COLUMN, written=json_row)
    [stored] = read(f"clickhouse://127.0.0.1:{backend.port}")
    [found], [record] = stored.spans, stored.logs
    assert found.attributes == span.attributes
    assert [x.attributes for x in (*found.events, *found.links, record)] == [OF_JSON] * 3


def test_a_user_who_must_not_send_settings_gets_the_integers_whose_types_are_known(
    backend, clickhouse, make_span, read
):
    clickhouse([make_span(**OF_JSON)], column=JSON_COLUMN, written=json_row, readonly=1)
    [[found]] = [x.spans for x in read(f"clickhouse://127.0.0.1:{backend.port}")]
    assert (found.attributes["n"], found.attributes["large"]) == (7, LARGE)


def test_log_records_come_with_their_trace(backend, clickhouse, make_span, read):
    span = make_span()
    log = {
        "TraceId": span.trace_id,
        "SpanId": span.span_id,
        "Time": str(span.start_ns),
        "Type": "Map(LowCardinality(String), String)",
        "SeverityNumber": 9,
        "Body": '{"content":"hello"}',
        "LogAttributes": {"event.name": "gen_ai.user.message"},
        "ResourceAttributes": {},
        "ScopeName": "s",
        "ScopeVersion": "",
    }
    clickhouse([span], [log])
    [[record]] = [x.logs for x in read(f"clickhouse://127.0.0.1:{backend.port}")]
    assert (record.body, record.event_name) == ({"content": "hello"}, "gen_ai.user.message")


def test_a_database_without_log_records_is_asked_for_them_once(
    backend, clickhouse, make_span, read
):
    statements = clickhouse([make_span(x, x) for x in range(1, 20)])
    assert len(read(f"clickhouse://127.0.0.1:{backend.port}")) == 19
    # as many as are fetched side by side
    assert sum("otel_logs" in statement for statement, _ in statements) <= 4


@pytest.mark.parametrize("option", ["table=a;b", "logs_table=a b", "table="])
def test_a_name_that_is_no_table_is_refused(read, option):
    with pytest.raises(InputError, match=r"write TABLE or DATABASE\.TABLE"):
        read(f"clickhouse://127.0.0.1:1?{option}")


def test_an_answer_that_is_no_row_is_an_error(backend, read):
    async def answer(_request, _body):
        return web.Response(text="Code: 241. Memory limit exceeded\n")

    backend.answer = answer
    with pytest.raises(InputError, match="Memory limit exceeded"):
        read(f"clickhouse://127.0.0.1:{backend.port}")


def test_columns_of_json_have_their_numbers_and_the_names_of_what_is_nested():
    column = {"gen_ai": {"usage": {"input_tokens": "7"}, "request": {"n": "7"}}, "ok": True}
    types = {"gen_ai.usage.input_tokens": "Int64", "gen_ai.request.n": "String", "ok": "Bool"}
    assert from_json(column, types) == {
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.request.n": "7",
        "ok": True,
    }


def test_an_attribute_in_a_column_of_json_is_searched_by_a_parameter(
    backend, clickhouse, make_span, read
):
    statements = clickhouse([make_span()], column=JSON_COLUMN, written=json_row)
    read(f"clickhouse://127.0.0.1:{backend.port}?attribute.a'b=c")
    search, parameters = statements[0]
    assert ("getSubcolumn(SpanAttributes, {name0:String})" in search, "a'b" in search) == (
        True,
        False,
    )
    assert parameters["param_name0"] == "a'b"
