"""Which traces and sessions a target names, where records are damaged, late or large."""

import pytest
from sqlalchemy import create_engine, text

from spanscore.control import listing
from spanscore.control.listing import every_page, refuse_unknown
from spanscore.control.spec import RunSpec
from spanscore.control.target import TargetSpec, read_spec
from spanscore.errors import NotFoundError

SESSIONS = {"scope": "session", "filter": {"service": "shop"}}
LATE = 2**62


def named(server, stored_by_ns=LATE, **target):
    pages = every_page(server.store, "", read_spec(TargetSpec, target), stored_by_ns=stored_by_ns)
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


@pytest.mark.parametrize(("scope", "metric"), [("trace", "task_completion"), ("session", "conversation_completion")])
def test_a_damaged_trace_costs_no_estimate(server, traces, sql, scope, metric):
    damaged, *_ = server.keep(traces(6, session_id=lambda n: f"s{n // 2}"))
    sql("UPDATE agent_traces SET record = '{' WHERE id = :id", id=damaged)
    given = read_spec(RunSpec, {"target": {"scope": scope}, "measure": {"metrics": [metric], "model": "gpt-4o"}})
    assert server.do(server.runs.estimate("", given)).calls > 0


def test_without_a_model_an_estimate_has_no_calls(server, traces):
    server.keep(traces(1))
    given = read_spec(RunSpec, {"target": {"scope": "trace"}, "measure": {"metrics": ["task_completion"]}})
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
    refuse_unknown(server.store, "", TargetSpec(scope="session", session_ids=("s", "b:s")))
    with pytest.raises(NotFoundError, match=r"2 of the sessions are not stored .*: 'c:s', 'x'"):
        refuse_unknown(server.store, "", TargetSpec(scope="session", session_ids=("s", "c:s", "x")))


def test_a_page_ends_where_its_records_reach_so_many_bytes(server, traces):
    server.keep(traces(3))
    [(first, _)] = server.store.read_runs(lambda x: x.traces("", "", 10, max_bytes=1, stored_by_ns=LATE))
    found = server.store.read_runs(lambda x: x.traces("", first, 10, max_bytes=10**6, stored_by_ns=LATE))
    assert len(found) == 2


def test_pages_that_end_early_name_all_the_same(server, traces, monkeypatch):
    ids = server.keep(traces(5))
    monkeypatch.setattr(listing, "_MAX_BYTES", 1)
    assert named(server) == sorted(ids)


def test_any_trace_of_a_long_session_may_be_the_wanted_one(server, traces):
    server.keep(traces(50, session_id="s", service_name=lambda n: "shop" if n in {3, 44} else "bank"))
    server.keep(traces(1, session_id="t", service_name="bank"))
    assert named(server, **SESSIONS) == ["s"]
