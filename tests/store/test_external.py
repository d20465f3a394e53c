"""Scores that others gave are kept beside ours, found by what they name, and never in the
outbox.
"""

from dataclasses import replace

import pytest

from spanscore.model.score import Annotation, Evaluation, Evaluator, Failure
from spanscore.model.span import of_tenant, with_headers
from spanscore.model.trace import ModelCall, Target, scope_of, session_key
from spanscore.store import placement, records
from spanscore.store.config import Config
from spanscore.store.external import named
from spanscore.store.stored_rows import key

ADA = Evaluator("HUMAN", "human", "", source="human", author="ada")


def given(trace_id, number=1, *, span_id="", at_ns=5, **facts):
    defaults = {
        "scope": "trace",
        "subject_id": trace_id,
        "metric": "helpful",
        "outcome": Annotation(1.0, "yes", "it booked the right flight"),
        "threshold": None,
        "scale": None,
        "evaluator": ADA,
        "target": Target(trace_id, span_id, at_ns, at_ns),
        "session_id": None,
        "evaluated_at_ns": at_ns,
        "received_uid": f"{number:016x}",
    }
    return Evaluation(**{**defaults, **facts})


def of_session(session_id, number=1, *, session_key=None, **facts):
    named = {"session_id": session_id, "session_key": session_key or session_id}
    return given(
        "", number, scope="session", subject_id=session_key or session_id, **named, **facts
    )


@pytest.fixture
def store(open_store):
    return open_store()


def test_a_score_of_a_stored_trace_is_found_by_the_agent_trace_it_is_of(store, make):
    trace = make.trace(1, session_id="s")
    store.commit([make.stored(trace)], [])
    store.put_external([given(trace.trace_ids[0])])
    [found] = store.external_scores(trace_id=trace.id)
    assert (found.subject_id, found.session_id, found.value, found.label) == (
        trace.id,
        "s",
        1.0,
        "yes",
    )


@pytest.mark.parametrize(
    "outcome", [Annotation(None, "formal"), Annotation(7.0), Failure("Timeout", "no answer")]
)
def test_it_is_read_back_as_it_was_given(store, outcome):
    score = given("a" * 32, outcome=outcome)
    store.put_external([score])
    assert store.external_scores(trace_id="a" * 32) == [score]


def test_one_that_comes_before_its_trace_is_joined_when_that_is_there(store, make):
    trace = make.trace(1)
    store.put_external([given(trace.trace_ids[0])])
    store.commit([make.stored(trace)], [])
    assert [x.subject_id for x in store.external_scores(trace_id=trace.id)] == [trace.id]


def test_one_of_a_trace_that_never_comes_is_found_by_the_otel_trace_id(store):
    store.put_external([given("ab" * 16)])
    assert [x.subject_id for x in store.external_scores(trace_id="AB" * 16)] == ["ab" * 16]


def test_what_is_delivered_twice_is_there_once(store):
    store.put_external([given("a" * 32), given("a" * 32)])
    assert store.put_external([given("a" * 32)]) == []
    assert len(store.external_scores(trace_id="a" * 32)) == 1


def test_of_one_person_the_last_score_counts(store):
    first, second = (
        given("a" * 32, at_ns=1),
        given("a" * 32, 2, at_ns=2, outcome=Annotation(0.0, "no")),
    )
    store.put_external([second, first])
    assert [x.label for x in store.external_scores(trace_id="a" * 32)] == ["no"]


def test_two_people_count_both(store):
    bob = replace(ADA, author="bob")
    store.put_external([given("a" * 32), given("a" * 32, 2, evaluator=bob)])
    assert [x.evaluator.author for x in store.external_scores(trace_id="a" * 32)] == ["ada", "bob"]


def test_of_several_turns_in_a_trace_it_is_of_the_one_that_has_the_span(store, make):
    one = make.trace(1, opening_span_id="a" * 16, model_calls=(ModelCall("c" * 16),))
    other = make.trace(1, opening_span_id="b" * 16, model_calls=(ModelCall("d" * 16),))
    store.commit([make.stored(one), make.stored(other)], [])
    store.put_external([given(one.trace_ids[0], span_id="d" * 16)])
    assert store.external_scores(trace_id=one.id) == []
    assert [x.subject_id for x in store.external_scores(trace_id=other.id)] == [other.id]


