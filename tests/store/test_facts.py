"""The facts that analytics reads are those of the newest scores, whatever becomes of them."""

from dataclasses import replace

import pytest
from sqlalchemy import delete, select

from spanscore.model.score import Annotation, Evaluator, Failure, Score, Skip
from spanscore.model.trace import ModelCall, Target, Usage
from spanscore.store import facts
from spanscore.store.schema import evaluations, score_facts, subject_facts

ADA = Evaluator("HUMAN", "review", "1", source="human", author="ada")


@pytest.fixture
def rows(store):
    """`rows()`: all facts by metric and number."""

    def read():
        with store._database.reading() as connection:
            return connection.execute(select(score_facts).order_by(score_facts.c.number)).all()

    return read


@pytest.fixture
def subjects(store):
    """`subjects()`: the facts of all traces and sessions."""

    def read():
        with store._database.reading() as connection:
            return connection.execute(select(subject_facts).order_by(subject_facts.c.subject_id)).all()

    return read


def given(trace, value, at_ns, **fields):
    score = {
        "scope": "trace",
        "subject_id": trace.trace_ids[0],
        "metric": "helpful",
        "outcome": Annotation(value, None),
        "evaluator": ADA,
        "evaluated_at_ns": at_ns,
        "received_uid": f"{at_ns:016x}",
    }
    return {**score, **fields}


def test_a_score_has_the_facts_of_its_trace(store, make, rows, subjects):
    resource = {"service.name": "shop", "deployment.environment": "prod"}
    trace = make.trace(
        target=Target("0" * 31 + "1", "1" * 16, 1000, 3500, resource),
        session_id="s",
        model_calls=(ModelCall("2" * 16, None), ModelCall("3" * 16, "gpt-4o")),
        usage=Usage(140, 20),
    )
    judge = Evaluator("LLM", "task_completion", "1", model="judge-1")
    score = make.score(
        trace, evaluator=judge, evaluated_at_ns=7, sampling=0.25, service_name="shop", agent_name="a", rule="r"
    )
    store.commit([make.stored(trace)], [score])
    [row] = rows()
    assert row._asdict() == {
        "number": 1,
        "tenant": "",
        "scope": "trace",
        "subject_id": trace.id,
        "metric": "coherence",
        "series": "",
        "source": None,
        "evaluator_kind": "LLM",
        "judge_model": "judge-1",
        "rule": "r",
        "status": "scored",
        "value": 0.75,
        "label": "pass",
        "passing": 1,
        "sampling": 0.25,
        "evaluated_ns": 7,
    }
    [row] = subjects()
    assert row._asdict() == {
        "scope": "trace",
        "subject_id": trace.id,
        "last_number": 1,
        "tenant": "",
        "session_key": "s",
        "service": "shop",
        "agent": "a",
        "environment": "prod",
        "model": "gpt-4o",
        "started_ns": 1000,
        "latency_ns": 2500,
        "input_tokens": 140,
        "output_tokens": 20,
    }


@pytest.mark.parametrize(
    ("outcome", "facts_of_it"),
    [
        (Score(0.25, ""), ("scored", 0.25, "fail", 0)),
        (Skip("no tools"), ("skipped", None, None, None)),
        (Failure("TimeoutError", "too slow"), ("failed", None, None, None)),
    ],
)
def test_each_outcome_has_its_status(store, make, rows, outcome, facts_of_it):
    store.commit([], [make.score(make.trace(), outcome=outcome)])
    [row] = rows()
    assert (row.status, row.value, row.label, row.passing) == facts_of_it


def test_a_later_revision_takes_the_place_of_the_earlier(store, make, rows):
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace), make.score(trace, "other")])
    store.commit([make.stored(trace, 2)], [make.score(trace, value=0.1, revision=2)])
    assert [(x.number, x.metric, x.value) for x in rows()] == [(2, "other", 0.75), (3, "coherence", 0.1)]


def test_of_two_revisions_in_one_commit_the_later_stays(store, make, rows):
    trace = make.trace()
    store.commit([make.stored(trace, 2)], [make.score(trace), make.score(trace, value=0.1, revision=2)])
    assert [(x.number, x.value) for x in rows()] == [(2, 0.1)]


def test_a_session_that_went_on_has_the_facts_of_its_last_evaluation(store, make, rows, subjects):
    for revision, value in ((1, 0.1), (2, 0.9)):
        own = {"scope": "session", "subject_id": "a:s", "session_id": "s", "session_key": "a:s"}
        store.commit([], [make.score(make.trace(revision), "reliability", value, revision=revision, **own)])
    assert [(x.scope, x.subject_id, x.value) for x in rows()] == [("session", "a:s", 0.9)]
    assert [(x.session_key, x.last_number, x.latency_ns) for x in subjects()] == [("a:s", 2, None)]


