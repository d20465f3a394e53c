"""What a tenant asks the store for is found among what that tenant has, whatever ids, names and
filters it gives.
"""

from dataclasses import replace

import pytest

from spanscore.filters import parse
from spanscore.model.score import Annotation, Evaluator
from spanscore.model.span import TENANT, with_headers
from spanscore.model.trace import in_scope
from spanscore.store import external
from spanscore.store.config import Config
from spanscore.store.listing import SCORE_FIELDS, TRACE_FIELDS, ScoreQuery, TraceQuery
from spanscore.store.session_lists import SESSION_FIELDS, SessionQuery

TENANTS = ("acme", "blue")
LATE = 2**62
HUMAN = Evaluator("HUMAN", "anna", "", source="human")


def of_tenant(trace, tenant):
    """The trace as it is when this tenant sends it."""
    target = replace(
        trace.target, resource=with_headers(trace.target.resource, ((TENANT, tenant),))
    )
    [found] = in_scope([replace(trace, target=target)], ())
    return found


@pytest.fixture
def turns(make):
    """By tenant the agent trace of one OTel trace in one session, as both send it."""
    return {x: of_tenant(make.trace(session_id="chat-7", user_input=x), x) for x in TENANTS}


@pytest.fixture
def store(any_store, make, turns):
    """What both have committed: a score of the trace, one of the session, and what a person gave to
    the trace.
    """
    for tenant, turn in turns.items():
        of_session = {
            "scope": "session",
            "subject_id": turn.session_key,
            "session_key": turn.session_key,
        }
        any_store.commit(
            [make.stored(turn)],
            [
                make.score(turn, session_key=turn.session_key),
                make.score(turn, "loop_detection", **of_session),
            ],
        )
        given = {
            "outcome": Annotation(1.0),
            "evaluator": HUMAN,
            "received_uid": f"given by {tenant}",
        }
        any_store.put_external(
            [make.score(turn, "helpful", **given | {"subject_id": turn.target.trace_id})]
        )
    return any_store


def tenants_of(found):
    return {x.tenant for x in found}


@pytest.fixture
def ids(turns):
    """What a tenant may name: the OTel trace, the session, and what only spanscore has made, of
    either tenant.
    """
    one, other = turns.values()
    return {
        "trace_id": [one.target.trace_id, one.id, other.id],
        "session_id": ["chat-7", one.session_key, other.session_key],
    }


@pytest.mark.parametrize("tenant", TENANTS)
def test_a_trace_is_found_by_what_its_tenant_knows_it_by(store, turns, ids, tenant):
    found = [store.trace(x, tenant=tenant) for x in ids["trace_id"]]
    own = turns[tenant]
    assert found == [own, *(own if x is own else None for x in turns.values())]


@pytest.mark.parametrize("tenant", TENANTS)
@pytest.mark.parametrize("name", ["trace_id", "session_id"])
@pytest.mark.parametrize("what", ["evaluations", "external_scores"])
def test_scores_of_a_subject_are_its_tenants(store, ids, tenant, name, what):
    found = [getattr(store, what)(**{name: x}, tenant=tenant) for x in ids[name]]
    assert [tenants_of(x) for x in found if x] == [{tenant}] * 2


@pytest.mark.parametrize("tenant", TENANTS)
def test_a_session_is_found_by_what_its_tenant_knows_it_by(store, turns, ids, tenant):
    keys = [store.session_keys(x, tenant=tenant) for x in ids["session_id"]]
    own = [turns[tenant].session_key]
    assert keys == [own, *(own if x == tenant else [] for x in TENANTS)]
    assert [x.session.traces for x in store.sessions(ids["session_id"], tenant=tenant)] == [
        (turns[tenant],)
    ]


