"""Agent Framework and Semantic Kernel, in the forms that their recordings do not cover."""

import json
from functools import partial

import one_span

from spanscore import dialects
from spanscore.model.span import Event
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall
from spanscore.rebuild import rebuild

SCOPE = "agent_framework"

span, read = partial(one_span.span, scope=SCOPE), partial(one_span.read, scope=SCOPE)


def tool(result):
    return read(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "f",
            "gen_ai.tool.call.result": result,
        }
    )


def test_the_address_of_an_object_is_no_result():
    assert not tool("[<agent_framework._types.Content object at 0x7f54a68a3890>]").has_result


def test_text_with_an_address_in_it_is_a_result():
    assert tool("<X object at 0x7f> was freed").result == "<X object at 0x7f> was freed"


def test_what_a_workflow_passes_on_is_no_agent_trace():
    assert (
        rebuild([span({}, name="workflow.build"), span({}, name="message.send", span_id="2")]) == []
    )


def test_the_kernels_loop_is_read_and_is_no_step_of_the_agent():
    attributes = {"sk.available_functions": "shop-f"}
    assert (
        read(attributes, scope="semantic_kernel.connectors.ai.chat_completion_client_base").kind
        == "other"
    )


def test_what_the_kernels_runtime_hands_on_is_read_and_is_no_agent_trace():
    sent = span(
        {"messaging.operation": "publish"},
        scope="agent_runtime InProcessRuntime",
        name="agent_runtime publish",
    )
    assert ([x.kind for x in dialects.read([sent]).steps], rebuild([sent])) == (["other"], [])


def test_an_agent_that_is_given_only_its_thread_was_not_given_nothing():
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": "[]"}
    assert (
        read(attributes, scope="semantic_kernel.utils.telemetry.agent_diagnostics.decorators").input
        is None
    )


def event(name, **content):
    return Event(name, 1, {"gen_ai.event.content": json.dumps(content)})


def test_dotnets_messages_are_json_in_an_attribute_of_their_events():
    call = {"id": "c1", "type": "function", "function": {"name": "shop-f", "arguments": {"x": 1}}}
    events = [
        event("gen_ai.system.message", role="system", content="Be brief."),
        event("gen_ai.user.message", role="user", content='{"x": 1}'),
        event("gen_ai.assistant.message", role="assistant", tool_calls=[call]),
        event("gen_ai.tool.message", role="tool", content="0", id="c1"),
        event(
            "gen_ai.choice",
            index=0,
            message={"content": "Zero.", "role": "assistant"},
            finish_reason="Stop",
        ),
    ]
    step = read(
        {"gen_ai.operation.name": "chat"},
        scope="Microsoft.SemanticKernel.Diagnostics",
        events=events,
    )
    assert (step.input, step.output) == (
        (
            Message("system", "Be brief."),
            Message("user", '{"x": 1}'),
            Message("assistant", calls=(RequestedCall("c1", "shop-f", {"x": 1}),)),
            Message("tool", results=(ToolResult("c1", 0),)),
        ),
        (Message("assistant", "Zero."),),
    )


def test_a_response_that_a_call_goes_on_from_is_no_session():
    called = {"gen_ai.operation.name": "chat"}
    ids = [
        read(called | {"gen_ai.conversation.id": x}).session_id for x in ("resp_68f1", "conv_68f1")
    ]
    assert ids == [None, "conv_68f1"]
