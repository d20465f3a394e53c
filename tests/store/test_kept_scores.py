"""Figures are of the newest scores, whatever becomes of them."""

import json
from dataclasses import replace

import pytest
from sqlalchemy import select

from spanscore.model.score import Annotation, Evaluator, Failure, Score, Skip
from spanscore.model.span import with_headers
from spanscore.model.trace import ModelCall, Target, ToolCall
from spanscore.store import placement
from spanscore.store.runs import RunTables
from spanscore.store.schema import COUNTED, score_contexts, score_procedures, scores

ADA = Evaluator("HUMAN", "review", "1", source="human", author="ada")
FIGURES = [
    scores.c[x]
    for x in (
        *("number", "happened_ns", "evaluated_ns", "value", "label", "passing", "series"),
        *("procedure", "context", "cluster", "subject"),
    )
]
PROCEDURE = [x for x in score_procedures.c if x.name != "id"]
CONTEXT = [x for x in score_contexts.c if x.name not in {"id", "tenant"}]


@pytest.fixture
def rows(store):
    """`rows()`: all scores that count, by number, each with its procedure and its context."""
    query = (
        select(*FIGURES, *PROCEDURE, *CONTEXT)
        .join_from(scores, score_procedures, score_procedures.c.id == scores.c.procedure)
        .join(score_contexts, score_contexts.c.id == scores.c.context)
        .where(COUNTED)
        .order_by(scores.c.number)
    )

    def read():
        with store._database.reading() as connection:
            return connection.execute(query).all()

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


def test_a_score_has_the_facts_of_its_trace(store, make, rows, sql):
    resource = {"service.name": "shop", "deployment.environment": "prod", "service.version": "1.2"}
    trace = make.trace(
        target=Target("0" * 31 + "1", "1" * 16, 1000, 3500, resource),
        session_id="s",
        model_calls=(ModelCall("2" * 16, None), ModelCall("3" * 16, "gpt-4o")),
        tool_calls=(
            ToolCall("c1", "search", {}, ""),
            ToolCall("c2", "book", {}, ""),
            ToolCall("c3", "search", {}, ""),
        ),
    )
    judge = Evaluator("LLM", "task_completion", "1", model="judge-1", prompt_hash="abc")
    score = make.score(
        trace,
        evaluator=judge,
        evaluated_at_ns=7,
        sampling=0.25,
        service_name="shop",
        agent_name="a",
        rule="r",
    )
    store.commit([make.stored(trace)], [score])
    [row] = rows()
    found = row._asdict()
    assert {
        name: found[name]
        for name in ("number", "evaluated_ns", "value", "label", "passing", "series")
    } == {
        "number": 1,
        "evaluated_ns": 7,
        "value": 0.75,
        "label": "pass",
        "passing": 1,
        "series": None,
    }
    assert {x.name: found[x.name] for x in PROCEDURE} == {
        "tenant": "",
        "scope": "trace",
        "metric": "coherence",
        "source": None,
        "run": "",
        "evaluator_kind": "LLM",
        "evaluator": "task_completion",
        "evaluator_version": "1",
        "judge_model": "judge-1",
        "prompt_hash": "abc",
        "embedding": None,
        "threshold": 0.5,
        "rule": "r",
        "low": 0.0,
        "high": 1.0,
        "sampling": 0.25,
        "status": "scored",
        "cause": None,
    }
    assert {x.name: found[x.name] for x in CONTEXT} == {
        "service": "shop",
        "agent": "a",
        "environment": "prod",
        "version": "1.2",
        "model": "gpt-4o",
        "outcome": "unknown",
        "tools": '["book","search"]',
    }


@pytest.mark.parametrize(
    ("outcome", "facts_of_it"),
    [
        (Score(0.25, ""), ("scored", None, 0.25, "fail", 0)),
        (Skip("no tools"), ("skipped", "other", None, None, None)),
        (Failure("TimeoutError", "too slow"), ("failed", "TimeoutError", None, None, None)),
    ],
)
def test_each_outcome_has_its_status(store, make, rows, outcome, facts_of_it):
    store.commit([], [make.score(make.trace(), outcome=outcome)])
    [row] = rows()
    assert (row.status, row.cause, row.value, row.label, row.passing) == facts_of_it


