"""Several servers on one PostgreSQL score every trace and every session once."""

import contextlib
import time
from collections import Counter

import grpc
import pytest
from obliging_model import ObligingModel
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from scripted_server import ScriptedServer

from spanscore.api.v1 import monitor_service_pb2 as monitor_pb, run_service_pb2 as pb
from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceStub
from spanscore.api.v1.run_service_pb2_grpc import RunServiceStub
from spanscore.store.config import Config
from spanscore.store.store import Store

pytestmark = [pytest.mark.postgresql, pytest.mark.slow]

REPLICAS, TURNS = 3, 6
DEADLINE_S = 120


@pytest.fixture
def url(postgresql_server):
    return postgresql_server.create()


@pytest.fixture
def replicas(server, url, unjudged):
    return [server(store={"url": url}, evaluation=unjudged).start() for _ in range(REPLICAS)]


def turns_of(recording, session):
    """Requests of one session, each with one turn as a trace of its own, in words of its own."""
    for number in range(TURNS):
        request = recording("semconv/memory").traces
        for group in request.resource_spans:
            for scoped in group.scope_spans:
                for span in scoped.spans:
                    span.trace_id = session.encode().ljust(15, b".")[:15] + bytes([number])
                    span.start_time_unix_nano += number * 10**10
                    span.end_time_unix_nano += number * 10**10
                    for attribute in span.attributes:
                        value = attribute.value
                        if attribute.key in {"session.id", "gen_ai.conversation.id"}:
                            value.string_value = session
                        asked = f"order {number} of {session}?"
                        value.string_value = value.string_value.replace("order?", asked)
        yield request


def send(replica, request):
    with grpc.insecure_channel(f"127.0.0.1:{replica.grpc}") as channel:
        TraceServiceStub(channel).Export(request)


def evaluations(url):
    store = Store.open(Config(url=url))
    found = [x for _, x in store.outbox(0, 100_000)]
    store.close()
    return found


def wait_for_session(url, session):
    """Until a session has scores that rest on all its turns; gives all evaluations."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = evaluations(url)
        of_session = [x for x in found if x.scope == "session" and x.session_id == session]
        turns = {x.subject_id for x in found if x.scope == "trace" and x.session_id == session}
        if of_session and len(turns) == TURNS:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def uids(replicas):
    """How often each score was sent, by whichever replica sends."""
    sent = [span["spanId"] for x in replicas if x.scores.exists() for span in x.exported("spans")]
    return Counter(sent)


def test_a_session_that_is_spread_over_replicas_is_evaluated_once(replicas, url, recording):
    for number, request in enumerate(turns_of(recording, "spread")):
        send(replicas[number % REPLICAS], request)
    found = wait_for_session(url, "spread")
    of_session = [x.metric for x in found if x.scope == "session"]
    assert len(set(of_session)) == len(of_session)


def test_a_score_leaves_once_whichever_replica_made_it(replicas, url, recording):
    for number, request in enumerate(turns_of(recording, "sent")):
        send(replicas[number % REPLICAS], request)
    wait_for_session(url, "sent")
    shown = {x.uid for x in evaluations(url) if x.is_shown}
    deadline = time.monotonic() + DEADLINE_S
    while not shown <= uids(replicas).keys():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert set(uids(replicas).values()) == {1}


def test_when_the_replica_that_sends_is_killed_another_one_sends_the_rest(replicas, url, recording):
    leader = next(x for x in replicas if x.state()["leads"])
    others = [x for x in replicas if x is not leader]
    leader.kill()
    for number, request in enumerate(turns_of(recording, "orphaned")):
        send(others[number % len(others)], request)
    wait_for_session(url, "orphaned")
    shown = {x.uid for x in evaluations(url) if x.is_shown}
    deadline = time.monotonic() + DEADLINE_S
    while not shown <= uids(others).keys():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_session_whose_replica_died_before_it_was_evaluated_is_evaluated_by_another(
    server, url, unjudged, recording
):
    waits_long = {"session_idle_after": "5s"}
    dies, lives = (
        server(store={"url": url}, evaluation=unjudged, assemble=waits_long).start() for _ in "12"
    )
    for request in turns_of(recording, "left"):
        send(dies, request)
    dies.wait_until(lambda state: state["counters"].get("traces_finished", 0) == TURNS)
    dies.kill()
    found = wait_for_session(url, "left")
    assert lives.state()["leads"]
    assert any(x.scope == "session" for x in found)


@contextlib.contextmanager
def api(replica, stub):
    with grpc.insecure_channel(f"127.0.0.1:{replica.api}") as channel:
        yield stub(channel)


@pytest.fixture
def follower(replicas):
    return next(x for x in replicas if not x.state()["leads"])


def test_a_run_may_be_created_and_deleted_on_any_replica(follower, replicas, url, recording):
    for number, request in enumerate(turns_of(recording, "run")):
        send(replicas[number % REPLICAS], request)
    wait_for_session(url, "run")
    spec = pb.Run(measure=pb.RunMeasure(metrics=["coherence"]))
    with api(follower, RunServiceStub) as runs:
        run = runs.CreateRun(pb.CreateRunRequest(run=spec), timeout=DEADLINE_S)
        *_, last = runs.WatchRun(pb.WatchRunRequest(name=run.name), timeout=DEADLINE_S)
        runs.DeleteRun(pb.DeleteRunRequest(name=run.name), timeout=DEADLINE_S)
        left = runs.ListRuns(pb.ListRunsRequest(), timeout=DEADLINE_S).runs
    assert (last.state, last.progress.done, list(left)) == (pb.RUN_STATE_SUCCEEDED, TURNS, [])


def test_a_monitor_that_is_created_on_any_replica_ticks_on_the_one_that_leads(follower):
    monitor = monitor_pb.Monitor(
        schedule=monitor_pb.MonitorSchedule(every_s=10.0),
        watch=monitor_pb.MonitorWatch(metric="coherence", floor=0.5),
    )
    with api(follower, MonitorServiceStub) as monitors:
        made = monitors.CreateMonitor(
            monitor_pb.CreateMonitorRequest(monitor=monitor), timeout=DEADLINE_S
        )
        deadline = time.monotonic() + DEADLINE_S
        while not monitors.ListMonitorTicks(
            monitor_pb.ListMonitorTicksRequest(parent=made.name), timeout=DEADLINE_S
        ).ticks:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_replicas_together_keep_to_the_budget_of_one(server, url, recording):
    answer = ObligingModel(input_tokens=3000, output_tokens=200)
    with ScriptedServer(answer) as model:
        judge = {
            "model": "openai/scripted",
            "api_base": model.url,
            "api_key": "k",
            "try_at_start": False,
            "prices": {
                "openai/scripted": {
                    "input_usd_per_million_tokens": 10.0,
                    "output_usd_per_million_tokens": 50.0,
                }
            },
            "budget": {"max_usd": 1.0},
            "cache": {"enabled": False},
        }
        measured = {"default_metrics": False, "metrics": {"task_completion": {}}}
        replicas = [
            server(store={"url": url}, judge=judge, evaluation=measured).start()
            for _ in range(REPLICAS)
        ]
        for session in range(10):
            for number, request in enumerate(turns_of(recording, f"paid-{session}")):
                send(replicas[number % REPLICAS], request)
        finished = [2 * 10] * REPLICAS
        for replica, count in zip(replicas, finished, strict=True):
            replica.wait_until(lambda x, n=count: x["counters"].get("traces_finished", 0) >= n)
    spent_usd = len(model.calls) * (3000 * 10e-6 + 200 * 50e-6)
    assert 0.9 < spent_usd <= 1.0
