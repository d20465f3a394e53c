"""What people label next: by doubt, by contradiction or at random, each item by one person at a
time.
"""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import event, select

from spanscore.model.score import Annotation, Evaluator, Score
from spanscore.model.span import with_headers
from spanscore.model.trace import Target
from spanscore.store.annotation import Annotation as Queues, Queue
from spanscore.store.schema import annotation_items

HOUR_NS = 3600 * 10**9
ADA, BOB = "ada", "bob"


@pytest.fixture
def store(open_store):
    return open_store()


def queue(author=ADA, strategy="random", **facts):
    return Queue(
        **{
            "tenant": "",
            "metric": "coherence",
            "label": "coherence",
            "author": author,
            "strategy": strategy,
            **facts,
        }
    )


@pytest.fixture
def fill(store, make):
    """`fill(0.1, 0.9)`: traces 1, 2, … with these scores of coherence; returns their agent trace
    ids.
    """

    def put(*values, first=1, **facts):
        traces = [make.trace(number) for number in range(first, first + len(values))]
        scores = [
            make.score(trace, value=value, **facts)
            for trace, value in zip(traces, values, strict=True)
        ]
        store.commit([make.stored(x) for x in traces], scores)
        return [x.id for x in traces]

    return put


@pytest.fixture
def label(store, make):
    """`label(number, author, passed)`: what a person says of trace `number`; returns the label's
    uid.
    """
    given = iter(range(1, 10**6))

    def put(number, author=ADA, passed=True, source="human", **facts):
        trace = make.trace(number)
        uid = f"{next(given):016x}"
        fields = {
            "subject_id": trace.trace_ids[0],
            "outcome": Annotation(None, "pass" if passed else "fail", passed=passed),
            "evaluator": Evaluator("HUMAN", source, "", source=source, author=author),
            "target": Target(trace.trace_ids[0], "", 0, 0, trace.target.resource),
            "received_uid": uid,
            "threshold": None,
            "scale": None,
            **facts,
        }
        store.put_external([make.score(trace, **fields)])
        return uid

    return put


@pytest.fixture
def asked(store):
    """`with asked() as statements`: those that the database is asked meanwhile."""

    @contextmanager
    def noted():
        statements = []

        def note(_connection, _cursor, statement, *_rest):
            statements.append(statement)

        event.listen(store._database.engine, "before_cursor_execute", note)
        yield statements
        event.remove(store._database.engine, "before_cursor_execute", note)

    return noted


def ids(items):
    return [x.score.subject_id for x in items]


def listed(store, wanted, limit=100):
    return ids(store.annotation.page(wanted, limit).items)


def leased(store, wanted, count=1):
    return ids(store.annotation.lease(wanted, count, HOUR_NS))


def test_the_random_order_has_each_item_once_and_is_the_same_for_all(store, fill):
    traces = fill(*[0.5] * 300)
    found = listed(store, queue(), 1000)
    assert sorted(found) == sorted(traces)
    assert found == listed(store, queue(BOB), 1000)


def test_another_seed_gives_another_order(store, fill):
    fill(*[0.5] * 20)
    assert listed(store, queue(seed=1)) != listed(store, queue(seed=2))


def test_the_random_order_knows_nothing_of_scores_or_times(store, fill):
    """Of the first quarter about half is of either half: a fixed seed gives a fixed count."""
    traces = fill(*[number / 400 for number in range(400)])
    first = {traces.index(x) for x in listed(store, queue(seed=3), 1000)[:100]}
    assert 35 <= sum(x < 200 for x in first) <= 65


def test_pages_follow_each_other_whatever_is_scored_meanwhile(store, fill):
    traces = fill(*[0.5] * 30)
    first = store.annotation.page(queue(), 10)
    fill(*[0.5] * 30, first=100)
    rest = store.annotation.page(queue(), 1000, first.next)
    seen = ids(first.items) + ids(rest.items)
    assert set(traces) <= set(seen)
    assert len(seen) == len(set(seen))


def test_the_random_order_of_sessions_is_theirs(store, make):
    for number in range(1, 20):
        trace = make.trace(number, session_id=f"s{number}")
        score = make.score(
            trace, scope="session", subject_id=f"s{number}", session_key=f"s{number}"
        )
        store.commit([make.stored(trace)], [score])
    found = listed(store, queue())
    assert sorted(found) == sorted(f"s{x}" for x in range(1, 20))
    assert found != sorted(found)