@pytest.fixture
def two_turns(store, make):
    """Two stored turns of one trace and one session, and a score of the whole trace."""
    turns = [make.trace(1, opening_span_id=x * 16, session_id="s") for x in "ab"]
    store.commit([make.stored(x) for x in turns], [])
    store.put_external([given(turns[0].trace_ids[0])])
    return turns


def test_what_is_of_a_whole_trace_with_several_turns_is_of_none_of_them(store, two_turns):
    assert [store.external_scores(trace_id=x.id) for x in two_turns] == [[], []]
    assert store.external_scores(session_id="s") == []


def test_what_is_of_a_whole_trace_with_several_turns_is_found_by_that_trace(store, two_turns):
    [trace_id] = two_turns[0].trace_ids
    assert [x.subject_id for x in store.external_scores(trace_id=trace_id)] == [trace_id]


def test_labels_of_a_whole_trace_with_several_turns_are_apart_from_those_of_a_turn(
    two_turns, database_url
):
    found = named(Config(url=database_url), "helpful")
    assert (found.scores, len(found.of_no_turn)) == ([], 1)


# By the response that a model gave


@pytest.fixture
def answered(store, make):
    """A stored turn whose model call gave the response resp-1."""
    trace = make.trace(1, session_id="s", model_calls=(ModelCall("c" * 16, response_id="resp-1"),))
    store.commit([make.stored(trace)], [])
    return trace


def of_response(response_id="resp-1", number=1, *, trace_id="", **facts):
    target = Target(
        trace_id, "e" * 16 if trace_id else "", 0, 0, facts.pop("resource", {}), response_id
    )
    return given(
        trace_id, number, **{"subject_id": trace_id or response_id, "target": target, **facts}
    )


def test_a_score_that_names_only_a_response_is_of_the_turn_and_the_span_in_which_it_was_given(
    store, answered
):
    store.put_external([of_response()])
    [found] = store.external_scores(trace_id=answered.id)
    assert (found.subject_id, found.session_id) == (answered.id, "s")
    assert (found.target.trace_id, found.target.span_id) == (answered.trace_ids[0], "c" * 16)


def test_so_is_one_that_an_evaluator_records_in_a_trace_of_its_own(store, answered):
    store.put_external([of_response(trace_id="f" * 32)])
    assert [x.subject_id for x in store.external_scores(session_id="s")] == [answered.id]


def test_one_of_a_response_may_come_before_the_trace(store, make):
    trace = make.trace(1, model_calls=(ModelCall("c" * 16, response_id="resp-1"),))
    store.put_external([of_response()])
    store.commit([make.stored(trace)], [])
    assert [x.subject_id for x in store.external_scores(trace_id=trace.id)] == [trace.id]


def test_a_span_of_a_turn_is_believed_before_the_response(store, make, answered):
    other = make.trace(2, model_calls=(ModelCall("e" * 16),))
    store.commit([make.stored(other)], [])
    store.put_external([of_response(trace_id=other.trace_ids[0])])
    assert store.external_scores(trace_id=answered.id) == []
    assert [x.subject_id for x in store.external_scores(trace_id=other.id)] == [other.id]


def test_of_several_turns_in_a_trace_it_is_of_the_one_that_has_the_response(store, make):
    calls = [(ModelCall(x * 16, response_id=f"resp-{x}"),) for x in "cd"]
    turns = [
        make.trace(1, opening_span_id=x * 16, model_calls=y)
        for x, y in zip("ab", calls, strict=True)
    ]
    store.commit([make.stored(x) for x in turns], [])
    store.put_external([of_response("resp-d", trace_id=turns[0].trace_ids[0])])
    assert [len(store.external_scores(trace_id=x.id)) for x in turns] == [0, 1]


@pytest.mark.parametrize("count", [2, 30])
def test_a_response_of_several_turns_is_of_none_of_them(store, make, count):
    call = ModelCall("c" * 16, response_id="mock")
    turns = [make.trace(n, model_calls=(call,)) for n in range(1, count + 1)]
    store.commit([make.stored(x) for x in turns], [])
    store.put_external([of_response("mock")])
    assert [store.external_scores(trace_id=x.id) for x in turns] == [[]] * count


