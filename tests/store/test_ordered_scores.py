"""Scores by their value and by when they were made, page by page."""

import random
from dataclasses import replace

import pytest

from spanscore.filters import parse
from spanscore.model.score import Evaluator, Score, Skip
from spanscore.store import ordering
from spanscore.store.listing import SCORE_FIELDS, SCORE_ORDERS, ScoreQuery
from spanscore.store.session_lists import SessionQuery

ORDERS = [
    "value",
    "value desc",
    "evaluated_at_ns",
    "value desc, evaluated_at_ns",
    "evaluated_at_ns desc, value",
]


def _order(text):
    return ordering.parse(text, list(SCORE_ORDERS))


def _all(store, query, text, limit):
    """The scores of all pages."""
    found, place = [], None
    while True:
        page = store.list_scores(replace(query, order=_order(text)), limit, place)
        found, place = found + page.items, page.next
        if place is None:
            return found


@pytest.fixture
def filled(any_store, make):
    """A store with 40 scores of few values and times, some of them skipped, and some given by a
    person.
    """
    chance = random.Random(5)
    for number in range(40):
        trace = make.trace(number)
        outcome = (
            Skip("none", cause="no_judge")
            if number % 7 == 0
            else Score(chance.choice([-1.5, 0.0, 0.5, 2.25]), "")
        )
        score = replace(
            make.score(trace, "coherence"),
            outcome=outcome,
            evaluated_at_ns=chance.choice([5, 6, 7]),
        )
        any_store.commit([make.stored(trace)], [score])
    return any_store


@pytest.mark.slow
@pytest.mark.parametrize("text", ORDERS)
@pytest.mark.parametrize("limit", [1, 7, 100])
def test_pages_have_all_scores_in_the_order_that_is_asked_for(filled, text, limit):
    query = ScoreQuery(skipped=True)
    found = _all(filled, query, text, limit)
    wanted = ordering.arranged(filled.list_scores(query, 100).items, _order(text), SCORE_ORDERS)
    keys = [x.field for x in _order(text)]
    assert [[SCORE_ORDERS[key](x) for key in keys] for x in found] == [
        [SCORE_ORDERS[key](x) for key in keys] for x in wanted
    ]
    assert len({x.uid for x in found}) == 40


def test_conditions_and_filters_hold_in_every_order(filled):
    query = ScoreQuery(filter=parse("value > 0 AND evaluated_at_ns = 6", SCORE_FIELDS))
    wanted = sorted(x.uid for x in filled.list_scores(query, 100).items)
    assert wanted
    assert sorted(x.uid for x in _all(filled, query, "value desc", 2)) == wanted


def test_only_the_newest_revision_is_listed(store, make):
    score = make.score(make.trace(1), "coherence")
    later = replace(score, outcome=Score(0.1, ""), revision=2)
    store.commit([], [score])
    store.commit([], [later])
    assert [x.value for x in _all(store, ScoreQuery(), "value", 10)] == [0.1]


def test_what_another_tenant_has_is_not_listed(store, make):
    score = make.score(make.trace(1), "coherence")
    store.commit([], [score])
    assert _all(store, ScoreQuery(tenant="acme"), "value", 10) == []


def test_scores_that_come_between_two_pages_move_nothing(store, make):
    for number in range(4):
        store.commit(
            [], [replace(make.score(make.trace(number), "m"), outcome=Score(number / 10, ""))]
        )
    query = ScoreQuery(order=_order("value"))
    first = store.list_scores(query, 2)
    store.commit([], [replace(make.score(make.trace(9), "m"), outcome=Score(0.05, ""))])
    second = store.list_scores(query, 2, first.next)
    assert [x.value for x in [*first.items, *second.items]] == [0.0, 0.1, 0.2, 0.3]


def test_the_source_is_a_condition_too(store, make):
    score = make.score(make.trace(1), "coherence")
    given = replace(
        score, evaluator=Evaluator("HUMAN", "helpful", "", source="human"), metric="helpful"
    )
    store.commit([], [score])
    store.put_external([given])
    assert [x.metric for x in _all(store, ScoreQuery(source="human"), "value", 10)] == ["helpful"]
    assert [x.metric for x in _all(store, ScoreQuery(source="spanscore"), "value", 10)] == [
        "coherence"
    ]
    assert len(_all(store, ScoreQuery(), "value", 10)) == 2


def test_of_one_who_changed_their_mind_the_order_of_values_lists_the_last_score_alone(store, make):
    for number in (1, 2):
        given = replace(
            make.score(make.trace(1), "helpful", number / 2),
            evaluator=Evaluator("HUMAN", "helpful", "", source="human", author="ada"),
            evaluated_at_ns=number,
            received_uid=f"{number:016x}",
        )
        store.put_external([given])
    assert [x.value for x in _all(store, ScoreQuery(), "value", 10)] == [1.0]
    assert [x.value for x in store.list_scores(ScoreQuery(), 10).items] == [1.0, 0.5]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ["c", "b", "a"]),
        ("stored_ns", ["a", "b", "c"]),
        ("trace_count desc", ["b", "c", "a"]),
        ("trace_count", ["a", "c", "b"]),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 10])
def test_sessions_are_listed_in_the_order_that_is_asked_for(any_store, make, text, wanted, limit):
    for number, session in enumerate("abbbcc"):
        any_store.commit([make.stored(replace(make.trace(number), session_id=session))], [])
    query = SessionQuery(order=ordering.parse(text, ["stored_ns", "trace_count"]))
    found, place = [], None
    while not found or place:
        page = any_store.list_sessions(query, limit, place)
        found, place = found + [x.session.id for x in page.items], page.next
    assert found == list(wanted)