def test_a_later_revision_takes_the_place_of_the_earlier(store, make, rows):
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace), make.score(trace, "other")])
    store.commit([make.stored(trace, 2)], [make.score(trace, value=0.1, revision=2)])
    assert [(x.number, x.metric, x.value) for x in rows()] == [
        (2, "other", 0.75),
        (3, "coherence", 0.1),
    ]


def test_of_two_revisions_in_one_commit_the_later_stays(store, make, rows):
    trace = make.trace()
    store.commit(
        [make.stored(trace, 2)], [make.score(trace), make.score(trace, value=0.1, revision=2)]
    )
    assert [(x.number, x.value) for x in rows()] == [(2, 0.1)]


def test_a_session_that_went_on_has_the_facts_of_its_last_evaluation(store, make, rows):
    for revision, value in ((1, 0.1), (2, 0.9)):
        own = {"scope": "session", "subject_id": "a:s", "session_id": "s", "session_key": "a:s"}
        store.commit(
            [], [make.score(make.trace(revision), "reliability", value, revision=revision, **own)]
        )
    assert [(x.scope, x.number, x.value) for x in rows()] == [("session", 2, 0.9)]


def test_the_scores_of_a_session_and_of_its_traces_are_one_cluster(store, make, rows):
    first, second, alone = (
        make.trace(1, session_id="s"),
        make.trace(2, session_id="s"),
        make.trace(3),
    )
    store.commit(
        [make.stored(x) for x in (first, second, alone)],
        [make.score(x) for x in (first, second, alone)],
    )
    store.commit(
        [], [make.score(first, "reliability", scope="session", subject_id="s", session_key="s")]
    )
    one, two, other, of_session = rows()
    assert one.cluster == two.cluster == of_session.cluster != other.cluster
    assert len({x.subject for x in rows()}) == 4


def test_a_score_of_an_evaluation_run_stands_beside_that_of_the_pipeline(store, make, rows):
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace)])
    for value in (0.1, 0.2):
        store.commit([], [make.score(trace, value=value, run="run1", revision=round(value * 10))])
    assert [(x.run, x.value) for x in rows()] == [("", 0.75), ("run1", 0.2)]


def test_what_an_evaluation_run_measured_goes_with_its_scores_alone(store, make, rows):
    first, other = make.trace(1), make.trace(2)
    store.commit([make.stored(first)], [make.score(first)])
    store.commit([], [make.score(first, run="run1"), make.score(other, run="run1")])
    with store._database.writing() as connection:
        RunTables(connection).delete_step("run1", with_scores=True)
    assert [x.number for x in rows()] == [1]


def test_what_is_committed_again_changes_nothing(store, make, rows):
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace), make.score(trace, revision=2)])
    before = rows()
    store.commit([make.stored(trace)], [make.score(trace)])
    assert rows() == before


def test_a_score_whose_trace_is_not_in_its_commit_has_the_context_of_the_trace(store, make, rows):
    trace = make.trace(model_calls=(ModelCall("3" * 16, "gpt-4o"),))
    store.commit([make.stored(trace)], [make.score(trace)])
    store.commit([], [make.score(trace, "other")])
    assert [(x.number, x.model) for x in rows()] == [(1, "gpt-4o"), (2, "gpt-4o")]


def test_the_first_scores_of_a_stored_trace_have_its_context(store, make, rows):
    trace = make.trace(model_calls=(ModelCall("3" * 16, "gpt-4o"),))
    store.commit([make.stored(trace)], [])
    store.commit([], [make.score(trace, run="run1")])
    assert [x.model for x in rows()] == ["gpt-4o"]


def test_a_damaged_score_can_be_deleted(store, make, rows, sql):
    trace = make.trace()
    [score] = given_scores = [make.score(trace, **given(trace, 0.5, 1))]
    store.put_external(given_scores)
    sql("UPDATE scores SET record = '{'")
    store.given.remove("", score.uid, lambda _score: None)
    assert (rows(), sql("SELECT count(*) FROM scores")) == ([], [(0,)])


