"""Evaluation runs of a real server that is killed in the middle: nothing is lost, and no answer is
paid for twice.
"""

import os
from collections import Counter
from dataclasses import replace

import grpc
import pytest
from obliging_model import ObligingModel, question_of
from scripted_server import ScriptedServer
from sent_traces import lines_of, request_of

from spanscore.api.v1 import run_service_pb2 as pb
from spanscore.api.v1.run_service_pb2_grpc import RunServiceStub
from spanscore.store.config import Config
from spanscore.store.listing import ScoreQuery
from spanscore.store.store import Store, StoredTrace
from spanscore.testing.traces import agent_trace

pytestmark = pytest.mark.slow

TRACES = int(os.environ.get("RUN_TRACES", "48"))
KILLS = int(os.environ.get("RUN_KILLS", "2"))
"""With `RUN_TRACES=20000 RUN_KILLS=5` in the environment, what a long night is like."""
SESSIONS = 10
METRIC = "task_completion"
AT_ONCE = 4
DEADLINE_S = 300 + TRACES


class Asked(Counter):
    """Answers every request, and counts how often each question came.

    It takes its time, so that a run is not over before it is killed.
    """

    def __init__(self):
        super().__init__()
        self._answer = ObligingModel()

    def __call__(self, request):
        self[question_of(request)] += 1
        return replace(self._answer(request), delay_s=0.1)


def stored(folder, count, **facts):
    """A store with so many traces, each of another question; their ids."""
    store = Store.open(Config(url=f"sqlite:///{folder}/store.db"))
    traces = [
        agent_trace(user_input=f"question {n}", final_output=f"answer {n}", **facts)
        for n in range(count)
    ]
    store.commit([StoredTrace(x, 1, "digest") for x in traces], [])
    store.close()
    return {x.id for x in traces}


def scores_of(folder, run):
    store = Store.open(Config(url=f"sqlite:///{folder}/store.db"))
    found = store.list_scores(
        ScoreQuery(run=run.name.removeprefix("runs/"), skipped=True), 100_000
    ).items
    store.close()
    return found


def ask(running, method, request):
    with grpc.insecure_channel(f"127.0.0.1:{running.api}") as channel:
        answer = getattr(RunServiceStub(channel), method)(
            request, timeout=DEADLINE_S, wait_for_ready=True
        )
        return list(answer) if method == "WatchRun" else answer


def worked_off(running, run, count):
    """Wait until so many items of a run are worked off."""
    with grpc.insecure_channel(f"127.0.0.1:{running.api}") as channel:
        service = RunServiceStub(channel)
        for found in service.WatchRun(
            pb.WatchRunRequest(name=run.name), timeout=DEADLINE_S, wait_for_ready=True
        ):
            if found.progress.done >= count:
                return found
    return found


@pytest.fixture
def model():
    asked = Asked()
    with ScriptedServer(asked) as server:
        yield server, asked


@pytest.fixture
def judged(server, model, tmp_path):
    """A server whose judge is the scripted model, and that evaluates nothing by itself; `archive`
    is a folder.
    """
    judge = {
        "model": "openai/scripted",
        "api_base": model[0].url,
        "api_key": "k",
        "try_at_start": False,
    }
    sources = {"archive": {"url": f"file://{tmp_path}/archive"}}
    return server(judge=judge, evaluation={"runs": {"max_concurrent": AT_ONCE, "sources": sources}})


def test_a_run_that_is_killed_again_and_again_scores_everything_once(judged, model):
    ids = stored(judged.folder, TRACES)
    judged.start()
    created = pb.Run(measure=pb.RunMeasure(metrics=[METRIC]))
    run = ask(judged, "CreateRun", pb.CreateRunRequest(run=created, request_id="nightly"))
    for kill in range(1, KILLS + 1):
        worked_off(judged, run, TRACES * kill // (KILLS + 2))
        judged.kill()
        judged.start()
    assert (
        ask(judged, "CreateRun", pb.CreateRunRequest(run=created, request_id="nightly")).name
        == run.name
    )
    ended = ask(judged, "WatchRun", pb.WatchRunRequest(name=run.name))[-1]
    judged.stop()

    found = scores_of(judged.folder, run)
    assert (ended.state, ended.progress.done) == (pb.RUN_STATE_SUCCEEDED, TRACES)
    assert sorted(x.subject_id for x in found) == sorted(ids)
    asked_again = [question for question, count in model[1].items() if count > 1]
    # whose answers were on their way when the process ended
    assert len(asked_again) <= KILLS * AT_ONCE


def test_a_second_server_leaves_a_run_to_the_first(judged, server):
    stored(judged.folder, 8)
    judged.start()
    run = ask(
        judged,
        "CreateRun",
        pb.CreateRunRequest(run=pb.Run(measure=pb.RunMeasure(metrics=[METRIC]))),
    )
    second = server(store={"url": f"sqlite:///{judged.folder}/store.db"})
    refused = second.run()
    ended = ask(judged, "WatchRun", pb.WatchRunRequest(name=run.name))[-1]

    assert refused.returncode == 2
    assert ended.progress.done == 8


def test_a_run_of_sessions_stores_their_signals_through_a_kill(judged):
    store = Store.open(Config(url=f"sqlite:///{judged.folder}/store.db"))
    traces = [
        agent_trace(
            user_input=f"question {n}", final_output=f"answer {n}", session_id=f"s{n % SESSIONS}"
        )
        for n in range(2 * SESSIONS)
    ]
    store.commit([StoredTrace(x, 1, "digest") for x in traces], [])
    store.close()
    judged.start()
    target = pb.RunTarget(scope="SCOPE_SESSION", session_ids=[f"s{n}" for n in range(SESSIONS)])
    created = pb.Run(target=target, measure=pb.RunMeasure(metrics=["agent_reliability"]))
    run = ask(judged, "CreateRun", pb.CreateRunRequest(run=created))
    worked_off(judged, run, 2)
    judged.kill()
    judged.start()
    ended = ask(judged, "WatchRun", pb.WatchRunRequest(name=run.name))[-1]
    judged.stop()

    found = Counter((x.scope, x.metric) for x in scores_of(judged.folder, run))
    assert ended.progress.done == SESSIONS
    assert found["session", "agent_reliability"] == SESSIONS
    assert found["trace", "confidence"] == found["trace", "tool_correctness"] == 2 * SESSIONS


def test_a_run_over_a_source_asks_once_for_each_of_its_traces_through_kills(
    judged, model, tmp_path
):
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "traces.jsonl").write_text(
        lines_of(request_of(n) for n in range(TRACES))
    )
    judged.start()
    created = pb.Run(target=pb.RunTarget(source="archive"), measure=pb.RunMeasure(metrics=[METRIC]))
    estimate = ask(judged, "EstimateRun", pb.EstimateRunRequest(run=created))
    run = ask(judged, "CreateRun", pb.CreateRunRequest(run=created))
    judged.kill()  # while it is read, or before
    judged.start()
    worked_off(judged, run, TRACES // 3)
    judged.kill()
    judged.start()
    ended = ask(judged, "WatchRun", pb.WatchRunRequest(name=run.name))[-1]
    judged.stop()

    assert (estimate.candidates, estimate.calls) == (TRACES, len(model[1]))
    assert (ended.state, ended.progress.done) == (pb.RUN_STATE_SUCCEEDED, TRACES)
    assert len({x.subject_id for x in scores_of(judged.folder, run)}) == TRACES
    assert len([question for question, count in model[1].items() if count > 1]) <= 2 * AT_ONCE
