import pytest

from spanscore.model.span import LogRecord, Resource, Scope
from spanscore.sources.port import Query

NOW_NS = 1_700_000_000 * 10**9


@pytest.mark.parametrize(
    ("query", "is_wanted"),
    [
        (Query(), True),
        (Query(service="shop"), True),
        (Query(service="stock"), True),
        (Query(service="other"), False),
        (Query(errors=True), True),
        (Query(service="stock", errors=True), False),
        (Query(attributes={"session.id": "s", "count": "3", "cached": "true"}), True),
        (Query(attributes={"session.id": "s"}, service="stock"), False),
        (Query(attributes={"count": "4"}), False),
        (Query(attributes={"service.name": "stock"}), True),
        (Query(min_duration_ns=5 * 10**9), True),
        (Query(min_duration_ns=5 * 10**9 + 1), False),
        (Query(since_ns=NOW_NS - 60 * 10**9), True),
        (Query(since_ns=NOW_NS - 60 * 10**9 + 1), False),
        (Query(until_ns=NOW_NS - 60 * 10**9), False),
        (Query(until_ns=NOW_NS - 60 * 10**9 + 1), True),
        (Query(trace_ids=(f"{1:032x}",)), True),
        (Query(trace_ids=(f"{2:032x}",)), False),
    ],
)
def test_a_trace_is_wanted_where_each_condition_holds_for_one_of_its_spans(
    make_span, query, is_wanted
):
    spans = [
        make_span(1, 1, **{"session.id": "s"}),
        make_span(1, 2, status=2, count=3, cached=True),
        make_span(1, 3, service="stock", started_s=58, took_s=3),
    ]
    assert query.accepts(spans) is is_wanted


def test_a_trace_of_log_records_alone_is_held_by_these():
    log = LogRecord(
        f"{1:032x}",
        "",
        NOW_NS,
        "",
        None,
        {"session.id": "s"},
        Resource({"service.name": "shop"}),
        Scope(),
    )
    assert Query(service="shop", attributes={"session.id": "s"}).accepts([], [log])
    assert not Query(service="other").accepts([], [log])
    assert not Query(errors=True).accepts([], [log])