def test_what_has_no_verdict_is_not_drawn(store, fill):
    fill(0.5, threshold=None)
    assert listed(store, queue()) == []


def test_the_judges_doubtful_scores_come_first(store, fill):
    sure, doubtful, near = fill(0.95, 0.52, 0.4)
    assert listed(store, queue(strategy="uncertain")) == [doubtful, near, sure]


def test_why_a_score_is_doubtful_is_said(store, fill):
    fill(0.52)
    [item] = store.annotation.page(queue(strategy="uncertain"), 1).items
    assert item.reasons == ("the judge's score 0.52 is 0.02 from the threshold 0.5",)


def test_a_score_whose_samples_lie_on_both_sides_of_the_threshold_comes_before_a_nearer_one(
    store, make
):
    near, spread = make.trace(1), make.trace(2)
    samples = Score(0.7, "", {"samples": {"values": [0.3, 1.0]}})
    store.commit(
        [make.stored(near), make.stored(spread)],
        [make.score(near, value=0.52), make.score(spread, outcome=samples)],
    )
    assert listed(store, queue(strategy="uncertain")) == [spread.id, near.id]


def test_a_score_that_a_cascade_left_to_a_better_model_comes_first(store, make):
    near, left = make.trace(1), make.trace(2)
    outcome = Score(0.9, "", {"cascade": {"escalated": True}})
    store.commit(
        [make.stored(near), make.stored(left)],
        [make.score(near, value=0.52), make.score(left, outcome=outcome)],
    )
    assert listed(store, queue(strategy="uncertain")) == [left.id, near.id]


def test_another_threshold_makes_other_scores_doubtful(store, fill):
    high, middle = fill(0.9, 0.5)
    assert listed(store, queue(strategy="uncertain", threshold=0.85)) == [high, middle]


def test_a_person_who_contradicts_the_judge_makes_an_item_for_another(store, fill, label):
    failing, _passing = fill(0.1, 0.9)
    label(1, BOB, passed=True)
    label(2, BOB, passed=True)
    wanted = queue(strategy="disagreeing", labels_wanted=2)
    [item] = store.annotation.page(wanted, 10).items
    assert (item.score.subject_id, item.reasons) == (failing, ("human says pass by coherence",))


def test_an_evaluation_run_may_contradict_the_judge(store, fill, make):
    traces = fill(0.1, 0.9)
    again = [make.score(make.trace(x), value=0.9, run="r7") for x in (1, 2)]
    store.commit([], again)
    assert listed(store, queue(strategy="disagreeing")) == [traces[0]]


def test_a_further_metric_contradicts_where_it_is_named(store, fill, make):
    traces = fill(0.1, 0.9)
    store.commit([], [make.score(make.trace(x), metric="confidence", value=0.9) for x in (1, 2)])
    assert listed(store, queue(strategy="disagreeing")) == []
    assert listed(store, queue(strategy="disagreeing", against=("confidence",))) == [traces[0]]


def test_a_thumb_of_users_contradicts_where_it_is_named(store, fill, label):
    traces = fill(0.1, 0.9)
    label(2, None, passed=False, metric="helpful", source="app")
    assert listed(store, queue(strategy="disagreeing", against=("helpful",))) == [traces[1]]


def test_a_label_of_a_trace_with_several_turns_contradicts_none_of_them(store, label, make):
    turns = [make.trace(1, opening_span_id=f"{x:016x}") for x in (1, 2)]
    store.commit([make.stored(x) for x in turns], [make.score(x, value=0.9) for x in turns])
    label(1, None, passed=False, metric="helpful", source="app")
    assert listed(store, queue(strategy="disagreeing", against=("helpful",))) == []


@pytest.mark.parametrize("strategy", ["random", "uncertain"])
def test_what_an_author_has_labelled_does_not_come_again(store, fill, label, strategy):
    traces = fill(0.1, 0.9, 0.4)
    label(2)
    assert sorted(listed(store, queue(strategy=strategy))) == sorted([traces[0], traces[2]])


def test_what_one_person_has_labelled_nobody_labels_again_unless_two_labels_are_wanted(
    store, fill, label
):
    fill(0.1)
    label(1)
    assert listed(store, queue(BOB)) == []
    assert len(listed(store, queue(BOB, labels_wanted=2))) == 1


