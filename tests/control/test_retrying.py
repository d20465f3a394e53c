"""Retries of a run, and creations that are repeated: nothing is counted, asked or made twice."""

import pytest

from spanscore.control import runs as control_runs
from spanscore.errors import JudgeUnavailableError, StateError
from spanscore.model.options import read_spec
from spanscore.specs import RunBudget, RunSpec
from spanscore.store.listing import ScoreQuery

UNREACHABLE = JudgeUnavailableError("no connection")


def spec(**given):
    return read_spec(RunSpec, {"measure": {"metrics": ["task_completion"]}, **given})


def work(server, given):
    async def scenario():
        run = await server.runs.create("", given)
        return await server.ended(run.id)

    return server.do(scenario())


def retry(server, run, budget=None):
    async def scenario():
        await server.runs.retry("", run.id, budget)
        return await server.ended(run.id)

    return server.do(scenario())


def test_a_retry_of_a_session_leaves_those_of_other_namespaces_with_its_id_alone(
    server, traces, judge
):
    server.keep(traces(4, session_id="s", session_key=lambda n: ("s", "a:s")[n % 2]))
    judge.errors = {"": UNREACHABLE}
    given = spec(target={"scope": "session"}, measure={"metrics": ["conversation_completion"]})
    run = work(server, given)
    judge.errors = {"Where is order 1?": UNREACHABLE}
    again = retry(server, run)

    found = server.store.list_scores(ScoreQuery(run=run.id, skipped=True), 100).items
    assert (run.progress.failed, again.progress.failed, again.progress.scores.scored) == (2, 1, 1)
    assert {(x.subject_id, x.status) for x in found} == {("s", "scored"), ("a:s", "failed")}


def test_a_retry_counts_what_runs_with_sessions_once(server, traces, judge):
    server.keep(traces(1, session_id="s"))
    judge.errors = {"": UNREACHABLE}
    run = work(server, spec(measure={"metrics": ["task_completion", "rubric"]}))
    judge.errors = {}

    counted = [
        x.progress.scores.skipped.get("rubric\truns_with_session")
        for x in (run, retry(server, run))
    ]
    assert counted == [1, 1]


def test_a_creation_is_repeated_while_no_other_run_may_be_created(server, monkeypatch):
    monkeypatch.setattr(control_runs, "MAX_UNFINISHED", 1)
    one = server.do(server.runs.create("", spec(), "key"))
    assert server.do(server.runs.create("", spec(), "key")) == one
    with pytest.raises(StateError, match="waiting, running or paused"):
        server.do(server.runs.create("", spec(), "other"))


def test_paused_runs_count_among_those_that_a_tenant_may_have(server, monkeypatch):
    monkeypatch.setattr(control_runs, "MAX_UNFINISHED", 1)
    run = server.do(server.runs.create("", spec()))
    server.do(server.runs.pause("", run.id))
    with pytest.raises(StateError, match="waiting, running or paused"):
        server.do(server.runs.create("", spec()))
    assert server.do(server.runs.resume("", run.id)).state == "PENDING"


def test_a_run_is_not_resumed_beside_as_many_as_a_tenant_may_have(server, monkeypatch):
    runs = [server.do(server.runs.create("", spec())) for _ in range(2)]
    server.do(server.runs.pause("", runs[0].id))
    monkeypatch.setattr(control_runs, "MAX_UNFINISHED", 1)
    with pytest.raises(StateError, match="waiting or running"):
        server.do(server.runs.resume("", runs[0].id))


def test_a_run_is_not_retried_beside_as_many_as_a_tenant_may_have(
    server, traces, judge, monkeypatch
):
    server.keep(traces(1))
    judge.errors = {"": UNREACHABLE}
    run = work(server, spec())
    monkeypatch.setattr(control_runs, "MAX_UNFINISHED", 1)
    server.do(server.runs.create("", spec()))
    with pytest.raises(StateError, match="waiting, running or paused"):
        retry(server, run)


def test_a_creation_is_repeated_after_a_retry_with_another_budget(server, traces, judge):
    server.keep(traces(1))
    judge.errors = {"": UNREACHABLE}
    run = server.do(server.runs.create("", spec(), "key"))
    server.do(server.ended(run.id))
    retry(server, run, RunBudget(max_tokens=1000))
    assert server.do(server.runs.create("", spec(), "key")).id == run.id


def test_the_request_id_of_a_run_that_is_being_deleted_is_free(server):
    run = server.do(server.runs.create("", spec(), "key"))
    server.do(server.runs._move("", run.id, ("PENDING",), "DELETING", "deleted"))
    assert server.do(server.runs.create("", spec(), "key")).id != run.id