@pytest.mark.parametrize("tenant", [*TENANTS, "", "a"])
def test_a_score_is_found_by_its_tenant_alone(store, turns, tenant):
    every = [
        x
        for turn in turns.values()
        for x in store.evaluations(trace_id=turn.id, tenant=turn.tenant)
    ]
    every += [
        x
        for turn in turns.values()
        for x in store.external_scores(trace_id=turn.id, tenant=turn.tenant)
    ]
    found = [x for score in every if (x := store.score(score.uid, tenant=tenant)) is not None]
    assert len(every) == 4
    assert [x.uid for x in found] == [x.uid for x in every if x.tenant == tenant]


@pytest.mark.parametrize("filter_", ["", "session_id = chat-7"])
@pytest.mark.parametrize("tenant", [*TENANTS, "", "a"])
def test_lists_have_what_is_the_tenants(store, turns, tenant, filter_):
    scores = store.list_scores(
        ScoreQuery(tenant=tenant, filter=parse(filter_, SCORE_FIELDS)), 10
    ).items
    traces = store.list_traces(
        TraceQuery(tenant=tenant, filter=parse(filter_, TRACE_FIELDS)), 10
    ).items
    sessions = store.list_sessions(
        SessionQuery(tenant=tenant, filter=parse(filter_, SESSION_FIELDS)), 10
    ).items
    own = [x for name, x in turns.items() if name == tenant]
    assert [x.trace for x in traces] == own
    assert [x.session.traces for x in sessions] == [(x,) for x in own]
    assert [x.tenant for x in scores] == [tenant] * (3 if own else 0)
    assert tenants_of(x for found in traces for x in found.scores) == {x.tenant for x in own}
    assert tenants_of(x for found in sessions for x in found.scores) == {x.tenant for x in own}


@pytest.mark.parametrize("tenant", TENANTS)
def test_the_key_of_another_tenants_session_lists_nothing(store, turns, tenant):
    [other] = [x for name, x in turns.items() if name != tenant]
    assert (
        store.list_traces(TraceQuery(tenant=tenant, session_id=other.session_key), 10).items == []
    )
    assert (
        store.list_scores(ScoreQuery(tenant=tenant, session_id=other.session_key), 10).items == []
    )


@pytest.mark.slow
@pytest.mark.parametrize("tenant", TENANTS)
def test_labels_are_the_tenants(store, database_url, tenant):
    found = external.named(Config(url=database_url), "helpful", tenant)
    assert [x.tenant for x in found.scores] == [tenant]


@pytest.mark.parametrize("tenant", TENANTS)
def test_the_target_of_a_run_names_what_is_the_tenants(store, turns, ids, tenant):
    own = turns[tenant]
    [other] = [x for name, x in turns.items() if name != tenant]

    def read(tables):
        places = tables.places(tenant, "", 10, stored_by_ns=LATE)
        traces = tables.traces([x.id for x in places])
        sessions = tables.session_keys(tenant, "", 10, stored_by_ns=LATE)
        unknown = (
            tables.unknown_traces(tenant, ids["trace_id"]),
            tables.unknown_sessions(tenant, ids["session_id"]),
        )
        return (
            traces,
            sessions,
            unknown,
            tables.has_trace(tenant, other.session_key, lambda _: True),
        )

    traces, sessions, unknown, has_other = store.read_runs(read)
    assert (traces, sessions) == ({own.id: own}, [own.session_key])
    assert (unknown, has_other) == (([other.id], [other.session_key]), False)


@pytest.mark.parametrize("tenant", TENANTS)
def test_what_a_target_names_by_id_is_the_tenants(store, turns, ids, tenant):
    def read(tables):
        turns_of = [tables.turns(tenant, [x]) for x in ids["trace_id"]]
        sessions_of = [tables.sessions(tenant, [x]) for x in ids["session_id"]]
        return (
            turns_of,
            sessions_of,
            [tables.turns_of_sessions(tenant, [x]) for x in ids["session_id"]],
        )

    own = turns[tenant]
    mine = [True, *(x == tenant for x in TENANTS)]
    expected = [
        [[x] if is_own else [] for is_own in mine] for x in (own.id, own.session_key, own.id)
    ]
    assert list(store.read_runs(read)) == expected
