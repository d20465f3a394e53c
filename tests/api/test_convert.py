"""The messages hold the same facts as the JSON lines."""

from dataclasses import replace

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, strategies as st

from spanscore.api.convert import decode_score, decode_trace, encode_score, encode_trace
from spanscore.api.v1 import score_pb2
from spanscore.model.json import loads
from spanscore.model.score import (
    Annotation,
    Evaluation,
    Evaluator,
    Failure,
    JudgeUsage,
    Score,
    Skip,
)
from spanscore.model.span import with_headers
from spanscore.model.trace import (
    AgentTrace,
    Attachment,
    Expected,
    ExpectedTool,
    ModelCall,
    PastMessage,
    RequestedCall,
    Retrieval,
    Target,
    Tool,
    ToolCall,
    Trial,
    Usage,
)

_ids = st.text("0123456789abcdef", min_size=16, max_size=32)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_maybe = st.none() | _texts
_times = st.integers(0, 2**64 - 1)
_counts = st.none() | st.integers(0, 2**63 - 1)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=5,
)
_requested = st.lists(st.builds(RequestedCall, _maybe, _texts, _json), max_size=2).map(tuple)


def _tuples(of):
    return st.lists(of, max_size=2).map(tuple)


_targets = st.builds(
    Target,
    _ids,
    _ids,
    _times,
    _times,
    st.dictionaries(_texts, _texts, max_size=2),
    response_id=_maybe,
)
_traces = st.builds(
    AgentTrace,
    trace_ids=_tuples(_ids),
    root_span_id=st.none() | _ids,
    target=_targets,
    opening_span_id=_ids,
    started_ns=_times,
    ended_ns=_times,
    completeness=st.sampled_from(["complete", "idle", "truncated"]),
    session_id=_maybe,
    user_input=_maybe,
    final_output=_maybe,
    system_instructions=_maybe,
    available_tools=st.none() | _tuples(st.builds(Tool, _texts, _maybe, _json)),
    tool_calls=st.none()
    | _tuples(
        st.builds(
            ToolCall,
            _maybe,
            _texts,
            _json,
            _json,
            _maybe,
            st.none() | _ids,
            st.none() | _times,
            returned=st.booleans(),
        )
    ),
    model_calls=_tuples(
        st.builds(ModelCall, _ids, _maybe, _maybe, _maybe, _requested, _counts, _counts)
    ),
    history=st.none() | _tuples(st.builds(PastMessage, _texts, _maybe, _requested)),
    retrieved=_tuples(st.builds(Retrieval, _ids, _maybe, _tuples(_json))),
    plan=_maybe,
    damaged=_tuples(_texts),
    usage=st.builds(Usage, _counts, _counts),
    dialects=_tuples(_texts),
    unread_spans=st.integers(0, 2**32 - 1),
    trial=st.none() | st.builds(Trial, _maybe, _maybe, _maybe, _maybe),
    expected=st.none()
    | st.builds(
        Expected,
        answer=_maybe,
        tools=st.none()
        | _tuples(
            st.builds(
                ExpectedTool,
                _texts,
                st.none() | st.dictionaries(_texts, _json, max_size=2),
                st.none() | st.integers(0, 9),
            )
        ),
        outcomes=_tuples(_texts),
        in_order=st.none() | st.booleans(),
    ),
)

_TARGET = Target("a" * 32, "b" * 16, 1, 2)


def _trace(**facts):
    return AgentTrace(
        trace_ids=("a" * 32,),
        root_span_id="b" * 16,
        target=_TARGET,
        opening_span_id="b" * 16,
        started_ns=1,
        ended_ns=2,
        **facts,
    )


def _evaluation(outcome, **facts):
    return Evaluation(
        scope="trace",
        subject_id="c" * 32,
        metric="coherence",
        outcome=outcome,
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("CODE", "spanscore", "1", embedding="ngram-1"),
        target=_TARGET,
        session_id="session-42",
        **facts,
    )


@pytest.mark.slow
@given(_traces)
def test_a_trace_survives_the_way_there_and_back(trace):
    assert decode_trace(encode_trace(trace)) == trace


