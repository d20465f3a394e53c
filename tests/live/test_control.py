"""The control service of a running server: what it knows, and evaluating again."""

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from spanscore.api.v1 import control_service_pb2 as pb
from spanscore.api.v1.control_service_pb2_grpc import ControlServiceStub
from spanscore.api.v1.score_pb2 import STATUS_SKIPPED

pytestmark = pytest.mark.slow

TRACES = 4


@pytest.fixture(scope="module")
def scored(servers, recording, unjudged):
    """A server that has scored a recording, and its control service."""
    running = servers(evaluation=unjudged).start()
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        TraceServiceStub(channel).Export(recording("pydantic_ai/openai").traces)
    running.wait_until_finished(TRACES)
    with grpc.insecure_channel(f"127.0.0.1:{running.api}") as channel:
        yield running, ControlServiceStub(channel)


def test_a_rebuilt_trace_is_told_by_either_id(scored, recording):
    _, control = scored
    expected = recording("pydantic_ai/openai").expected[0]
    for trace_id in (expected["id"], expected["trace_ids"][0]):
        trace = control.GetTrace(pb.GetTraceRequest(trace_id=trace_id)).trace
        assert trace.user_input == expected["user_input"]


def test_scores_of_a_session_are_its_own_and_those_of_its_traces(scored, recording):
    _, control = scored
    session_id = recording("pydantic_ai/openai").expected[0]["session_id"]
    scores = control.ListScores(pb.ListScoresRequest(session_id=session_id)).scores
    assert len({(x.subject_id, x.metric) for x in scores}) == len(scores)
    assert {"coherence", "loop_detection", "agent_reliability"} <= {x.metric for x in scores}


def test_a_trace_evaluated_again_is_the_next_revision_and_leaves(scored, recording):
    running, control = scored
    trace_id = recording("pydantic_ai/openai").expected[0]["id"]
    request = pb.EvaluateRequest(trace_id=trace_id, metrics=["coherence"], threshold=0.99)
    (score,) = control.Evaluate(request).scores
    assert (score.metric, score.threshold, score.revision) == ("coherence", 0.99, 2)
    running.wait_until_finished(TRACES)
    revisions = [
        x
        for span in running.exported("spans")
        for x in span["attributes"]
        if x["key"] == "spanscore.revision"
    ]
    assert sum(x["value"]["intValue"] == "2" for x in revisions) == 1


def test_a_session_evaluated_again_takes_other_weights(scored, recording):
    _, control = scored
    session_id = recording("pydantic_ai/openai").expected[0]["session_id"]
    weights = {"coherence": 0.0, "loop_detection": 0.0, "confidence": 0.0, "tool_correctness": 0.0}
    request = pb.EvaluateRequest(
        session_id=session_id, metrics=["agent_reliability"], signal_weights=weights
    )
    (score,) = control.Evaluate(request).scores
    # nothing of weight is left to rest on
    assert (score.status, score.skip_cause) == (STATUS_SKIPPED, "no_signals")
