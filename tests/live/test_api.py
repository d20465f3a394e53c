"""The services of a running server: what they know, and evaluating again."""

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from spanscore import Client
from spanscore.api.v1.score_pb2 import STATUS_SKIPPED

pytestmark = pytest.mark.slow

TRACES = 4


@pytest.fixture(scope="module")
def scored(servers, recording, unjudged):
    """A server that has scored a recording, and a client of it."""
    running = servers(evaluation=unjudged).start()
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        TraceServiceStub(channel).Export(recording("pydantic_ai/openai").traces)
    running.wait_until_finished(TRACES)
    with Client(f"127.0.0.1:{running.api}") as client:
        yield running, client


def test_a_rebuilt_trace_is_told_by_either_id(scored, recording):
    _, client = scored
    expected = recording("pydantic_ai/openai").expected[0]
    for trace_id in (expected["id"], expected["trace_ids"][0]):
        trace = client.traces.get(trace_id)
        assert trace.user_input == expected["user_input"]


def test_scores_of_a_session_are_its_own_and_those_of_its_traces(scored, recording):
    _, client = scored
    session_id = recording("pydantic_ai/openai").expected[0]["session_id"]
    scores = list(client.scores.list(session_id=session_id))
    assert len({(x.subject_id, x.metric) for x in scores}) == len(scores)
    assert {"coherence", "loop_detection", "agent_reliability"} <= {x.metric for x in scores}


def test_a_trace_evaluated_again_is_the_next_revision_and_leaves(scored, recording):
    running, client = scored
    trace_id = recording("pydantic_ai/openai").expected[0]["id"]
    (score,) = client.traces.evaluate(trace_id, metrics=["coherence"], threshold=0.99)
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
    _, client = scored
    session_id = recording("pydantic_ai/openai").expected[0]["session_id"]
    weights = {"coherence": 0.0, "loop_detection": 0.0, "confidence": 0.0, "tool_correctness": 0.0}
    (score,) = client.sessions.evaluate(
        session_id, metrics=["agent_reliability"], signal_weights=weights
    )
    # nothing of weight is left to rest on
    assert (score.status, score.skip_cause) == (STATUS_SKIPPED, "no_signals")