def test_headers_that_a_sender_sent_are_shown_to_nobody_who_reads_its_trace():
    resource = with_headers(
        {"service.name": "shop"}, ((":tenant", "acme"), ("x-api-key", "secret"))
    )
    message = encode_trace(replace(_trace(), target=replace(_TARGET, resource=resource)))
    assert loads(message.target.resource_json) == {"service.name": "shop"}


def test_a_trace_that_recorded_no_call_differs_from_one_that_recorded_none():
    assert encode_trace(_trace(tool_calls=())).HasField("tool_calls")
    assert not encode_trace(_trace(tool_calls=None)).HasField("tool_calls")


def test_lone_surrogates_do_not_keep_a_trace_from_being_sent():
    trace = _trace(user_input="\ud800 hello", tool_calls=(ToolCall(None, "x", {"city": "\ud800"}),))
    assert encode_trace(trace).user_input == "? hello"


def test_a_token_count_beyond_64_bits_is_cut_and_does_not_fail():
    assert encode_trace(_trace(usage=Usage(input_tokens=2**70))).usage.input_tokens == 2**63 - 1


def test_a_trace_message_has_every_fact_of_the_json_line():
    stated = {"trial": Trial(case="c"), "expected": Expected(answer="sunny")}
    stated |= {"error": "HTTP 400", "attachments": (Attachment("image", "image/png"),)}
    facts = set(_trace(**stated, session_id="s", session_key="other:s").to_json())
    fields = {field.name for field in encode_trace(_trace()).DESCRIPTOR.fields}
    # whether an empty history is one; the resource's name
    assert fields - facts == {"history_recorded", "name"}
    assert facts <= fields


def test_a_score_message_has_every_fact_of_the_json_line():
    facts = {
        name if name != "metadata" else "metadata_json"
        for name in _evaluation(Score(1.0, "")).to_json()
    }
    assert facts <= {field.name for field in score_pb2.Score.DESCRIPTOR.fields}


def test_a_score_is_encoded_with_its_metadata_as_json():
    message = encode_score(_evaluation(Score(0.75, "close", {"coherence_gap": 0.25}), revision=2))
    assert (message.value, message.label, message.revision) == (0.75, "pass", 2)
    assert loads(message.metadata_json) == {
        "coherence_gap": 0.25,
        "threshold": 0.5,
        "success": True,
    }


def test_a_skip_has_a_reason_and_neither_value_nor_error():
    message = MessageToDict(encode_score(_evaluation(Skip("no output was recorded"))))
    assert message["status"] == "STATUS_SKIPPED"
    assert message["reason"] == "no output was recorded"
    assert not {"value", "label", "error"} & set(message)


def test_a_failure_names_its_error_and_has_no_value():
    message = encode_score(_evaluation(Failure("JudgeTimeoutError", "no answer in 60 s")))
    assert message.error.type == "JudgeTimeoutError"
    assert not message.HasField("value")


def test_an_unknown_cost_is_not_zero():
    unknown = encode_score(_evaluation(Score(1.0, ""), usage=JudgeUsage(calls=1)))
    free = encode_score(_evaluation(Score(1.0, ""), usage=JudgeUsage(calls=1, cost_usd=0.0)))
    assert not unknown.usage.HasField("cost_usd")
    assert free.usage.HasField("cost_usd")


def test_a_score_message_says_how_long_the_agent_worked():
    evaluation = _evaluation(Score(1.0, ""))
    assert encode_score(evaluation).latency_s == evaluation.latency_s > 0
    assert not encode_score(replace(evaluation, scope="session")).HasField("latency_s")


def test_a_verdict_that_a_person_gave_is_there_after_it_was_sent():
    given = Evaluation(
        scope="trace",
        subject_id="t",
        metric="helpful",
        outcome=Annotation(1.0, None, "", {"form": "thumbs"}, passed=True),
        threshold=None,
        scale=None,
        evaluator=Evaluator("HUMAN", "human", "", source="human"),
        target=Target("a" * 32, "b" * 16, 0, 0, {}),
        session_id=None,
    )
    received = decode_score(encode_score(given))
    assert received.outcome == given.outcome
