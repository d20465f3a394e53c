"""Which traces and sessions a target names, where records are damaged, late or large."""

import pytest
from sqlalchemy import create_engine, text

from spanscore.control import item_lists
from spanscore.control.item_lists import Targeted
from spanscore.errors import InputError, NotFoundError
from spanscore.model.options import read_spec
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.specs import RunSpec, TargetSpec

SESSIONS = {"scope": "session", "filter": {"service": "shop"}}
LATE = 2**62


def named(server, stored_by_ns=LATE, **target):
    pages = Targeted(server.store, "", read_spec(TargetSpec, target)).every_page(
        stored_by_ns=stored_by_ns
    )
    return [subject for page in pages for subject in page]


@pytest.fixture
def sql(tmp_path):
    """`sql(statement, **values)` in the server's store."""

    def execute(statement, **values):
        engine = create_engine(f"sqlite:///{tmp_path}/spanscore.db")
        with engine.begin() as connection:
            connection.execute(text(statement), values)
        engine.dispose()

    return execute


def test_a_damaged_trace_costs_no_session_but_its_own(server, traces, sql):
    damaged, *_ = server.keep(traces(3, session_id=lambda n: f"s{n}"))
    sql("UPDATE agent_traces SET record = '{' WHERE id = :id", id=damaged)
    assert named(server, **SESSIONS) == ["s1", "s2"]


@pytest.mark.parametrize(
    ("scope", "metric"), [("trace", "task_completion"), ("session", "conversation_completion")]
)
def test_a_damaged_trace_costs_no_estimate(server, traces, sql, scope, metric):
    damaged, *_ = server.keep(traces(6, session_id=lambda n: f"s{n // 2}"))
    sql("UPDATE agent_traces SET record = '{' WHERE id = :id", id=damaged)
    given = read_spec(
        RunSpec, {"target": {"scope": scope}, "measure": {"metrics": [metric], "model": "gpt-4o"}}
    )
    assert server.do(server.runs.estimate("", given)).calls > 0


def test_without_a_model_an_estimate_has_no_calls(server, traces):
    server.keep(traces(1))
    given = read_spec(
        RunSpec, {"target": {"scope": "trace"}, "measure": {"metrics": ["task_completion"]}}
    )
    assert server.do(server.runs.estimate("", given)).calls == 0


def test_a_session_first_stored_later_is_left_out(server, traces, sql):
    server.keep(traces(2, session_id=lambda n: f"s{n}"))
    sql("UPDATE agent_traces SET stored_ns = :late WHERE session_id = 's1'", late=LATE)
    assert named(server, LATE - 1, scope="session") == ["s0"]


def test_a_session_of_which_some_was_stored_before_is_named(server, traces, sql):
    _, later = server.keep(traces(2, session_id="s"))
    sql("UPDATE agent_traces SET stored_ns = :late WHERE id = :id", late=LATE, id=later)
    assert named(server, LATE - 1, scope="session") == ["s"]


def test_unknown_sessions_are_found_by_id_and_key(server, traces):
    server.keep(traces(2, session_id="s", session_key=lambda n: ("a:s", "b:s")[n]))
    Targeted(
        server.store, "", TargetSpec(scope="session", session_ids=("s", "b:s"))
    ).refuse_unknown()
    with pytest.raises(NotFoundError, match=r"2 of the sessions are not stored .*: 'c:s', 'x'"):
        Targeted(
            server.store, "", TargetSpec(scope="session", session_ids=("s", "c:s", "x"))
        ).refuse_unknown()


def test_a_page_ends_where_its_records_reach_so_many_bytes(server, traces, monkeypatch):
    ids = server.keep(traces(5, service_name="shop"))
    monkeypatch.setattr(item_lists, "_MAX_BYTES", 1)
    target = read_spec(TargetSpec, {"filter": {"service": "shop"}})
    pages = list(Targeted(server.store, "", target).every_page(stored_by_ns=LATE))
    assert pages == [[x] for x in sorted(ids)] + [[]]


def test_any_trace_of_a_long_session_may_be_the_wanted_one(server, traces):
    server.keep(
        traces(50, session_id="s", service_name=lambda n: "shop" if n in {3, 44} else "bank")
    )
    server.keep(traces(1, session_id="t", service_name="bank"))
    assert named(server, **SESSIONS) == ["s"]


def scored(server, ids, values, scope="trace", metric="faithfulness", **facts):
    """Give each of these a score, as traces get them that come."""
    made = [
        Evaluation(
            scope=scope,
            subject_id=id_,
            metric=metric,
            outcome=Score(value, "because"),
            threshold=0.5,
            scale=(0.0, 1.0),
            evaluator=Evaluator("LLM", "judge", "1", model="small"),
            target=server.store.trace(id_, tenant="").target
            if scope == "trace"
            else target_of(server, id_),
            session_id=id_ if scope == "session" else None,
            **facts,
        )
        for id_, value in zip(ids, values, strict=True)
    ]
    server.store.commit([], made)


def target_of(server, session_id):
    [found] = server.store.sessions([session_id], tenant="")
    return found.session.traces[-1].target


def test_traces_are_named_by_their_scores(server, traces):
    ids = server.keep(traces(4))
    scored(server, ids[:3], [0.2, 0.9, 0.4])
    assert set(named(server, where="label.faithfulness = fail")) == {ids[0], ids[2]}
    assert named(server, where="score.faithfulness >= 0.4 AND score.faithfulness < 0.5") == [ids[2]]
    assert named(server, where="NOT score.faithfulness:*") == [ids[3]]


def test_scores_of_other_runs_name_no_trace(server, traces):
    ids = server.keep(traces(1))
    scored(server, ids, [0.2], run="ab")
    assert named(server, where="label.faithfulness = fail") == []


def test_a_filter_of_the_trace_and_one_of_its_scores_hold_both(server, traces):
    shop, bank = server.keep(traces(1)), server.keep(traces(1, service_name="bank"))
    scored(server, [*shop, *bank], [0.2, 0.2])
    assert named(server, filter={"service": "bank"}, where="failing = true") == bank


def test_sessions_are_named_by_their_own_scores(server, traces):
    server.keep(traces(4, session_id=lambda n: f"s{n // 2}"))
    scored(server, ["s1"], [0.1], scope="session", metric="conversation_completion")
    assert named(server, scope="session", where="score.conversation_completion < 0.5") == ["s1"]
    assert named(server, scope="session", where="trace_count = 2 AND session_id = s0") == ["s0"]


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ({"where": "label.faithfulness ="}, "where: at character"),
        ({"where": "lable.x = fail"}, "there is no field lable.x"),
        ({"where": "trace_count = 2"}, "there is no field trace_count"),
        ({"where": "failing = true", "trace_ids": ["a"]}, "give where or trace_ids, not both"),
        ({"where": "failing = true", "source": "archive"}, "of a source give a filter"),
    ],
)
def test_a_condition_that_cannot_be_met_is_refused(target, problem):
    with pytest.raises(InputError, match=problem):
        read_spec(TargetSpec, target)