def test_scores_of_two_responses_of_a_turn_in_several_traces_are_both_there(store, make):
    calls = tuple(ModelCall(x * 16, response_id=f"resp-{x}") for x in "cd")
    trace = make.trace(1, trace_ids=("1" * 32, "2" * 32), model_calls=calls)
    store.commit([make.stored(trace)], [])
    store.put_external([of_response("resp-c", 1), of_response("resp-d", 2)])
    assert len(store.external_scores(trace_id=trace.id)) == 2


def test_a_response_of_another_tenants_trace_is_none_of_ones_own(store, answered, database_url):
    store.put_external([of_response(resource=with_headers({}, (("x-tenant", "other"),)))])
    assert store.external_scores(trace_id=answered.id) == []
    assert [x.subject_id for x in named(Config(url=database_url), "helpful").scores] == ["resp-1"]


def test_what_other_tenants_models_answer_makes_no_response_ambiguous(store, make, answered):
    call = ModelCall("c" * 16, response_id="resp-1")
    for number in range(2, 25):
        trace = make.trace(number, model_calls=(call,))
        resource = with_headers({}, ((":tenant", "other"),))
        store.commit(
            [make.stored(replace(trace, target=replace(trace.target, resource=resource)))], []
        )
    store.put_external([of_response()])
    assert [x.subject_id for x in store.external_scores(trace_id=answered.id)] == [answered.id]


def test_a_score_of_a_response_is_a_label_of_its_turn(store, answered, database_url):
    store.put_external([of_response()])
    assert [x.subject_id for x in named(Config(url=database_url), "helpful").scores] == [
        answered.id
    ]


@pytest.mark.parametrize("response_id", ["r" * 30_000, "nul\0", "half \ud83d"])
def test_a_response_id_of_any_form_is_found(store, make, response_id):
    trace = make.trace(1, model_calls=(ModelCall("c" * 16, response_id=response_id),))
    store.commit([make.stored(trace)], [])
    store.put_external([of_response(response_id)])
    assert [x.subject_id for x in store.external_scores(trace_id=trace.id)] == [trace.id]


def test_a_later_revision_names_its_own_responses(store, make, answered):
    changed = replace(answered, model_calls=(ModelCall("c" * 16, response_id="resp-2"),))
    store.commit([make.stored(changed, 2)], [])
    store.put_external(
        [of_response("resp-1", 1), of_response("resp-2", 2, evaluator=replace(ADA, author="bob"))]
    )
    assert [x.target.response_id for x in store.external_scores(trace_id=answered.id)] == ["resp-2"]


def test_retention_leaves_no_response_behind(open_store, make, clock, sql):
    store = open_store(max_age="1h")
    store.commit(
        [make.stored(make.trace(1, model_calls=(ModelCall("c" * 16, response_id="resp-1"),)))], []
    )
    store.put_external([of_response()])
    clock.now_ns += 3601 * 10**9
    store.prune(clock.now_ns)
    assert (
        sql("SELECT name FROM names WHERE kind = 'response' UNION SELECT response_id FROM scores")
        == []
    )


def test_a_damaged_score_costs_no_other(store, sql):
    store.put_external(
        [given("a" * 32, n, evaluator=replace(ADA, author=str(n))) for n in range(3)]
    )
    sql("UPDATE scores SET record = '[1' WHERE uid = '0000000000000001'")
    assert [x.evaluator.author for x in store.external_scores(trace_id="a" * 32)] == ["0", "2"]


def test_a_session_has_its_own_and_those_of_its_traces(store, make):
    trace = make.trace(1, session_id="s")
    store.commit([make.stored(trace)], [])
    store.put_external([given(trace.trace_ids[0], 1), of_session("s", 2), of_session("other", 3)])
    assert [x.scope for x in store.external_scores(session_id="s")] == ["trace", "session"]


def test_a_session_score_from_outside_its_namespace_is_of_the_only_session_with_that_id(
    store, make
):
    trace = make.trace(1, session_id="s", session_key="0123456789abcdef:s")
    store.commit([make.stored(trace)], [])
    store.put_external([of_session("s")])
    assert [x.subject_id for x in store.external_scores(session_id=trace.session_key)] == [
        trace.session_key
    ]


def test_where_several_sessions_have_the_id_it_is_of_none_of_them(store, make):
    keys = ["0123456789abcdef:s", "fedcba9876543210:s"]
    store.commit(
        [make.stored(make.trace(n, session_id="s", session_key=x)) for n, x in enumerate(keys, 1)],
        [],
    )
    store.put_external([of_session("s")])
    assert [store.external_scores(session_id=x) for x in keys] == [[], []]


