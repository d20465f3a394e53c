"""Haystack's spans and messages, in the forms that its recordings do not cover."""

import json
from functools import partial

import one_span
import pytest

from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

SCOPE = "any name"
OPENINFERENCE = "openinference.instrumentation.haystack"
OPENLLMETRY = "opentelemetry.instrumentation.haystack"

read = partial(one_span.read, scope=SCOPE)


def component(kind, given, returned):
    attributes = {"haystack.component.type": kind, "haystack.component.name": "it"}
    attributes |= {
        "haystack.component.input": json.dumps(given),
        "haystack.component.output": json.dumps(returned),
    }
    return read(attributes, name="haystack.component.run")


def asked(*names):
    parts = [{"tool_call": {"tool_name": x, "arguments": {"x": 1}, "id": f"c-{x}"}} for x in names]
    return {"role": "assistant", "content": parts}


def answered(value, name="f", *, failed=False):
    origin = {"tool_name": name, "arguments": {"x": 1}, "id": f"c-{name}"}
    return {
        "role": "tool",
        "content": [{"tool_call_result": {"result": value, "origin": origin, "error": failed}}],
    }


def test_a_generator_of_texts_is_a_model_with_a_prompt():
    meta = [{"model": "gpt-4o-mini", "usage": {"prompt_tokens": 7, "completion_tokens": 3}}]
    step = component("OpenAIGenerator", {"prompt": "Where?"}, {"replies": ["There."], "meta": meta})
    assert (step.kind, step.input, step.output, step.input_tokens, step.output_tokens) == (
        "model",
        (Message("user", "Where?"),),
        (Message("assistant", "There."),),
        7,
        3,
    )


def test_a_retriever_tells_its_query_and_documents():
    step = component(
        "InMemoryBM25Retriever", {"query": "tea"}, {"documents": [{"id": "1", "content": "Green."}]}
    )
    assert (step.kind, step.query, step.documents) == (
        "retrieval",
        "tea",
        ({"id": "1", "content": "Green."},),
    )


@pytest.mark.parametrize("value", ["", "00042", "0"])
def test_the_invoker_of_one_tool_is_its_call(value):
    step = component(
        "ToolInvoker", {"messages": [asked("f")]}, {"tool_messages": [answered(value)]}
    )
    wanted = 0 if value == "0" else value
    assert (step.kind, step.tool_name, step.call_id, step.arguments, step.result) == (
        "tool",
        "f",
        "c-f",
        {"x": 1},
        wanted,
    )


def test_the_invoker_of_several_tools_is_left_to_the_messages():
    told = {"tool_messages": [answered("1"), answered("2", "g")]}
    assert component("ToolInvoker", {"messages": [asked("f", "g")]}, told).kind == "other"


def test_an_error_that_a_message_states_without_a_text_is_one():
    told = {"tool_messages": [answered("", failed=True)]}
    step = component("ToolInvoker", {"messages": [asked("f")]}, told)
    assert (step.result, step.error) == ("", "error")


def test_an_error_of_a_tool_is_stated_by_its_message():
    step = component(
        "ToolInvoker",
        {"messages": [asked("f")]},
        {"tool_messages": [answered("no such file", failed=True)]},
    )
    assert (step.result, step.error) == ("no such file", "no such file")


def test_an_empty_output_of_a_tools_span_may_be_null_and_is_left_to_the_messages():
    attributes = {
        "haystack.tool.name": "f",
        "haystack.agent.step.tool.input": "{}",
        "haystack.agent.step.tool.output": "",
    }
    step = read(attributes)
    assert (step.tool_name, step.arguments, step.has_result) == ("f", {}, False)


@pytest.mark.parametrize(
    ("output", "value"), [(0, 0), (False, False), ("00042", "00042"), ("[]", [])]
)
def test_a_tools_output_is_what_it_returned(output, value):
    assert (
        read({"haystack.tool.name": "f", "haystack.agent.step.tool.output": output}).result == value
    )


def test_a_tool_that_failed_tells_its_error():
    attributes = {"haystack.tool.name": "f", "haystack.tool.error": True}
    step = read(attributes | {"haystack.agent.step.tool.output": '{"error": "no such file"}'})
    assert (step.result, step.error) == ("no such file", "no such file")


@pytest.mark.parametrize("output", ['{"error": ""}', '{"error": null}', ""])
def test_a_tool_that_failed_without_a_text_has_failed(output):
    attributes = {"haystack.tool.name": "f", "haystack.tool.error": True}
    assert read(attributes | {"haystack.agent.step.tool.output": output}).error == "error"


def test_a_tools_own_object_with_an_error_in_it_is_no_error():
    step = read({"haystack.tool.name": "f", "haystack.agent.step.tool.output": '{"error": null}'})
    assert (step.result, step.error) == ({"error": None}, None)


def test_a_pipeline_is_asked_what_all_its_components_are_given():
    given = json.dumps(
        {"retriever": {"query": "Where?", "top_k": 3}, "prompt": {"question": "Where?"}}
    )
    assert read({"haystack.pipeline.input_data": given}).input_text == "Where?"


def test_a_pipeline_that_is_given_two_texts_is_asked_nothing():
    given = json.dumps({"retriever": {"query": "Where?"}, "prompt": {"style": "brief"}})
    assert read({"haystack.pipeline.input_data": given}).input_text is None


