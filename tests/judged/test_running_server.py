"""A running server whose judge is a model: it is never in the way of spans, and its answers outlive
a crash.
"""

import contextlib
import json
import sqlite3
import threading
import time

import grpc
import pytest
from judged_harness import STAGES, STAGEWISE
from obliging_model import ObligingModel, asked_for, question_of
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from scripted_server import ScriptedServer, refusal

pytestmark = pytest.mark.slow

TRACES, SESSIONS = 4, 2
DEADLINE_S = 60


class Gate:
    """A model that answers its first `free` calls, and the others once `open` is set."""

    def __init__(self, free):
        self.open = threading.Event()
        self._free = free
        self._lock = threading.Lock()
        self._model = ObligingModel(verdict="no")

    def __call__(self, request):
        with self._lock:
            self._free -= 1
            waits = self._free < 0
        if waits:
            self.open.wait(DEADLINE_S)
        return self._model(request)


@pytest.fixture
def gated():
    """A server before a Gate that lets `free` calls pass; the gate is opened at the end."""
    with contextlib.ExitStack() as opened:

        def make(free):
            gate = Gate(free)
            model = opened.enter_context(ScriptedServer(gate))
            opened.callback(gate.open.set)
            return gate, model

        yield make


def judged_by(model, **settings):
    """The server's settings for a judge at `model`."""
    return {
        "model": "openai/gpt-4o-mini",
        "api_base": model.url,
        "api_key": "a-key",
        "try_at_start": False,
        **settings,
    }


def export(running, request):
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        TraceServiceStub(channel).Export(request, timeout=30)


def answers_kept(running):
    with sqlite3.connect(f"file:{running.folder}/store.db?mode=ro", uri=True) as store:
        return store.execute("SELECT count(*) FROM judge_answers").fetchone()[0]


def entries(call):
    """How many answers are kept of one call: all of it, and where it asked several questions each
    by itself.
    """
    questions = asked_for(call)
    return 1 if len(questions) == 1 or questions == {"reason", "score"} else 1 + len(questions)


def wait_for(holds):
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def attributes(span):
    return {x["key"]: next(iter(x["value"].values())) for x in span["attributes"]}


def test_a_silent_judge_delays_neither_spans_nor_stopping(server, recording, gated):
    _, model = gated(free=0)
    running = server(judge=judged_by(model, plan="fused"), shutdown_timeout="1s").start()
    export(running, recording("pydantic_ai/openai").traces)
    wait_for(lambda: model.calls)
    # returns when they are acknowledged
    export(running, recording("openinference/langgraph").traces)
    assert running.stop() == 0


def test_a_session_whose_judge_is_silent_keeps_no_other_session_waiting(server, recording):
    of_conversations = {"outcome", "reason", "score", "task"}
    obliging, answers, first = ObligingModel(), threading.Event(), threading.Lock()

    def silent_for_one_session(request):
        if asked_for(request) == of_conversations and first.acquire(blocking=False):
            answers.wait()
        return obliging(request)

    with ScriptedServer(silent_for_one_session) as model, contextlib.ExitStack() as stack:
        stack.callback(answers.set)
        running = server(judge=judged_by(model, timeout="500s")).start()
        export(running, recording("pydantic_ai/openai").traces)
        running.wait_until(lambda state: state["counters"].get("sessions_evaluated", 0) == 1)
        answers.set()
        running.wait_until_finished(TRACES)
        assert running.stop() == 0
    judged = [x for x in running.committed().values() if x.metric == "conversation_completion"]
    assert [x.status for x in judged] == ["scored"] * SESSIONS


def test_a_kill_while_judging_scores_once_and_pays_once(server, recording, gated):
    free = 3
    gate, model = gated(free)
    running = server(judge=judged_by(model, max_concurrent=1, **STAGEWISE)).start()
    export(running, recording("pydantic_ai/openai").traces)
    wait_for(
        lambda: (
            len(model.calls) > free
            and answers_kept(running) == sum(map(entries, model.calls[:free]))
        )
    )
    running.kill()
    before = len(model.calls)
    gate.open.set()
    running.start()
    running.wait_until_finished(TRACES)
    running.stop()
    spans = running.exported("spans")
    judged = [
        (x["traceId"], name)
        for x in spans
        if (name := attributes(x)["gen_ai.evaluation.name"]) in STAGES
    ]
    assert len(set(judged)) == len(judged) == TRACES * len(STAGES)
    answered = {question_of(call) for call in model.calls[:free]}
    assert answered.isdisjoint(question_of(call) for call in model.calls[before:])
    paid = sum(int(attributes(span).get("spanscore.judge.calls", 0)) for span in spans)
    assert paid == len(model.calls) - before


def test_what_a_wrong_key_cost_is_made_up_for_after_a_restart_with_the_right_one(server, recording):
    works = threading.Event()
    obliging = ObligingModel(verdict="no", right=True)
    with ScriptedServer(
        lambda request: obliging(request) if works.is_set() else refusal(401, "wrong key")
    ) as model:
        running = server(judge=judged_by(model, try_at_start=True)).start()
        running.wait_until(lambda state: "wrong key" in state.get("notice", ""))
        export(running, recording("pydantic_ai/openai").traces)
        running.wait_until_finished(TRACES)
        assert running.stop() == 0
        failed = sum(
            x.status == "failed" and x.scope == "trace" for x in running.committed().values()
        )
        works.set()
        running.start()
        running.wait_until(
            lambda state: state["counters"].get("evaluations_asked_again", 0) >= failed
        )
        running.wait_until(lambda state: state["counters"].get("sessions_evaluated", 0) >= SESSIONS)
        assert "notice" not in running.state()
        running.stop()
    log = [json.loads(line) for line in (running.folder / "log").read_text().splitlines()]
    assert [x["level"] for x in log if "the judge gives no answer" in x["msg"]] == ["error"]
    newest = {(x.subject_id, x.metric): x for x in running.committed().values()}
    assert {x.status for x in newest.values()} == {"scored"}
    assert sum(x.revision == 2 and x.metric in STAGES for x in newest.values()) == failed > 0
