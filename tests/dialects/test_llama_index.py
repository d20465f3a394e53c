"""LlamaIndex's envelopes and events, in the forms that its recordings do not cover."""

import json
from functools import partial

import one_span
import pytest

from spanscore.model.span import Event
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool
from spanscore.rebuild import rebuild

SCOPE = "llamaindex.opentelemetry.tracer"
OPENINFERENCE = "openinference.instrumentation.llama_index"
OPENLLMETRY = "opentelemetry.instrumentation.llamaindex"

read = partial(one_span.read, scope=SCOPE)


def tool_output(value, *, failed=False, **more):
    raw = {"args": [], "kwargs": {"x": 1}}
    return {"tool_name": "f", "raw_input": raw, "raw_output": value, "is_error": failed} | more


def event(name, **attributes):
    return Event(name, 1, attributes)


@pytest.mark.parametrize("value", [0, False, None, "", [], "00042", {"result": None}])
def test_a_tools_raw_output_is_its_result_whatever_it_is(value):
    attributes = {"openinference.span.kind": "TOOL", "output.value": json.dumps(tool_output(value))}
    step = read(attributes, scope=OPENINFERENCE)
    assert (step.result, step.has_result, step.error) == (value, True, None)


def test_a_failed_tool_tells_its_error_in_its_text():
    output = tool_output(
        {}, failed=True, blocks=[{"block_type": "text", "text": "Error: no such file"}]
    )
    step = read(
        {"openinference.span.kind": "TOOL", "output.value": json.dumps(output)}, scope=OPENINFERENCE
    )
    assert (step.result, step.error) == ("Error: no such file", "Error: no such file")


def test_a_tool_that_failed_without_a_text_has_failed():
    output = tool_output({}, failed=True, blocks=[{"block_type": "text", "text": ""}])
    step = read(
        {"openinference.span.kind": "TOOL", "output.value": json.dumps(output)}, scope=OPENINFERENCE
    )
    assert (step.result, step.error) == ("", "error")


def test_an_object_of_the_tools_own_with_some_of_the_same_keys_stays_whole():
    own = {"tool_name": "drill", "content": "18 V"}
    step = read(
        {"openinference.span.kind": "TOOL", "output.value": json.dumps(own)}, scope=OPENINFERENCE
    )
    assert step.result == own


def test_the_step_that_prepares_a_chat_is_no_model_call():
    assert (
        read(
            {"openinference.span.kind": "LLM"},
            name="OpenAI._prepare_chat_with_tools",
            scope=OPENINFERENCE,
        ).kind
        == "other"
    )


def test_a_round_of_an_agent_is_named_by_the_event_that_it_was_given():
    given = json.dumps({"ev": "AgentSetup(input=[], current_agent_name='clerk')"})
    attributes = {"openinference.span.kind": "CHAIN", "input.value": given}
    step = read(attributes, name="AgentWorkflow.run_agent_step", scope=OPENINFERENCE)
    assert (step.kind, step.agent_name) == ("agent", "clerk")


def test_a_request_that_is_printed_as_python_prints_objects_is_not_taken_for_messages():
    given = json.dumps({"messages": ["ChatMessage(role=<MessageRole.USER: 'user'>)"]})
    assert (
        read({"openinference.span.kind": "LLM", "input.value": given}, scope=OPENINFERENCE).input
        is None
    )


def test_openllmetrys_task_with_a_tool_is_its_call():
    output = json.dumps({"tool_id": "c1", "tool_output": tool_output("[1]")})
    attributes = {"traceloop.span.kind": "task", "tool.name": "f", "tool.arguments": '{"x": 1}'}
    step = read(attributes | {"traceloop.entity.output": output}, scope=OPENLLMETRY)
    assert (step.kind, step.call_id, step.arguments, step.result) == ("tool", "c1", {"x": 1}, [1])


def test_openllmetrys_task_that_returns_a_tools_output_is_its_call():
    attributes = {
        "traceloop.span.kind": "task",
        "traceloop.entity.output": json.dumps(tool_output(0)),
    }
    step = read(attributes, scope=OPENLLMETRY)
    assert (step.kind, step.tool_name, step.arguments, step.result) == ("tool", "f", {"x": 1}, 0)


