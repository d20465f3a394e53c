"""Scores filed with the real Phoenix and MLflow, by a real server: each once, whatever stops and
starts again.
"""

import asyncio
import secrets
import time

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.cli import demo
from spanscore.cli.one_run import Backend

pytestmark = pytest.mark.ui

METRICS = ["coherence"]
ONLY = {"default_metrics": False, "metrics": {x: {} for x in METRICS}}
QUICK = {"initial_interval": "500ms", "max_interval": "2s"}


@pytest.fixture(params=["phoenix", "mlflow"])
def running(request, tools):
    return tools(request.param)


@pytest.fixture
def scoring(server, running):
    """A server that files with the tool and sends nothing by OTLP."""
    exporters = {name: {**sink, "retry_on_failure": QUICK} for name, sink in running.sink.items()}
    return server(
        export={"exporters": exporters},
        evaluation={
            "default_metrics": False,
            "metrics": {x: {} for x in [*METRICS, "agent_reliability"]},
            "signal_weights": {"coherence": 0},
        },
    )


def recorded(turns=1, session_id=None):
    """So many turns of the demo's agent, each a request of its own, in a session of their own."""
    (whole,) = demo.recorded_requests(demo.recordings() / "pydantic-ai", time.time_ns())
    session_id = session_id or f"session-{secrets.token_hex(4)}"
    traces = {}
    for group in whole.resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                request = traces.setdefault(span.trace_id, ExportTraceServiceRequest())
                alone = request.resource_spans.add(resource=group.resource)
                for attribute in span.attributes:
                    if attribute.key in {"gen_ai.conversation.id", "session.id"}:
                        attribute.value.string_value = session_id
                alone.scope_spans.add(scope=scoped.scope, spans=[span])
    return session_id, list(traces.values())[:turns]


def send(request, *destinations):
    for destination in destinations:
        assert any(asyncio.run(demo.send([request], destination)) for _ in range(3))


def receiver(scoring):
    return Backend(
        f"http://127.0.0.1:{scoring.grpc}",
        "127.0.0.1",
        scoring.grpc,
        "grpc",
        secure=False,
        headers={},
    )


def by_name(filed, place):
    """Which scores there are in a place, by their names; none is there twice."""
    found = sorted((x.name, x.value) for x in filed if x.place == place)
    assert len({name for name, _ in found}) == len(found), found
    return dict(found)


def test_a_traces_scores_are_filed_with_their_values(running, scoring, spans_of, until):
    scoring.start()
    _, (turn,) = recorded()
    send(turn, running.tool.backend, receiver(scoring))
    until(lambda: len(by_name(running.tool.filed(spans_of(turn)), "trace")) == len(METRICS))
    committed = {x.metric: x.value for x in scoring.committed().values() if x.scope == "trace"}
    assert by_name(running.tool.filed(spans_of(turn)), "trace") == committed


def test_phoenix_has_them_on_the_span_too(tools, server, spans_of, until):
    phoenix = tools("phoenix")
    scoring = server(export={"exporters": phoenix.sink}, evaluation=ONLY).start()
    _, (turn,) = recorded()
    send(turn, phoenix.tool.backend, receiver(scoring))
    until(lambda: len(by_name(phoenix.tool.filed(spans_of(turn)), "span")) == len(METRICS))


def test_a_sessions_score_is_replaced_when_it_goes_on(running, scoring, spans_of, until):
    scoring.start()
    session_id, turns = recorded(2)
    spans = [span for turn in turns for span in spans_of(turn)]

    def revisions():
        found = [x for x in running.tool.filed(spans, session_id) if x.place == "session"]
        assert len(found) <= 1, found
        return [x.revision for x in found]

    send(turns[0], running.tool.backend, receiver(scoring))
    until(lambda: revisions() == [1])
    send(turns[1], running.tool.backend, receiver(scoring))
    until(lambda: revisions() == [2])