def test_a_score_of_an_evaluation_run_stands_beside_that_of_the_pipeline(store, make, rows):
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace)])
    for value in (0.1, 0.2):
        store.commit([], [make.score(trace, value=value, run="run1", revision=round(value * 10))])
    assert [(x.series, x.value) for x in rows()] == [("", 0.75), ("run1", 0.2)]


def test_what_an_evaluation_run_measured_goes_with_its_scores_alone(store, make, rows, subjects):
    first, other = make.trace(1), make.trace(2)
    store.commit([make.stored(first)], [make.score(first)])
    store.commit([], [make.score(first, run="run1"), make.score(other, run="run1")])
    with store._database.writing() as connection:
        connection.execute(delete(evaluations).where(evaluations.c.run == "run1"))
        facts.forget(connection, [2, 3])
    assert [x.number for x in rows()] == [1]
    assert [(x.subject_id, x.last_number) for x in subjects()] == [(first.id, 1)]


def test_what_is_committed_again_changes_nothing(store, make, rows):
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace), make.score(trace, revision=2)])
    before = rows()
    store.commit([make.stored(trace)], [make.score(trace)])
    assert rows() == before


def test_a_score_whose_trace_is_not_in_its_commit_keeps_the_facts_of_the_trace(store, make, subjects):
    trace = make.trace(usage=Usage(140, 20))
    store.commit([make.stored(trace)], [make.score(trace)])
    store.commit([], [make.score(trace, "other")])
    assert [(x.input_tokens, x.last_number) for x in subjects()] == [(140, 2)]


def test_a_trace_that_became_part_of_another_has_none(store, make, rows, subjects):
    alone, turn = make.trace(2), make.trace(1)
    store.commit([make.stored(alone)], [make.score(alone)])
    store.commit([make.stored(turn)], [make.score(turn)], gone=[alone.id])
    assert [x.subject_id for x in (*rows(), *subjects())] == [turn.id, turn.id]


def test_they_go_with_the_scores_that_are_pruned(open_store, make, clock):
    store = open_store(max_age="1s")
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace)])
    store.put_external([make.score(trace, **given(trace, 1.0, 1))])
    clock.now_ns += 2 * 10**9
    store.prune(clock.now_ns)
    with store._database.reading() as connection:
        assert connection.execute(select(score_facts)).all() == []
        assert connection.execute(select(subject_facts)).all() == []


def test_what_a_trace_was_given_keeps_its_facts_when_the_first_score_is_pruned(open_store, make, clock, rows, subjects):
    store, trace = open_store(max_age="3s"), make.trace()
    for at_ns in (1, 2):
        store.put_external([make.score(trace, **given(trace, 1.0, at_ns, metric=f"m{at_ns}"))])
        clock.now_ns += 2 * 10**9
    store.prune(clock.now_ns)
    assert ([x.number for x in rows()], [x.last_number for x in subjects()]) == ([-2], [-2])


def test_what_a_person_gave_to_a_session_keeps_its_facts_when_its_own_score_is_pruned(
    open_store, make, clock, rows, subjects
):
    store = open_store(max_age="3s")
    own = {"scope": "session", "subject_id": "s", "session_id": "s", "session_key": "s"}
    store.commit([], [make.score(make.trace(), "reliability", service_name="shop", **own)])
    clock.now_ns += 2 * 10**9
    store.put_external([make.score(make.trace(), **{**given(make.trace(), 1.0, 1), **own})])
    clock.now_ns += 2 * 10**9
    store.prune(clock.now_ns)
    assert [x.number for x in rows()] == [-1]
    assert [(x.subject_id, x.service, x.last_number) for x in subjects()] == [("s", "shop", -1)]


def test_of_what_one_person_gave_the_last_counts_in_whatever_order_it_comes(store, make, rows):
    trace = make.trace()
    for value, at_ns in ((0.0, 5), (1.0, 9), (0.5, 7)):
        store.put_external([make.score(trace, **given(trace, value, at_ns))])
    store.put_external([make.score(trace, **given(trace, 0.25, 6, evaluator=replace(ADA, author="bob")))])
    assert sorted((x.value, x.source, x.subject_id) for x in rows()) == [
        (0.25, "human", trace.trace_ids[0]),
        (1.0, "human", trace.trace_ids[0]),
    ]


def of_response(make, response_id, value, at_ns):
    facts = given(make.trace(), value, at_ns, target=Target("", "", 0, 0, response_id=response_id))
    return make.score(make.trace(), **{**facts, "subject_id": response_id})


def test_scores_of_two_responses_that_name_no_trace_are_of_two_subjects(store, make, rows):
    store.put_external([of_response(make, "resp-1", 1.0, 5), of_response(make, "resp-2", 0.0, 6)])
    store.put_external([of_response(make, "resp-1", 0.5, 7)])
    assert sorted((x.subject_id, x.value) for x in rows()) == [("resp-1", 0.5), ("resp-2", 0.0)]