def test_openllmetrys_last_task_holds_the_answer_and_only_the_name_of_the_last_agent():
    response = {"role": "assistant", "blocks": [{"block_type": "text", "text": "There."}]}
    output = json.dumps({"result": {"response": response, "current_agent_name": "clerk"}})
    step = read(
        {"traceloop.span.kind": "task", "traceloop.entity.output": output}, scope=OPENLLMETRY
    )
    assert (step.output, step.agent_name) == ((Message("assistant", "There."),), None)


def test_openllmetrys_task_that_ends_with_an_agents_response_is_a_round_of_that_agent():
    output = json.dumps(
        {"response": {"role": "assistant", "blocks": []}, "current_agent_name": "clerk"}
    )
    step = read(
        {"traceloop.span.kind": "task", "traceloop.entity.output": output}, scope=OPENLLMETRY
    )
    assert (step.kind, step.agent_name, step.output_text) == ("agent", "clerk", None)


def test_openllmetrys_task_of_a_call_tells_it_before_it_had_attributes_for_it():
    told = {"blocks": [{"block_type": "text", "text": "No such x."}]}
    failed = tool_output("No such x.", failed=True, **told)
    output = {"tool_name": "f", "tool_kwargs": {"x": "007"}, "tool_id": "c1", "tool_output": failed}
    attributes = {
        "traceloop.span.kind": "task",
        "traceloop.entity.output": json.dumps(json.dumps(output)),
    }
    step = read(attributes, scope=OPENLLMETRY)
    assert (step.tool_name, step.arguments, step.call_id, step.error) == (
        "f",
        {"x": "007"},
        "c1",
        "No such x.",
    )


def test_a_tool_that_failed_inside_the_step_that_caught_it_has_failed():
    called = {
        "llamaindex.step.input_summary": (
            "ToolCall(tool_name='f', tool_kwargs={'x': '007'}, tool_id='c1')"
        )
    }
    raised = event("exception", **{"exception.message": "No such x."})
    (trace,) = rebuild(
        [
            one_span.span({}, scope=SCOPE, name="FunctionAgent.run_agent_step", span_id="0"),
            one_span.span(called, scope=SCOPE, name="FunctionAgent.call_tool", span_id="1"),
            one_span.span(
                called,
                scope=SCOPE,
                name="FunctionTool.acall",
                span_id="2",
                parent="1",
                events=[raised],
                status=2,
            ),
        ]
    )
    assert [(x.name, x.arguments, x.error) for x in trace.tool_calls] == [
        ("f", {"x": "007"}, "No such x.")
    ]


def test_a_react_agents_calls_are_read_where_the_providers_client_is_instrumented():
    rules = (
        "> Tool Name: f\nTool Description: Do.\nTool Args: {}\n\nAction: f\nAction Input:"
        " {}\nObservation: x"
    )
    asked = "Thought: I look.\nAction: f\nAction Input: {}"
    said = [("system", rules), ("user", "Where?"), ("assistant", asked), ("user", "Observation: 0")]
    given = [{"role": role, "parts": [{"type": "text", "content": words}]} for role, words in said]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(given)}
    step = one_span.read(attributes, scope="opentelemetry.instrumentation.openai.v1")
    assert step.input[2:] == (
        Message("assistant", "I look.", None, (RequestedCall(None, "f", {}),)),
        Message("tool", results=(ToolResult(None, 0),)),
    )


def test_a_chat_is_told_by_its_start_and_its_end():
    said = [
        {
            "role": "assistant",
            "blocks": [{"block_type": "tool_call", "tool_call_id": "c1", "tool_name": "f"}],
        },
        {
            "role": "tool",
            "blocks": [{"block_type": "text", "text": "0"}],
            "additional_kwargs": {"tool_call_id": "c1"},
        },
    ]
    begun = event("LLMChatStartEvent", messages=json.dumps(said))
    ended = {
        "response.message.role": "assistant",
        "response.message.blocks": '[{"block_type": "text", "text": "Hi."}]',
    }
    step = read(
        {},
        events=[
            begun,
            event("LLMChatEndEvent", **ended, **{"response.raw.usage.prompt_tokens": 7}),
        ],
    )
    assert (step.input, step.output, step.input_tokens) == (
        (
            Message("assistant", calls=(RequestedCall("c1", "f"),)),
            Message("tool", results=(ToolResult("c1", 0),)),
        ),
        (Message("assistant", "Hi."),),
        7,
    )