def test_a_traces_score_is_replaced_by_its_next_revision(running, scoring, spans_of, until):
    scoring.start()
    _, (turn,) = recorded()
    whole = spans_of(turn)
    late = next(
        x for x in turn.resource_spans if x.scope_spans[0].spans[0].name.startswith("execute_tool")
    )
    early, rest = ExportTraceServiceRequest(), ExportTraceServiceRequest(resource_spans=[late])
    early.resource_spans.extend(x for x in turn.resource_spans if x is not late)

    def revisions():
        found = [x for x in running.tool.filed(whole) if x.place == "trace"]
        by_name(found, "trace")
        return {x.revision for x in found}

    send(early, running.tool.backend, receiver(scoring))
    until(lambda: revisions() == {1})
    send(rest, running.tool.backend, receiver(scoring))
    until(lambda: 2 in revisions())


def test_a_score_waits_for_its_span_and_holds_up_no_other(running, scoring, spans_of, until):
    scoring.start()
    (_, (absent,)), (_, (there,)) = recorded(), recorded()
    send(absent, receiver(scoring))
    until(lambda: scoring.state()["scores_to_export"][running.name] >= len(METRICS))
    send(there, running.tool.backend, receiver(scoring))
    until(lambda: len(by_name(running.tool.filed(spans_of(there)), "trace")) == len(METRICS))
    assert not running.tool.filed(spans_of(absent))
    send(absent, running.tool.backend)
    until(lambda: len(by_name(running.tool.filed(spans_of(absent)), "trace")) == len(METRICS))
    until(lambda: not scoring.state()["scores_to_export"][running.name])


def test_what_was_filed_before_a_kill_is_not_there_twice_after_it(
    running, scoring, spans_of, until
):
    scoring.start()
    (_, (absent,)), (_, (there,)) = recorded(), recorded()
    # waits, so that the place in the outbox stays before what follows
    send(absent, receiver(scoring))
    until(lambda: scoring.state()["scores_to_export"][running.name] >= len(METRICS))
    send(there, running.tool.backend, receiver(scoring))
    until(lambda: len(by_name(running.tool.filed(spans_of(there)), "trace")) == len(METRICS))
    scoring.kill()
    send(absent, running.tool.backend)
    scoring.start()
    until(lambda: len(by_name(running.tool.filed(spans_of(absent)), "trace")) == len(METRICS))
    until(lambda: not scoring.state()["scores_to_export"][running.name])
    assert len(by_name(running.tool.filed(spans_of(there)), "trace")) == len(METRICS)


def test_a_tool_that_was_down_gets_its_scores_when_it_is_back(running, scoring, spans_of, until):
    scoring.start()
    _, (turn,) = recorded()
    (trace_id,) = {x.trace_id for x in spans_of(turn)}
    send(turn, running.tool.backend)
    until(lambda: running.has(trace_id))
    running.stop()
    send(turn, receiver(scoring))
    until(lambda: scoring.state()["scores_to_export"][running.name] >= len(METRICS))
    running.start()
    until(lambda: len(by_name(running.tool.filed(spans_of(turn)), "trace")) == len(METRICS))


def test_a_backend_without_logs_and_metrics_gets_its_spans_and_that_is_said_once(
    tools, server, spans_of, until
):
    phoenix = tools("phoenix")
    exporters = {"otlp_http": {"endpoint": phoenix.tool.address}}
    scoring = server(export={"exporters": exporters}, evaluation=ONLY).start()
    for count in (1, 2):
        _, (turn,) = recorded()
        send(turn, phoenix.tool.backend, receiver(scoring))
        scoring.wait_until_finished(count)
        (trace_id,) = {x.trace_id for x in spans_of(turn)}
        spans = len(spans_of(turn)) + len(METRICS)
        until(lambda one=trace_id, spans=spans: phoenix.tool.number_of_spans(one) == spans)
    log = (scoring.folder / "log").read_text()
    assert [log.count(f"otlp_http: {x}: not supported there") for x in ("logs", "metrics")] == [
        1,
        1,
    ]