def test_a_trace_that_became_part_of_another_has_none(store, make, rows):
    alone, turn = make.trace(2), make.trace(1)
    store.commit([make.stored(alone)], [make.score(alone)])
    store.commit([make.stored(turn)], [make.score(turn)], gone=[alone.id])
    assert [x.number for x in rows()] == [2]


@pytest.mark.slow
def test_they_go_with_the_scores_that_are_pruned(open_store, make, clock, sql):
    store = open_store(max_age="1s")
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace)])
    store.put_external([make.score(trace, **given(trace, 1.0, 1))])
    clock.now_ns += 2 * 10**9
    store.prune(clock.now_ns)
    assert (
        sql("SELECT count(*) FROM scores") == sql("SELECT count(*) FROM score_procedures") == [(0,)]
    )


def tagged(make, number, *tags, **facts):
    attributes = {"langfuse.trace.tags": tags} if tags else {}
    return make.trace(number, attributes=attributes, **facts)


def tags_by_score(sql):
    query = "SELECT number, tag FROM scores LEFT JOIN score_tags USING (tags) ORDER BY 1, 2"
    return sql(query)


def test_a_score_has_the_tags_of_its_trace(store, make, sql):
    traces = tagged(make, 1, "b", "a", "b"), tagged(make, 2)
    store.commit([make.stored(x) for x in traces], [make.score(x) for x in traces])
    assert tags_by_score(sql) == [(1, "a"), (1, "b"), (2, None)]


def test_a_score_that_is_measured_later_has_them_too(store, make, sql):
    trace = tagged(make, 1, "a")
    store.commit([make.stored(trace)], [make.score(trace)])
    store.commit([], [make.score(trace, "task_completion")])
    assert tags_by_score(sql) == [(1, "a"), (2, "a")]


def test_what_a_person_gave_has_the_tags_of_the_turn_that_it_is_of(store, make, sql):
    trace, later = tagged(make, 1, "a"), tagged(make, 2, "b")
    store.commit([make.stored(trace)], [])
    store.put_external([make.score(x, **given(x, 1.0, n)) for n, x in ((1, trace), (2, later))])
    store.commit([make.stored(later)], [])
    assert tags_by_score(sql) == [(-2, "b"), (-1, "a")]


def test_tags_without_scores_go_when_they_are_many(open_store, make, clock, sql, monkeypatch):
    monkeypatch.setattr(placement, "_MAX_LEFT", 1)
    store = open_store(max_age="3s")
    for number in (1, 2):
        trace = tagged(make, number, f"tag {number}")
        store.commit([make.stored(trace)], [make.score(trace)])
        clock.now_ns += 2 * 10**9
    store.prune(clock.now_ns)
    assert sql("SELECT tag FROM score_tags") == [("tag 2",)]


def test_tags_are_looked_through_only_after_something_was_pruned_and_some_at_once(
    open_store, make, clock, sql, monkeypatch
):
    monkeypatch.setattr(placement, "_MAX_LEFT", 1)
    monkeypatch.setattr(placement, "_MAX_AT_ONCE", 2)
    store = open_store(max_age="3s")
    for number in range(1, 5):
        trace = tagged(make, number, f"tag {number}")
        store.commit([make.stored(trace)], [make.score(trace)])
    sql("DELETE FROM scores")
    store.prune(clock.now_ns)
    assert sql("SELECT count(*) FROM score_tags") == [(4,)]
    clock.now_ns += 4 * 10**9
    store.prune(clock.now_ns)
    assert sql("SELECT count(*) FROM score_tags") == [(2,)]


def test_tags_that_a_score_has_got_since_they_were_found_unused_stay(store, make, sql, monkeypatch):
    monkeypatch.setattr(placement, "_MAX_LEFT", 0)
    traces = [tagged(make, number, f"tag {number}") for number in (1, 2)]
    store.commit([make.stored(x) for x in traces], [make.score(x) for x in traces])
    sql("DELETE FROM scores")
    with store._database.reading() as connection:
        unused = placement.unused(connection)
    later = tagged(make, 3, "tag 1")
    store.commit([make.stored(later)], [make.score(later)])
    with store._database.writing() as connection:
        placement.tidy(connection, unused)
    assert sql("SELECT tag FROM score_tags") == [("tag 1",)]


