"""What is sent to ClickHouse and made of its answers; tests/live/ui holds the statements against
its real engine.
"""

import json

import pytest
from aiohttp import web

from spanscore.errors import InputError


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


@pytest.fixture
def clickhouse(backend):
    """Call it with spans, and what a request for log records is answered; gives the statements that
    were sent.
    """

    def made(spans, logs=None):
        statements = []

        async def answer(request, body):
            statement = body.decode()
            statements.append((statement, dict(request.query)))
            if "GROUP BY" in statement:
                rows = [{"TraceId": x.trace_id, "Start": str(x.start_ns)} for x in reversed(spans)]
            elif "otel_logs" in statement and logs is None:
                return web.Response(
                    status=404, text="Code: 60. DB::Exception: no such table (UNKNOWN_TABLE)"
                )
            elif "otel_logs" in statement:
                rows = logs
            else:
                rows = [row(x) for x in spans if x.trace_id == request.query["param_id"]]
            return web.Response(text="".join(json.dumps(x) + "\n" for x in rows))

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


def test_log_records_come_with_their_trace(backend, clickhouse, make_span, read):
    span = make_span()
    log = {
        "TraceId": span.trace_id,
        "SpanId": span.span_id,
        "Time": str(span.start_ns),
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