def test_two_people_do_not_get_the_same_item(store, fill):
    fill(*[0.5] * 10)
    taken = leased(store, queue(), 4), leased(store, queue(BOB), 4)
    assert [len(x) for x in taken] == [4, 4]
    assert not set(taken[0]) & set(taken[1])


def test_who_asks_again_gets_what_is_leased_already(store, fill):
    fill(*[0.5] * 10)
    assert leased(store, queue(), 2) == leased(store, queue(), 2)


def test_a_lease_ends_by_itself(store, fill, clock):
    fill(0.5)
    first = leased(store, queue())
    assert leased(store, queue(BOB)) == []
    clock.now_ns += HOUR_NS
    assert leased(store, queue(BOB)) == first


def test_a_lease_survives_a_restart(open_store, fill):
    fill(0.5)
    store = open_store()
    leased(store, queue())
    assert leased(open_store(), queue(BOB)) == []


def test_an_item_that_is_given_back_goes_to_the_next(store, fill):
    [trace] = fill(0.5)
    leased(store, queue())
    assert store.annotation.release(queue(), "trace", trace, skip=False)
    assert leased(store, queue(BOB)) == [trace]


def test_an_item_that_somebody_skips_goes_to_others_alone(store, fill):
    [trace] = fill(0.5)
    leased(store, queue())
    store.annotation.release(queue(), "trace", trace, skip=True)
    assert (listed(store, queue()), listed(store, queue(BOB))) == ([], [trace])


def test_what_is_not_leased_cannot_be_given_back(store, fill):
    [trace] = fill(0.5)
    assert not store.annotation.release(queue(), "trace", trace, skip=True)


class Raced:
    """The store's database, in which somebody else does something before the first transaction that
    writes.
    """

    def __init__(self, database, first):
        self._database = database
        self._first = [first]

    def reading(self):
        return self._database.reading()

    def writing(self):
        while self._first:
            self._first.pop()()
        return self._database.writing()


def test_items_that_are_taken_while_they_are_looked_for_are_not_leased_twice(store, fill, clock):
    fill(*[0.5] * 3)
    others = []
    raced = Raced(store._database, lambda: others.extend(leased(store, queue(BOB), 2)))
    own = ids(Queues(raced, clock).lease(queue(), 3, HOUR_NS))
    assert (len(own), len(others), set(own) & set(others)) == (1, 2, set())


def test_a_label_that_is_deleted_opens_its_item_again(store, fill, label):
    traces = fill(0.5, 0.5)
    uid = label(1)
    leased(store, queue(), 2)
    store.given.remove("", uid, lambda _score: None)
    assert sorted(listed(store, queue())) == sorted(traces)


def test_a_received_score_that_was_deleted_does_not_come_back(store, fill, label, make):
    fill(0.5)
    uid = label(1)
    [received] = store.external_scores(trace_id=make.trace(1).id)
    store.given.remove("", uid, lambda _score: None)
    assert store.put_external([received]) == []


def test_one_tenant_has_no_items_of_another(store, fill, make):
    fill(0.5)
    target = replace(make.trace(2).target, resource=with_headers({}, ((":tenant", "acme"),)))
    trace = make.trace(2, target=target)
    store.commit([make.stored(trace)], [make.score(trace)])
    assert listed(store, queue(tenant="acme")) == [trace.id]
    assert len(leased(store, queue(), 10)) == 1
    assert not store.annotation.release(queue(), "trace", trace.id, skip=True)


def test_what_people_were_asked_goes_with_retention(open_store, fill, clock):
    store = open_store(max_age="1h")
    fill(0.5)
    leased(store, queue())
    clock.now_ns += 2 * HOUR_NS
    store.prune(clock.now_ns)
    with store._database.reading() as connection:
        assert connection.execute(select(annotation_items)).all() == []


@pytest.mark.slow
def test_an_item_that_was_settled_is_passed_over_without_a_look_at_its_labels(
    store, fill, label, asked
):
    fill(*[0.5] * 60)
    for number in range(1, 51):
        label(number)
    leased(store, queue(), 60)
    with asked() as statements:
        assert len(listed(store, queue())) == 10
    assert sum("external_scores" in x for x in statements) <= 3