def test_contexts_without_scores_go_when_they_are_many(open_store, make, clock, sql, monkeypatch):
    monkeypatch.setattr(placement, "_MAX_LEFT", 1)
    store = open_store(max_age="3s")
    for number in (1, 2):
        trace = make.trace(number, tool_calls=(ToolCall("c", f"tool {number}", {}, ""),))
        store.commit([make.stored(trace)], [make.score(trace)])
        clock.now_ns += 2 * 10**9
    store.prune(clock.now_ns)
    assert sql("SELECT count(*) FROM score_contexts") == [(1,)]
    assert sql("SELECT tools FROM score_contexts") == [('["tool 2"]',)]


def test_what_a_person_gave_counts_with_the_turn_of_its_trace(store, make, rows):
    trace = make.trace(session_id="s", model_calls=(ModelCall("3" * 16, "gpt-4o"),))
    store.commit([make.stored(trace)], [make.score(trace)])
    store.put_external([make.score(trace, **given(trace, 1.0, 1, session_id=None))])
    person, own = rows()
    assert (person.cluster, person.model) == (own.cluster, "gpt-4o")


def test_what_came_before_its_trace_counts_with_the_turn_once_that_is_there(store, make, rows):
    trace = make.trace(session_id="s", model_calls=(ModelCall("3" * 16, "gpt-4o"),))
    store.put_external([make.score(trace, **given(trace, 1.0, 1, session_id=None))])
    assert [x.model for x in rows()] == [None]
    store.commit([make.stored(trace)], [make.score(trace)])
    person, own = rows()
    assert (person.cluster, person.model) == (own.cluster, "gpt-4o")


def test_a_score_counts_when_its_turn_began_and_not_when_it_was_made(store, make, rows):
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace, evaluated_at_ns=9 * 10**18)])
    assert [x.happened_ns for x in rows()] == [trace.target.start_ns]


def test_what_a_person_gave_counts_when_it_was_given_until_its_turn_is_there(store, make, rows):
    trace = make.trace()
    nowhere = Target(trace.trace_ids[0], "", 0, 0)
    store.put_external([make.score(trace, **given(trace, 1.0, 9, target=nowhere))])
    assert [x.happened_ns for x in rows()] == [9]
    store.commit([make.stored(trace)], [make.score(trace)])
    assert [x.happened_ns for x in rows()] == [trace.started_ns, trace.target.start_ns]


def test_of_what_one_person_gave_the_last_counts_in_whatever_order_it_comes(store, make, rows):
    trace = make.trace()
    for value, at_ns in ((0.0, 5), (1.0, 9), (0.5, 7)):
        store.put_external([make.score(trace, **given(trace, value, at_ns))])
    store.put_external(
        [make.score(trace, **given(trace, 0.25, 6, evaluator=replace(ADA, author="bob")))]
    )
    assert sorted((x.value, x.source) for x in rows()) == [(0.25, "human"), (1.0, "human")]
    assert len({x.subject for x in rows()}) == 1


def of_response(make, response_id, value, at_ns):
    facts = given(make.trace(), value, at_ns, target=Target("", "", 0, 0, response_id=response_id))
    return make.score(make.trace(), **{**facts, "subject_id": response_id})


def test_scores_of_two_responses_that_name_no_trace_are_of_two_subjects(store, make, rows):
    store.put_external([of_response(make, "resp-1", 1.0, 5), of_response(make, "resp-2", 0.0, 6)])
    store.put_external([of_response(make, "resp-1", 0.5, 7)])
    assert sorted(x.value for x in rows()) == [0.0, 0.5]
    assert len({x.subject for x in rows()}) == len({x.cluster for x in rows()}) == 2


