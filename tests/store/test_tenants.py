"""Each row says whose it is, and what two tenants send under one id is two rows."""

from dataclasses import replace

import pytest
from sqlalchemy import func, select

from spanscore.model.score import Annotation, Evaluator
from spanscore.model.span import TENANT, with_headers
from spanscore.model.trace import in_scope
from spanscore.store import schema, stored_rows
from spanscore.store.config import Config
from spanscore.store.store import Store

HUMAN = Evaluator("HUMAN", "anna", "", source="human")


def of_tenant(trace, tenant):
    """The trace as it is when this tenant sends it."""
    target = replace(
        trace.target, resource=with_headers(trace.target.resource, ((TENANT, tenant),))
    )
    [found] = in_scope([replace(trace, target=target)], ())
    return found


def given(trace):
    """What a person gave to the OTel trace of `trace`."""
    uid = f"given {trace.tenant}"[:16]
    return {
        "outcome": Annotation(1.0),
        "evaluator": HUMAN,
        "received_uid": uid,
        "subject_id": trace.target.trace_id,
    }


@pytest.fixture
def both(make):
    """One OTel trace, with one session id, as two tenants send it."""
    return [of_tenant(make.trace(session_id="chat-7"), tenant) for tenant in ("acme", "blue")]


@pytest.fixture
def store(any_store, make, both):
    """A store into which both have committed."""
    any_store.commit(
        [make.stored(x) for x in both], [make.score(x, session_key=x.session_key) for x in both]
    )
    any_store.put_external([make.score(x, "helpful", **given(x)) for x in both])
    return any_store


def rows(store, table, *columns):
    with store._database.reading() as connection:
        return sorted(map(tuple, connection.execute(select(*(table.c[x] for x in columns)))))


def test_the_same_spans_of_two_tenants_are_two_agent_traces(both):
    assert both[0].id != both[1].id
    assert both[0].session_key != both[1].session_key


def test_without_tenants_an_agent_traces_id_is_what_it_was(make):
    assert make.trace().id == "3264e9826a0a765224d7b5c26ff4236b"


@pytest.mark.parametrize("table", ["agent_traces", "names", "scores"])
def test_each_row_says_whose_it_is(store, table):
    found = rows(store, schema.tables.tables[table], "tenant")
    assert sorted(set(found)) == [("acme",), ("blue",)]


def facts_of(store, metric):
    """Whose scores of a metric analytics knows, each with a hash of what was scored."""
    made, facts = schema.score_procedures.c, schema.scores.c
    query = select(made.tenant, facts.subject).join_from(
        schema.scores, schema.score_procedures, facts.procedure == made.id
    )
    with store._database.reading() as connection:
        return sorted(
            map(tuple, connection.execute(query.where(made.metric == metric, schema.COUNTED)))
        )


def test_what_both_gave_to_one_otel_trace_has_facts_of_its_own(store):
    (acme, of_acme), (blue, of_blue) = facts_of(store, "helpful")
    assert (acme, blue) == ("acme", "blue")
    assert of_acme != of_blue


def test_a_later_score_of_one_tenant_leaves_the_others_facts(store, make, both):
    before = facts_of(store, "helpful")
    again = given(both[0]) | {"received_uid": "given again", "evaluated_at_ns": 1}
    store.put_external([make.score(both[0], "helpful", **again)])
    assert facts_of(store, "helpful") == before


@pytest.mark.parametrize(("tenant", "count"), [("acme", 1), ("blue", 1), ("", 0), ("a", 0)])
def test_the_rows_of_one_tenant_are_found(store, tenant, count):
    wanted = stored_rows.is_of(schema.agent_traces, tenant)
    query = select(func.count()).select_from(schema.agent_traces).where(*wanted)
    with store._database.reading() as connection:
        assert connection.execute(query).scalar_one() == count


@pytest.mark.parametrize(("table", "order"), [("agent_traces", "row"), ("scores", "number")])
def test_a_tenants_newest_rows_are_found_by_an_index(tmp_path, table, order):
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/spanscore.db"))
    rows_of = schema.tables.tables[table]
    query = (
        select(rows_of.c[order])
        .where(*stored_rows.is_of(rows_of, "acme"))
        .order_by(rows_of.c[order].desc())
    )
    with store._database.reading() as connection:
        asked = query.compile(connection)
        explained = connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {asked}", tuple(asked.params.values())
        )
        plan = [x.detail for x in explained]
    store.close()
    assert plan == [f"SEARCH {table} USING COVERING INDEX {table}_by_tenant_{order} (tenant=?)"]