def test_what_a_response_was_given_keeps_its_facts_when_the_first_score_is_pruned(
    open_store, make, clock, rows, subjects
):
    store = open_store(max_age="3s")
    for at_ns in (1, 2):
        store.put_external([replace(of_response(make, "resp-1", 1.0, at_ns), metric=f"m{at_ns}")])
        clock.now_ns += 2 * 10**9
    store.prune(clock.now_ns)
    assert ([x.number for x in rows()], [x.last_number for x in subjects()]) == ([-2], [-2])


def test_when_a_persons_last_score_is_deleted_the_one_before_counts_again(store, make, rows):
    trace = make.trace()
    scores = [make.score(trace, **given(trace, value, at_ns)) for value, at_ns in ((0.5, 1), (0.75, 2))]
    store.put_external(scores)
    store.given.remove("", scores[1].uid, lambda _score: None)
    assert [x.value for x in rows()] == [0.5]
    store.given.remove("", scores[0].uid, lambda _score: None)
    assert rows() == []


def test_a_persons_score_that_is_changed_has_the_facts_of_what_it_is_now(store, make, rows):
    trace = make.trace()
    scores = [make.score(trace, **given(trace, value, at_ns)) for value, at_ns in ((0.5, 1), (0.75, 2))]
    store.put_external(scores)
    store.given.change("", scores[1].uid, lambda x: replace(x, outcome=replace(x.outcome, value=0.25)))
    assert [x.value for x in rows()] == [0.25]
    store.given.change("", scores[1].uid, lambda x: replace(x, evaluated_at_ns=0))
    assert [x.value for x in rows()] == [0.5]


def test_what_somebody_gave_to_a_session_leaves_what_is_known_of_it(store, make, subjects):
    own = {"scope": "session", "subject_id": "s", "session_id": "s", "session_key": "s"}
    store.commit([], [make.score(make.trace(), "reliability", service_name="shop", **own)])
    store.put_external([make.score(make.trace(), **{**given(make.trace(), 1.0, 1), **own})])
    assert [(x.service, x.last_number) for x in subjects()] == [("shop", 1)]


def test_an_external_score_may_lack_the_kind_of_its_evaluator(store, make, rows):
    trace = make.trace()
    store.put_external([make.score(trace, **given(trace, 1.0, 1, evaluator=replace(ADA, kind=None)))])
    assert [(x.evaluator_kind, x.value) for x in rows()] == [(None, 1.0)]


def test_a_sum_that_no_column_can_hold_is_the_highest_that_one_can(store, make, subjects):
    trace = make.trace(usage=Usage(2**64, 20))
    store.commit([make.stored(trace)], [make.score(trace)])
    assert [(x.input_tokens, x.output_tokens) for x in subjects()] == [(2**63 - 1, 20)]


@pytest.mark.parametrize("value", [["prod"], {"a": 1}, b"prod", 7])
def test_an_environment_may_be_any_value(store, make, subjects, value):
    resource = {"deployment.environment.name": value}
    trace = make.trace(target=Target("0" * 31 + "1", "1" * 16, 1000, 3500, resource))
    store.commit([make.stored(trace)], [make.score(trace)])
    assert [x.environment for x in subjects()] == [str(value)]


def test_a_text_that_no_database_takes_is_cut_to_one_that_each_takes(store, make, subjects):
    store.commit([], [make.score(make.trace(), service_name="a\0b\ud800", agent_name="é" * 300)])
    [row] = subjects()
    assert (row.service, row.agent) == ("ab", "é" * 256)


def test_scores_without_facts_are_filled_in_parts_and_as_they_were(store, make, rows, subjects, monkeypatch):
    trace = make.trace(session_id="s", usage=Usage(140, 20))
    store.commit([make.stored(trace)], [make.score(trace, f"m{n}") for n in range(5)])
    store.commit([make.stored(trace, 2)], [make.score(trace, "m1", revision=2)])
    for value, at_ns in ((1.0, 9), (0.5, 7), (0.0, 5)):
        store.put_external([make.score(trace, **given(trace, value, at_ns))])
    before = rows(), subjects()
    monkeypatch.setattr(facts, "_BATCH", 2)
    with store._database.writing() as connection:
        connection.execute(score_facts.delete())
        connection.execute(subject_facts.delete())
        parts = 1
        while facts.fill(connection):
            parts += 1
    assert (rows(), subjects()) == before
    assert parts > 3


def test_a_damaged_score_has_none_and_holds_up_no_other(store, make, rows, sql, monkeypatch):
    store.commit([], [make.score(make.trace(), f"m{n}") for n in range(5)])
    sql("UPDATE evaluations SET record = '{' WHERE seq IN (2, 3, 4)")
    sql("DELETE FROM score_facts")
    monkeypatch.setattr(facts, "_BATCH", 1)
    with store._database.writing() as connection:
        while facts.fill(connection):
            pass
    assert [x.number for x in rows()] == [1, 5]
