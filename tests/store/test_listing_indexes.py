"""Agent traces and scores are listed by an index that leads to those that are wanted, as SQLite
plans it.
"""

from dataclasses import replace

import pytest
from sqlalchemy import create_engine, event

from spanscore.model.span import TENANT, with_headers
from spanscore.store import listing
from spanscore.store.listing import ScoreQuery, TraceQuery
from spanscore.store.ordering import Order

BY_ROW = Order("stored_ns", is_falling=True)
BY_START = Order("started_ns", is_falling=True)
ORDERS = (BY_ROW, BY_START, Order("stored_ns"), Order("started_ns"))


@pytest.fixture
def database_url(tmp_path):
    return f"sqlite:///{tmp_path}/spanscore.db"


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


@pytest.fixture
def plans(store, database_url):
    """`plans(query)`: how SQLite finds the agent traces, for each statement of all pages."""

    def of(query):
        engine = create_engine(database_url)
        asked = []

        def note(_connection, _cursor, statement, parameters, *_rest):
            if "ORDER BY" in statement and "agent_traces.stored_ns" not in statement:
                asked.append((statement, parameters))

        event.listen(engine, "before_cursor_execute", note)
        with engine.connect() as connection:
            page = listing.traces(connection, query, 2)
            while page.next is not None:
                page = listing.traces(connection, query, 2, page.next)
            explained = [
                connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
                for statement, parameters in list(asked)
            ]
        engine.dispose()
        return [rows[0].detail for rows in explained]

    return of


@pytest.fixture
def steps(store, database_url):
    """`steps(query)`: how many tens of instructions SQLite takes to list scores."""

    def of(query):
        engine = create_engine(database_url)
        taken = []
        with engine.connect() as connection:
            connection.connection.driver_connection.set_progress_handler(
                lambda: taken.append(1), 10
            )
            assert len(listing.scores(connection, query, 2).items) == 1
        engine.dispose()
        return len(taken)

    return of


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_of_the_traces_stored_since_a_time_no_older_one_is_looked_at(
    commit, make, clock, plans, tenant
):
    commit(*(sent_by(make.trace(x), tenant) for x in range(1, 6)))
    query = TraceQuery(since_ns=clock.now_ns - 2 * 10**9, tenant=tenant)
    for detail in plans(query):
        assert "rowid>?" in detail or "row>?" in detail


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_in_the_order_of_their_start_their_index_is_walked_and_nothing_sorted(
    commit, make, clock, plans, tenant
):
    commit(*(sent_by(make.trace(x), tenant) for x in range(1, 6)))
    name = "agent_traces_by_tenant_started_ns" if tenant else "agent_traces_by_start"
    query = TraceQuery(since_ns=clock.now_ns - 2 * 10**9, order=BY_START, tenant=tenant)
    for detail in plans(query):
        assert name in detail


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("tenant", ["", "acme"])
@pytest.mark.parametrize("scoped", [False, True])
def test_traces_of_a_session_are_found_by_its_index(commit, make, plans, order, tenant, scoped):
    facts = {"session_id": "s", "session_key": "shop:s" if scoped else "s"}
    commit(*(sent_by(make.trace(x, **facts), tenant) for x in range(1, 6)))
    for detail in plans(TraceQuery(session_id="s", order=order, tenant=tenant)):
        assert "session_id=?" in detail


@pytest.mark.slow
def test_of_the_scores_stored_since_a_time_no_older_one_is_looked_at_where_the_oldest_comes_first(
    store, make, clock, steps
):
    def listed():
        """Commit more scores, and list the last one of them."""
        clock.now_ns += 10**9
        store.commit([], [make.score(make.trace(x), f"m{clock.now_ns}") for x in range(200)])
        clock.now_ns += 10**9
        store.commit([], [make.score(make.trace(1), f"m{clock.now_ns}")])
        return steps(ScoreQuery(since_ns=clock.now_ns, order=(listing.OLDEST_FIRST,)))

    few = listed()
    for _ in range(9):
        many = listed()
    assert many < 2 * few