def test_a_streamed_chat_tells_only_what_it_was_given():
    step = read(
        {}, events=[event("LLMChatStartEvent", messages='[{"role": "user", "content": "Hi."}]')]
    )
    assert (step.kind, step.input, step.output) == ("model", (Message("user", "Hi."),), None)


def test_a_printed_call_is_read_where_it_is_whole():
    printed = "ToolCall(tool_name='f', tool_kwargs={'x': \"it's, tool_id='no')\"}, tool_id='c1')"
    step = read({"llamaindex.step.input_summary": printed}, name="FunctionAgent.call_tool")
    assert (step.tool_name, step.arguments, step.call_id) == (
        "f",
        {"x": "it's, tool_id='no')"},
        "c1",
    )


def test_of_a_printed_call_that_was_cut_only_the_name_is_read():
    printed = "ToolCall(tool_name='f', tool_kwargs={'x': 'a long te..."
    step = read({"llamaindex.step.input_summary": printed}, name="FunctionAgent.call_tool")
    assert (step.tool_name, step.arguments, step.call_id, step.has_result) == (
        "f",
        None,
        None,
        False,
    )


REACT = (
    'Use the tools.\n> Tool Name: f\nTool Description: f(x: int)\nFinds.\n\nTool Args: {"type":'
    ' "object"}\n\nThought: …\nAction: …\nAction Input: …\nObservation: tool response\n'
)


def react(*said, output=None, instructions=REACT):
    listed = [("system", instructions), *said]
    messages = [
        {"role": role, "blocks": [{"block_type": "text", "text": text}]} for role, text in listed
    ]
    ended = {"response.message.role": "assistant", "response.message.blocks": None}
    ended["response.message.blocks"] = json.dumps([{"block_type": "text", "text": output}])
    return read(
        {},
        events=[
            event("LLMChatStartEvent", messages=json.dumps(messages)),
            event("LLMChatEndEvent", **ended),
        ],
    )


def test_a_react_agents_action_is_a_call():
    step = react(
        ("user", "Where?"), output='Thought: Look.\nAction: f\nAction Input: {"x": "a\\nAction: g"}'
    )
    call = RequestedCall(None, "f", {"x": "a\nAction: g"})
    assert step.output == (Message("assistant", "Look.", calls=(call,)),)


def test_a_react_agents_observation_is_a_result_and_no_question():
    acted = "Thought: Look.\nAction: f\nAction Input: {'x': 1}"
    step = react(("user", "Where?"), ("assistant", acted), ("user", "Observation: 0"))
    assert step.input[2:] == (
        Message("assistant", "Look.", calls=(RequestedCall(None, "f", {"x": 1}),)),
        Message("tool", results=(ToolResult(None, 0),)),
    )


def test_a_user_may_speak_of_an_observation():
    assert react(("user", "Observation: it rains.")).input[1:] == (
        Message("user", "Observation: it rains."),
    )


def test_a_react_agents_answer_is_told_apart_from_its_thought():
    assert react(output="Thought: I know.\nAnswer: There.").output == (
        Message("assistant", "There.", "I know."),
    )


def test_a_react_agents_tools_are_in_its_instructions():
    assert react().tools == (Tool("f", "f(x: int)\nFinds.", {"type": "object"}),)


def test_without_such_instructions_text_stays_text():
    said = "Thought: Look.\nAction: f\nAction Input: {}"
    assert react(output=said, instructions="Be brief.").output == (Message("assistant", said),)


def test_a_retrieval_tells_what_was_found():
    nodes = [{"node": {"id_": "n1", "text": "Green.", "embedding": [0.1]}, "score": 0.5}]
    found = {"str_or_query_bundle.query_str": "tea", "nodes": json.dumps(nodes)}
    step = read({}, events=[event("RetrievalEndEvent", **found)])
    assert (step.query, step.documents) == (
        "tea",
        ({"id": "n1", "content": "Green.", "score": 0.5},),
    )


def test_a_query_engine_is_asked_and_answers():
    ended = event("QueryEndEvent", **{"response.response": "There."})
    step = read({}, events=[event("QueryStartEvent", query="Where?"), ended])
    assert (step.kind, step.input_text, step.output_text) == ("workflow", "Where?", "There.")


def test_a_retriever_inside_another_one_is_not_a_second_retrieval():
    assert (
        read({"openinference.span.kind": "RETRIEVER"}, name="X._retrieve", scope=OPENINFERENCE).kind
        == "other"
    )