def test_a_session_outside_of_every_namespace_keeps_its_own(store, make):
    keys = ["s", "0123456789abcdef:s"]
    store.commit(
        [make.stored(make.trace(n, session_id="s", session_key=x)) for n, x in enumerate(keys, 1)],
        [],
    )
    store.put_external([of_session("s")])
    assert [len(store.external_scores(session_key=x)) for x in keys] == [1, 0]


def test_the_key_of_a_session_stands_for_no_session_of_another_namespace(store, make):
    keys = ["s", "0123456789abcdef:s"]
    traces = [make.trace(n, session_id="s", session_key=x) for n, x in enumerate(keys, 1)]
    store.commit([make.stored(x) for x in traces], [])
    store.put_external([given(traces[1].trace_ids[0], 1), of_session("s", 2, session_key=keys[1])])
    assert [len(store.external_scores(session_key=x)) for x in keys] == [0, 2]


def test_a_tenants_session_score_from_outside_its_namespace_is_of_its_only_session_with_that_id(
    store, make
):
    targets = {x: Target("", "", 5, 5, with_headers({}, of_tenant(x))) for x in ("acme", "blue")}
    keys = {x: session_key("s", scope_of(target.resource, ())) for x, target in targets.items()}
    in_namespace = make.trace(
        1, session_id="s", session_key="acme/0123456789abcdef:s", target=targets["acme"]
    )
    store.commit([make.stored(in_namespace)], [])
    store.put_external(
        [
            of_session("s", n, session_key=keys[x], target=targets[x])
            for n, x in enumerate(("acme", "blue"), 1)
        ]
    )
    found = store.external_scores(session_key=in_namespace.session_key, tenant="acme")
    assert [x.received_uid for x in found] == [f"{1:016x}"]


def test_a_session_id_of_any_length_is_found(store):
    long = "s" * 5000
    store.put_external([of_session(long)])
    assert len(store.external_scores(session_id=long)) == 1
    assert key(long) != long


def test_no_exporter_is_offered_one(store):
    store.put_external([given("a" * 32)])
    assert store.outbox(0, 10) == []


def test_ours_are_none_of_them_and_they_are_none_of_ours(store, make):
    trace = make.trace(1)
    store.commit([make.stored(trace)], [make.score(trace)])
    store.put_external([given(trace.trace_ids[0])])
    assert [x.metric for x in store.evaluations(trace_id=trace.id)] == ["coherence"]
    assert [x.metric for x in store.external_scores(trace_id=trace.id)] == ["helpful"]


def test_retention_deletes_them_by_their_age(open_store, clock):
    store = open_store(max_age="1h")
    store.put_external([given("a" * 32)])
    clock.now_ns += 3601 * 10**9
    store.prune(clock.now_ns)
    assert store.external_scores(trace_id="a" * 32) == []
    assert store.size_bytes == 0


def test_what_one_tenant_sends_is_not_put_to_anothers_trace(store, make):
    trace = make.trace(1)
    store.commit([make.stored(trace)], [])
    resource = with_headers({}, (("x-tenant", "other"),))
    store.put_external(
        [given(trace.trace_ids[0], target=Target(trace.trace_ids[0], "", 0, 0, resource))]
    )
    assert store.external_scores(trace_id=trace.id) == []


def test_what_one_tenant_sends_is_no_label_of_anothers_trace(store, make, database_url):
    trace = make.trace(1)
    store.commit([make.stored(trace)], [])
    resource = with_headers({}, (("x-tenant", "other"),))
    store.put_external(
        [given(trace.trace_ids[0], target=Target(trace.trace_ids[0], "", 0, 0, resource))]
    )
    assert named(Config(url=database_url), "helpful") == ([], [])


def test_the_traces_that_scores_may_be_of_are_read_one_after_the_other(store, make, monkeypatch):
    traces = [make.trace(number) for number in range(1, 4)]
    store.commit([make.stored(x) for x in traces], [])
    decoded = []
    decode = records.decode_trace
    monkeypatch.setattr(records, "decode_trace", lambda record: decoded.append(1) or decode(record))
    with store._database.reading() as connection:
        next(placement.stored(connection, [x.id for x in traces]))
    assert len(decoded) == 1
