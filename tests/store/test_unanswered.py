"""What got no answer is kept with the evaluations, over restarts, until it has come out otherwise
or is given up.
"""

import pytest

from spanscore.model.score import Failure
from spanscore.store.store import Missing

MINUTE_NS = 60 * 10**9
NO_ANSWER = Failure("JudgeUnavailableError", "m: wrong key")


def missing(trace, metric="a", cause="judge", **facts):
    return Missing("trace", trace.id, metric, cause, **{"wait_ns": MINUTE_NS, **facts})


@pytest.fixture
def fail(store, make):
    """`fail(number, *metrics)`: commit a trace in which these metrics got no answer."""

    def commit(number=1, *metrics, revision=1, into=store, **facts):
        trace = make.trace(number)
        scored = [
            make.score(trace, x, outcome=NO_ANSWER, revision=revision) for x in metrics or ("a",)
        ]
        into.commit(
            [make.stored(trace, revision)],
            scored,
            missing=[missing(trace, x.metric, **facts) for x in scored],
        )
        return trace

    return commit


def due_after(store, clock, minutes, limit=100):
    return store.unanswered(clock.now_ns + minutes * MINUTE_NS, limit)


def test_what_is_missing_is_due_after_its_wait(store, fail, clock):
    trace = fail()
    assert due_after(store, clock, 0.99) == []
    assert [(x.subject_id, x.metric, x.tries) for x in due_after(store, clock, 1)] == [
        (trace.id, "a", 0)
    ]


def test_it_is_still_known_after_a_restart(open_store, fail, clock):
    fail(into=open_store())
    assert len(due_after(open_store(), clock, 1)) == 1


def test_each_time_in_vain_doubles_the_wait(store, fail, clock):
    for revision in (1, 2, 3):
        fail(revision=revision)
    assert due_after(store, clock, 3.99) == []
    assert [x.tries for x in due_after(store, clock, 4)] == [2]


def test_a_wait_that_does_not_double_stays(store, fail, clock):
    for revision in (1, 2, 3):
        fail(revision=revision, doubles=False)
    assert len(due_after(store, clock, 1)) == 1


def test_what_has_come_out_otherwise_is_missing_no_more(store, fail, make, clock):
    trace = fail(1, "a", "b")
    store.commit([], [make.score(trace, "a", revision=2)])
    assert [x.metric for x in due_after(store, clock, 1)] == ["b"]


def test_another_trace_s_score_settles_nothing(store, fail, make, clock):
    fail(1)
    other = make.trace(2)
    store.commit([make.stored(other)], [make.score(other, "a")])
    assert len(due_after(store, clock, 1)) == 1


def test_the_newest_come_first(store, fail, clock):
    first = fail(1)
    clock.now_ns += 1
    second = fail(2)
    assert [x.subject_id for x in due_after(store, clock, 1, limit=1)] == [second.id]
    assert [x.subject_id for x in due_after(store, clock, 1)] == [second.id, first.id]


def test_a_cause_that_is_gone_makes_due_what_it_held_up(store, fail, clock):
    fail(1, cause="judge")
    waiting = fail(2, cause="budget")
    store.make_due("budget", clock.now_ns)
    assert [x.subject_id for x in due_after(store, clock, 0)] == [waiting.id]


def test_what_was_put_off_is_due_later(store, fail, clock):
    fail()
    store.put_off(due_after(store, clock, 1), clock.now_ns + 2 * MINUTE_NS)
    assert (len(due_after(store, clock, 1)), len(due_after(store, clock, 2))) == (0, 1)


def test_what_was_forgotten_is_missing_no_more(store, fail, clock):
    fail(1, "a", "b")
    store.forget(due_after(store, clock, 1)[:1])
    assert store.count_unanswered() == 1


def test_of_a_trace_that_is_gone_nothing_is_missing(store, fail):
    trace = fail()
    store.commit([], [], gone=[trace.id])
    assert store.count_unanswered() == 0


def test_a_session_is_known_by_its_key(store, make, clock):
    session = "s" * 300
    store.commit([], [], missing=[Missing("session", session, "a", "judge", 0)])
    scored = make.score(make.trace(), "a", scope="session", subject_id=session)
    assert len(due_after(store, clock, 0)) == 1
    store.commit([], [scored])
    assert store.count_unanswered() == 0


@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        ({}, 3),
        ({"before_ns": 2 * MINUTE_NS}, 1),
        ({"keep": 2}, 2),
        ({"keep": 0}, 0),
        ({"max_tries": 1}, 2),
    ],
)
def test_it_is_given_up_when_it_is_old_or_often_tried_or_there_is_too_much(
    store, fail, clock, bounds, left
):
    started_ns = clock.now_ns
    for number in (1, 2, 3):
        fail(number)
        clock.now_ns += MINUTE_NS
    fail(2, revision=2)
    given = {"before_ns": 0, "max_tries": 10, "keep": 100, **bounds}
    given["before_ns"] += started_ns if "before_ns" in bounds else 0
    assert store.give_up(**given) == 3 - left
    assert store.count_unanswered() == left