@pytest.mark.parametrize("is_trace_first", [True, False])
def test_what_a_response_was_given_counts_with_the_turn_that_has_it(
    store, make, rows, is_trace_first
):
    trace = make.trace(
        session_id="s", model_calls=(ModelCall("3" * 16, "gpt-4o", response_id="resp-1"),)
    )
    writes = [
        lambda: store.commit([make.stored(trace)], [make.score(trace)]),
        lambda: store.put_external([of_response(make, "resp-1", 1.0, 5)]),
    ]
    for write in writes if is_trace_first else writes[::-1]:
        write()
    person, own = rows()
    assert (person.cluster, person.model) == (own.cluster, "gpt-4o")


def test_when_a_persons_last_score_is_deleted_the_one_before_counts_again(store, make, rows):
    trace = make.trace()
    scores = [
        make.score(trace, **given(trace, value, at_ns)) for value, at_ns in ((0.5, 1), (0.75, 2))
    ]
    store.put_external(scores)
    store.given.remove("", scores[1].uid, lambda _score: None)
    assert [x.value for x in rows()] == [0.5]
    store.given.remove("", scores[0].uid, lambda _score: None)
    assert rows() == []


def test_a_persons_score_that_is_changed_has_the_facts_of_what_it_is_now(store, make, rows):
    trace = make.trace()
    scores = [
        make.score(trace, **given(trace, value, at_ns)) for value, at_ns in ((0.5, 1), (0.75, 2))
    ]
    store.put_external(scores)
    store.given.change(
        "", scores[1].uid, lambda x: replace(x, outcome=replace(x.outcome, value=0.25))
    )
    assert [x.value for x in rows()] == [0.25]
    store.given.change("", scores[1].uid, lambda x: replace(x, evaluated_at_ns=0))
    assert [x.value for x in rows()] == [0.5]


def test_scores_of_two_tenants_have_nothing_in_common(store, make, rows):
    for tenant in ("", "acme"):
        resource = with_headers({"service.name": "shop"}, ((":tenant", tenant),) if tenant else ())
        trace = make.trace(
            target=Target("0" * 31 + "1", "1" * 16, 1000, 3500, resource), session_id="s"
        )
        store.commit([make.stored(trace)], [make.score(trace)])
        store.put_external(
            [make.score(trace, **given(trace, 1.0, 1, received_uid=f"{tenant:0>16}"))]
        )
    by_tenant = {tenant: [x for x in rows() if x.tenant == tenant] for tenant in ("", "acme")}
    assert [len(x) for x in by_tenant.values()] == [2, 2]
    for column in ("procedure", "context", "cluster", "subject"):
        ours, others = ({getattr(x, column) for x in found} for found in by_tenant.values())
        assert ours.isdisjoint(others)


def test_an_external_score_may_lack_the_kind_of_its_evaluator(store, make, rows):
    trace = make.trace()
    store.put_external(
        [make.score(trace, **given(trace, 1.0, 1, evaluator=replace(ADA, kind=None)))]
    )
    assert [(x.evaluator_kind, x.value) for x in rows()] == [(None, 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("value", [["prod"], {"a": 1}, b"prod", 7])
def test_an_environment_may_be_any_value(store, make, rows, value):
    resource = {"deployment.environment.name": value}
    trace = make.trace(target=Target("0" * 31 + "1", "1" * 16, 1000, 3500, resource))
    store.commit([make.stored(trace)], [make.score(trace)])
    assert [x.environment for x in rows()] == [str(value)]


def test_a_text_that_no_database_takes_is_cut_to_one_that_each_takes(store, make, rows):
    store.commit([], [make.score(make.trace(), service_name="a\0b\ud800", agent_name="é" * 300)])
    [row] = rows()
    assert (row.service, row.agent) == ("ab", "é" * 256)


def test_of_many_tools_the_first_by_name_are_kept(store, make, sql):
    calls = tuple(ToolCall(f"c{x}", f"tool {x:03}", {}, "") for x in range(100))
    trace = make.trace(tool_calls=(*calls, ToolCall("c", "\0", {}, "")))
    store.commit([make.stored(trace)], [make.score(trace)])
    [(tools,)] = sql("SELECT tools FROM score_contexts")
    assert json.loads(tools) == [f"tool {x:03}" for x in range(32)]
