"""The rubric on a running server: one evaluation for each criterion and one overall, in every form
that leaves.
"""

import json
import runpy
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from rubric_model import said
from scripted_server import ScriptedServer

pytestmark = pytest.mark.slow

LIVE = runpy.run_path(str(Path(__file__).parents[1] / "live" / "conftest.py"))
OWN = {
    "id": "kindness",
    "display_name": "Kindness",
    "description": "Was the agent kind?",
    "tier": "delivery",
    "weight": 0.5,
    "type": "scored",
    "rubric": {level: f"kind to the degree {level}" for level in range(6)},
}
RUBRIC = {"metrics": ["tool_routing", "kindness"], "criteria": [OWN], "pass_threshold": 85}
NAMES = {"rubric.tool_routing", "rubric.kindness", "rubric.overall"}
SESSIONS = 2


def worse(request):
    fault = {
        "justification": "[turn 1]",
        "turns": [1],
        "score": 1,
        "failure_code": "wrong_tool_selected",
    }
    return said(request, tool_routing=fault)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """What a server that a session's spans were sent to has written, and the requests that its
    judge got.
    """
    folder = tmp_path_factory.mktemp("rubric")
    with ScriptedServer(worse) as model:
        judge = {
            "model": "openai/gpt-4o-mini",
            "api_base": model.url,
            "api_key": "a-key",
            "try_at_start": False,
        }
        running = LIVE["RunningServer"](
            folder, judge=judge, evaluation={"default_metrics": False, "rubric": RUBRIC}
        ).start()
        request = LIVE["Recording"]("pydantic_ai/openai").traces
        with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
            TraceServiceStub(channel).Export(request, timeout=30)
        running.wait_until_finished(4)
        running.stop()
        return running, model.calls


def attributes(item):
    return {x["key"]: next(iter(x["value"].values())) for x in item["attributes"]}


def test_each_session_is_asked_about_once(scored):
    assert len(scored[1]) == SESSIONS


def test_each_criterion_and_the_whole_leave_as_spans(scored):
    found = [attributes(x)["gen_ai.evaluation.name"] for x in scored[0].exported("spans")]
    assert sorted(found) == sorted([*NAMES] * SESSIONS)


def test_the_labels_leave_as_they_are(scored):
    found = {
        (y["gen_ai.evaluation.name"], y["gen_ai.evaluation.score.label"])
        for y in map(attributes, scored[0].exported("spans"))
    }
    assert found == {
        ("rubric.tool_routing", "fail"),
        ("rubric.kindness", "good"),
        ("rubric.overall", "fail"),
    }


def test_events_leave_with_the_same_scores(scored):
    found = {attributes(x)["gen_ai.evaluation.name"] for x in scored[0].exported("logRecords")}
    assert found == NAMES


def test_the_histogram_has_the_values_as_shares_of_their_scale(scored):
    points = {}
    for line in scored[0].scores.read_text().splitlines():
        for group in json.loads(line).get("resourceMetrics", []):
            for metric in (x for scoped in group["scopeMetrics"] for x in scoped["metrics"]):
                for point in metric["histogram"]["dataPoints"]:
                    points[attributes(point)["gen_ai.evaluation.name"]] = point["sum"] / float(
                        point["count"]
                    )
    assert points == pytest.approx(
        {"rubric.tool_routing": 0.2, "rubric.kindness": 0.8, "rubric.overall": 0.661538}
    )