def test_printed_messages_are_read_by_their_syntax():
    call = "ToolCall(tool_name='f', arguments={'x': 1}, id='c1')"
    answer = f"ToolCallResult(result='null', origin={call}, error=False)"
    said = [
        (
            "ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='It\\'s"
            " <here>?')], _meta={})"
        ),
        f"ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[{call}])",
        f"ChatMessage(_role=<ChatRole.TOOL: 'tool'>, _content=[{answer}])",
        (
            "ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>,"
            " _content=[ReasoningContent(reasoning_text='So.')])"
        ),
    ]
    attributes = {
        "openinference.span.kind": "CHAIN",
        "input.value": json.dumps({"messages": said[:1]}),
    }
    step = read(
        attributes | {"output.value": json.dumps({"messages": said})},
        name="Agent.run",
        scope=OPENINFERENCE,
    )
    assert (step.kind, step.input, step.output) == (
        "agent",
        (Message("user", "It's <here>?"),),
        (
            Message("assistant", calls=(RequestedCall("c1", "f", {"x": 1}),)),
            Message("tool", results=(ToolResult("c1", None),)),
            Message("assistant", reasoning="So."),
        ),
    )


def test_openllmetrys_names_of_fields_are_no_answer():
    attributes = {"llm.request.type": "chat", "gen_ai.completion.0.content": "replies"}
    assert read(attributes, scope=OPENLLMETRY).kind == "other"


def test_openllmetrys_pipeline_that_calls_tools_is_an_agent():
    call = {"_role": "assistant", "_content": [{"tool_name": "f", "arguments": {}, "id": "c1"}]}
    asked_for = {"_role": "user", "_content": [{"text": "Where?"}]}
    attributes = {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": json.dumps(
            {"args": [], "kwargs": {"agent": {"messages": [asked_for]}}}
        ),
        "traceloop.entity.output": json.dumps({"agent": {"messages": [asked_for, call]}}),
    }
    step = read(attributes, scope=OPENLLMETRY)
    assert (step.kind, step.input, step.output[0].calls) == (
        "agent",
        (Message("user", "Where?"),),
        (RequestedCall("c1", "f", {}),),
    )


def printed_generator(tools, replies=()):
    attributes = {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps({"messages": [], "tools": tools}),
        "output.value": json.dumps({"replies": list(replies)}),
    }
    return read(attributes, name="OpenAIChatGenerator.run", scope=OPENINFERENCE)


@pytest.mark.parametrize(
    "function",
    [
        "<function weather at 0x7f1>",
        "<function build.<locals>.weather at 0x7f1>",
        "<function <lambda> at 0x7f1>",
        (
            "<bound method build.<locals>.City.weather of <__main__.build.<locals>.City object at"
            " 0x7f1>>"
        ),
        "<bound method Component.run of Component(name='>', at=<object at 0x7f1>)>",
        "functools.partial(<function build.<locals>.weather at 0x7f1>, 'celsius')",
    ],
)
def test_a_printed_tool_is_read_wherever_its_function_was_defined(function):
    tool = (
        "Tool(name='weather', description='Look <it> up.', parameters={'type': 'object'},"
        f" function={function})"
    )
    assert printed_generator([tool]).tools == (
        Tool("weather", "Look <it> up.", {"type": "object"}),
    )


def test_printed_toolsets_are_opened_to_their_tools():
    one, two, three = (f"Tool(name='{x}', description='', parameters={{}})" for x in "abc")
    toolset = f"Toolset(tools=[{two}, {three}])"
    assert [x.name for x in printed_generator([one, toolset]).tools] == ["a", "b", "c"]
    assert [x.name for x in printed_generator(toolset).tools] == ["b", "c"]


@pytest.mark.parametrize(
    "tools", [None, "<MCPToolset object at 0x7f1>", ["<MCPToolset object at 0x7f1>"]]
)
def test_tools_of_which_nothing_is_printed_are_not_known(tools):
    assert printed_generator(tools).tools is None


@pytest.mark.parametrize(
    "names", [("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens")]
)
def test_the_metadata_of_a_printed_reply_hold_the_token_counts(names):
    usage = dict(zip(names, (7, 3), strict=True))
    meta = {"id": "resp_1", "model": "gpt-4o-mini", "usage": usage}
    reply = f"ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[], _meta={meta})"
    step = printed_generator(None, [reply])
    assert (step.input_tokens, step.output_tokens, step.response_id, step.model) == (
        7,
        3,
        "resp_1",
        "gpt-4o-mini",
    )


def test_a_reply_that_is_an_object_with_metadata_has_none_of_the_models():
    reply = json.dumps({"meta": {"id": "car-7", "model": "Beetle", "usage": {"input_tokens": 7}}})
    step = printed_generator(None, [reply])
    assert (step.input_tokens, step.response_id, step.model) == (None, None, None)


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("{'sku': '00042'}", {"sku": "00042"}),
        ("None", None),
        ("False", False),
        ("00042", "00042"),
        ("It is.", "It is."),
    ],
)
def test_a_result_that_version_2_printed_is_what_the_tool_returned(printed, value):
    step = component(
        "ToolInvoker", {"messages": [asked("f")]}, {"tool_messages": [answered(printed)]}
    )
    assert step.result == value
