"""Agent traces of a time and of a session come page by page, each once, in every order, on every
database.
"""

from dataclasses import replace

import pytest

from spanscore.model.span import TENANT, with_headers
from spanscore.store.listing import TraceQuery
from spanscore.store.ordering import Order

BY_ROW = Order("stored_ns", is_falling=True)
BY_START = Order("started_ns", is_falling=True)
ORDERS = (BY_ROW, BY_START, Order("stored_ns"), Order("started_ns"))


def sent_by(trace, tenant):
    resource = with_headers(trace.target.resource, ((TENANT, tenant),) if tenant else ())
    return replace(trace, target=replace(trace.target, resource=resource))


@pytest.fixture
def commit(store, make, clock):
    """Commit traces, each a second after the one before."""

    def several(*traces):
        for trace in traces:
            clock.now_ns += 10**9
            store.commit([make.stored(trace)], [])

    return several


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("tenant", ["", "acme"])
def test_traces_stored_since_a_time_come_page_by_page(store, commit, make, clock, order, tenant):
    commit(*(sent_by(make.trace(x), tenant) for x in (5, 3, 4, 1, 2)))
    query = TraceQuery(since_ns=clock.now_ns - 2 * 10**9, order=order, tenant=tenant)
    assert (
        _numbers(store, query)
        == {
            BY_ROW: [2, 1, 4],
            BY_START: [4, 2, 1],
            Order("stored_ns"): [4, 1, 2],
            Order("started_ns"): [1, 2, 4],
        }[order]
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("tenant", ["", "acme"])
def test_traces_of_a_session_come_page_by_page(store, commit, make, order, tenant):
    keys = {5: "s", 3: "shop:s", 4: "s", 1: "other", 2: "shop:s"}
    for number, key in keys.items():
        commit(sent_by(make.trace(number, session_id=key[-1:], session_key=key), tenant))
    assert (
        _numbers(store, TraceQuery(session_id="s", order=order, tenant=tenant))
        == {
            BY_ROW: [2, 4, 3, 5],
            BY_START: [5, 4, 3, 2],
            Order("stored_ns"): [5, 3, 4, 2],
            Order("started_ns"): [2, 3, 4, 5],
        }[order]
    )


def test_nothing_is_stored_since_a_time_to_come(store, commit, make, clock):
    commit(make.trace(1))
    assert store.list_traces(TraceQuery(since_ns=clock.now_ns + 1), 10).items == []


def _numbers(store, query):
    found, place = [], None
    while not found or place:
        page = store.list_traces(query, 2, place)
        found, place = found + [int(x.trace.trace_ids[0], 16) for x in page.items], page.next
    return found
