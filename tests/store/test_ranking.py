"""The worst sessions are named by what is stored of them, and a history has all that was said of
its subject.
"""

from dataclasses import replace

import pytest

from spanscore.analytics.selection import Selection
from spanscore.analytics.worst import worst
from spanscore.model.score import Annotation, Evaluator
from spanscore.model.trace import ModelCall, Target
from spanscore.store import session_ranks

ADA = Evaluator("HUMAN", "review", "1", source="human", author="ada")


def given(make, number, trace_id="", span_id="", response_id=None):
    return make.score(
        make.trace(),
        "helpful",
        subject_id=trace_id or response_id,
        outcome=Annotation(0.0, "fail", passed=False),
        evaluator=ADA,
        evaluated_at_ns=number,
        received_uid=f"{number:016x}",
        target=Target(trace_id, span_id, 0, 0, response_id=response_id),
    )


def turn(make, letter, number=1, **facts):
    call = ModelCall(letter * 16, response_id=f"resp-{letter}")
    return make.trace(number, opening_span_id=letter * 16, model_calls=(call,), **facts)


@pytest.fixture
def history(store):
    """`history(trace_id)`: the times of the scores called helpful."""

    def read(trace_id):
        with store._database.reading() as connection:
            found = session_ranks.history(connection, "helpful", "", trace_id=trace_id)
        return [x.evaluated_at_ns for x in found]

    return read


@pytest.fixture
def two_turns(store, make):
    turns = [turn(make, "a"), turn(make, "b")]
    store.commit([make.stored(x) for x in turns], [])
    return turns


def test_a_history_has_what_names_a_response_of_the_turn_alone(store, make, history, two_turns):
    store.put_external(
        [given(make, 1, response_id="resp-b"), given(make, 2, "f" * 32, response_id="resp-b")]
    )
    assert [history(x.id) for x in two_turns] == [[], [1, 2]]


def test_a_history_of_a_turn_has_nothing_of_another_turn_of_its_trace(
    store, make, history, two_turns
):
    [trace_id] = two_turns[0].trace_ids
    store.put_external(
        [
            given(make, 1, trace_id, "a" * 16),
            given(make, 2, trace_id, "b" * 16),
            given(make, 3, trace_id),
        ]
    )
    assert [history(x.id) for x in two_turns] == [[1], [2]]
    assert history(trace_id) == [1, 2, 3]


def test_a_history_of_a_trace_that_never_came_has_what_was_given_to_it(store, make, history):
    store.put_external([given(make, 1, "f" * 32)])
    assert history("f" * 32) == [1]


@pytest.mark.parametrize("session", ["s", None])
@pytest.mark.parametrize(
    "named", [{"trace_id": f"{1:032x}", "span_id": "b" * 16}, {"response_id": "resp-b"}]
)
def test_a_session_that_only_people_scored_is_named_by_its_turn(store, make, session, named):
    one, other = turn(make, "a"), replace(turn(make, "b"), session_id=session, session_key=session)
    store.commit([make.stored(one), make.stored(other)], [])
    store.put_external([given(make, 1, **named)])
    with store._database.reading() as connection:
        [found] = worst(connection, Selection(), 10, 0).ranked
    assert (found.stored.example.subject_id, found.stored.example.session_key) == (
        other.id,
        session,
    )


def test_the_worst_sessions_have_their_first_turn_and_how_many_turns_they_have(store, make):
    traces = [make.trace(number, session_id="s") for number in (2, 1)]
    alone = make.trace(3)
    everything = [*traces, alone]
    scores = [make.score(x, session_id=x.session_id) for x in everything]
    store.commit([make.stored(x) for x in everything], scores)
    with store._database.reading() as connection:
        found = worst(connection, Selection(), 1, 0), worst(connection, Selection(), 1, 1)
    assert [x.total for x in found] == [2, 2]
    [one], [other] = (x.ranked for x in found)
    assert {x.stored.first.id: x.stored.traces for x in (one, other)} == {
        min(traces, key=lambda x: x.started_ns).id: 2,
        alone.id: 1,
    }
