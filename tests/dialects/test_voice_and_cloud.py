"""What LiveKit, Bedrock, Strands and AWS's distribution emit, in forms their recordings do not
cover.
"""

import json

import pytest

from spanscore import dialects
from spanscore.model.span import Event, LogRecord, Resource, Scope, Span
from spanscore.rebuild import rebuild

LIVEKIT, STRANDS = "livekit-agents", "strands.telemetry.tracer"
BEDROCK = "opentelemetry.instrumentation.botocore.bedrock-runtime"


def read(attributes, *, scope="", name="span", logs=(), events=()):
    span = Span("t", "1", "", name, 1, 1, 2, 0, "", attributes, Resource(), Scope(scope), events)
    (step,) = dialects.read([span], logs).steps
    return step


def logged(body, *, scope, event_name=""):
    return LogRecord("t", "1", 1, event_name, body, {}, Resource(), Scope(scope))


@pytest.mark.parametrize("prefix", ["lk.", "lk.pii."])
def test_what_a_livekit_agent_was_asked_and_answered_is_text(prefix):
    step = read(
        {prefix + "user_input": "0", prefix + "response.text": "Yes."},
        scope=LIVEKIT,
        name="agent_turn",
    )
    assert (step.kind, step.input_text, step.output_text) == ("agent", "0", "Yes.")


def test_livekits_node_tells_the_call_where_no_request_does():
    items = [
        {"type": "message", "role": "user", "content": ["Where?"]},
        {"type": "agent_config_update", "id": "x"},
    ]
    calls = [{"id": "item_1/fnc_0", "call_id": "c1", "name": "track", "arguments": '{"n": 1}'}]
    given = {
        "lk.chat_ctx": json.dumps({"items": items}),
        "lk.response.function_calls": json.dumps(calls),
    }
    step = read(given, scope=LIVEKIT, name="llm_node")
    assert [x.text for x in step.input] == ["Where?"]
    assert [(x.call_id, x.arguments) for m in step.output for x in m.calls] == [("c1", {"n": 1})]


@pytest.mark.parametrize(
    ("printed", "value"), [("{'a': None}", {"a": None}), ("False", False), ("00042", "00042")]
)
def test_livekit_prints_results_as_python_does(printed, value):
    assert (
        read({"lk.function_tool.output": printed}, scope=LIVEKIT, name="function_tool").result
        == value
    )


def test_what_livekit_told_the_model_counts_and_not_what_it_made_of_it():
    told = {"lk.pii.function_tool.output": "0.10", "gen_ai.tool.call.result": "0.1"}
    assert read(told, scope=LIVEKIT, name="function_tool").result == "0.10"


def test_livekit_says_which_tool_failed():
    failed = {"lk.function_tool.output": "no such parcel", "lk.function_tool.is_error": True}
    assert read(failed, scope=LIVEKIT, name="function_tool").error == "no such parcel"


def test_what_a_livekit_agent_says_beside_tool_calls_is_not_its_answer():
    planned = "1. I look up the parcel.\n2. I call you."
    calls = json.dumps([{"call_id": "c1", "name": "track", "arguments": "{}"}])

    def told(span_id, parent, name, at, **attributes):
        attributes = {"lk." + key.replace("__", "."): value for key, value in attributes.items()}
        return Span(
            "t", span_id, parent, name, 1, at, at + 1, 0, "", attributes, Resource(), Scope(LIVEKIT)
        )

    spans = [  # until version 1.4 each of an agent's turns lies in the one before
        told("1", "", "agent_turn", 1, user_input="Where?", response__text=planned),
        told("2", "1", "llm_node", 2, response__text=planned, response__function_calls=calls),
        told("3", "1", "agent_turn", 4, response__text="In Oslo."),
        told("4", "3", "llm_node", 5, response__text="In Oslo.", response__function_calls="[]"),
    ]
    (trace,) = rebuild(spans)
    assert (trace.user_input, trace.plan, trace.final_output) == ("Where?", planned, "In Oslo.")


def test_livekits_realtime_inference_is_the_model_call():
    told = {"gen_ai.operation.name": "generate_content", "gen_ai.usage.input_tokens": 7}
    step = read(told, scope=LIVEKIT, name="realtime_inference")
    assert (step.kind, step.input_tokens) == ("model", 7)


def test_livekits_own_bookkeeping_is_none_of_the_agents_work():
    assert (
        read({"gen_ai.request.model": "m"}, scope=LIVEKIT, name="llm_request_run").kind == "other"
    )


def test_bedrocks_result_that_is_told_twice_is_one():
    block = {"toolResult": {"toolUseId": "t1", "content": [{"json": {"content": 1}}]}}
    logs = [
        logged(
            {"id": "t1", "content": [{"json": {"content": 1}}]},
            scope=BEDROCK,
            event_name="gen_ai.tool.message",
        ),
        logged({"content": [block]}, scope=BEDROCK, event_name="gen_ai.user.message"),
    ]
    step = read({"gen_ai.operation.name": "chat"}, scope=BEDROCK, logs=logs)
    assert [x.value for m in step.input for x in m.results] == [{"content": 1}]


def strands_tool(*blocks):
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "track"}
    event = Event("gen_ai.choice", 1, {"message": json.dumps(blocks)})
    return read(attributes, scope=STRANDS, events=[event]).result


@pytest.mark.parametrize(
    ("blocks", "value"),
    [
        ([{"text": "{'a': True}"}], {"a": True}),
        ([{"json": {"text": "whole"}}], {"text": "whole"}),
        ([{"text": "one"}, {"text": "two"}], "one\ntwo"),
        ([{"text": "one", "cost": 2}], [{"text": "one", "cost": 2}]),
    ],
)
def test_strands_blocks_are_opened_and_nothing_else(blocks, value):
    assert strands_tool(*blocks) == value


def test_a_swarms_question_is_what_the_swarm_was_asked():
    event = Event("gen_ai.user.message", 1, {"content": "Where?"})
    step = read({"gen_ai.operation.name": "invoke_swarm"}, scope=STRANDS, events=[event])
    assert (step.kind, step.input_text) == ("workflow", "Where?")


def test_content_that_awss_distribution_moved_to_a_log_record_is_read():
    given = [{"role": "user", "content": {"content": '[{"text": "Where?"}]'}}]
    answered = [
        {
            "role": "assistant",
            "content": {"message": '[{"text": "There."}]', "finish_reason": "end_turn"},
        }
    ]
    body = {"input": {"messages": given}, "output": {"messages": answered}}
    step = read(
        {"gen_ai.operation.name": "chat"},
        scope=STRANDS,
        logs=[logged(body, scope=STRANDS, event_name=STRANDS)],
    )
    assert ([x.text for x in step.input], [x.text for x in step.output]) == (["Where?"], ["There."])


def test_attributes_that_were_moved_come_back_as_what_they_were():
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Where?"}]}])
    given = [
        {"role": "system", "content": '[{"type": "text", "content": "Be brief."}]'},
        {"role": "user", "content": said},
    ]
    logs = [logged({"input": {"messages": given}}, scope=STRANDS, event_name=STRANDS)]
    step = read({"gen_ai.operation.name": "chat"}, scope=STRANDS, logs=logs)
    assert (step.system, [x.text for x in step.input]) == ("Be brief.", ["Where?"])
