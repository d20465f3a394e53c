"""A tool's result inside the message that sends it to a model, as providers and frameworks write
it.
"""

import json

import pytest

from spanscore.model.span import Resource, Scope, Span
from spanscore.rebuild import rebuild_all

AGENT = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.input.messages": "How many of item 7?",
    "gen_ai.output.messages": "There are 42.",
}
REQUEST = {"type": "tool_call", "id": "c1", "name": "get_stock", "arguments": {"item": 7}}


def span(number, attributes, parent=0):
    return Span(
        trace_id="1" * 32,
        span_id=f"{number:016x}",
        parent_span_id=f"{parent:016x}" if parent else "",
        name="work",
        kind=1,
        start_ns=number * 1000,
        end_ns=100_000 - number,
        status_code=0,
        status_message="",
        attributes=attributes,
        resource=Resource(),
        scope=Scope("my.agent"),
    )


def messages(*listed):
    return json.dumps(listed)


def call_with(result, *, on_span):
    """The rebuilt call whose result this is, on the tool's span or in the model's next input."""
    requesting = {"role": "assistant", "parts": [REQUEST]}
    answering = {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "c1", "response": result}],
    }
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_stock",
        "gen_ai.tool.call.arguments": '{"item": 7}',
        "gen_ai.tool.call.result": json.dumps(result),
    }
    model = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": messages(requesting)}
    last = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": messages(requesting, answering),
        "gen_ai.output.messages": "There are 42.",
    }
    spans = [span(1, AGENT), span(2, model, 1), span(3, tool if on_span else last, 1)]
    [found] = rebuild_all(spans, [])
    [call] = found.tool_calls
    return call


ANSWERS = {
    "LangChain, in an output": {"output": {"kwargs": {"content": "42", "tool_call_id": "c1"}}},
    "LangChain, by its data": {
        "type": "tool",
        "data": {"content": "42", "tool_call_id": "c1", "name": "get_stock"},
    },
    "a message's status": {"content": "42", "tool_call_id": "c1", "status": "success"},
    "Anthropic": {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "42"}],
    },
    "Bedrock": {"toolUseId": "c1", "status": "success", "content": [{"text": "42"}]},
    "Bedrock in its block": {"toolResult": {"toolUseId": "c1", "content": [{"json": 42}]}},
    "OpenAI's Responses": {"type": "function_call_output", "call_id": "c1", "output": "42"},
    "Gemini": {"function_response": {"id": "c1", "name": "get_stock", "response": 42}},
    "Genkit": {"toolResponse": {"name": "get_stock", "ref": "c1", "output": "42"}},
    "AI SDK": {"toolCallId": "c1", "toolName": "get_stock", "result": 42},
    "AutoGen": {"call_id": "c1", "name": "get_stock", "content": "42", "is_error": False},
    "Haystack": {"tool_call_result": {"result": "42", "origin": {"id": "c1"}, "error": False}},
    "a list of one message": [{"role": "tool", "content": "42", "tool_call_id": "c1"}],
}


@pytest.mark.parametrize("on_span", [True, False])
@pytest.mark.parametrize("form", ANSWERS)
def test_a_message_around_a_result_is_opened(form, on_span):
    call = call_with(ANSWERS[form], on_span=on_span)
    assert (call.result, call.error) == (42, None)


FAILURES = {
    "Anthropic": {"tool_use_id": "c1", "content": "locked", "is_error": True},
    "Bedrock": {"toolUseId": "c1", "status": "error", "content": [{"text": "locked"}]},
    "AutoGen": {"call_id": "c1", "name": "get_stock", "content": "locked", "is_error": True},
    "Agno": {"tool_call_id": "c1", "content": "locked", "tool_call_error": True},
    "Haystack": {"tool_call_result": {"result": "locked", "origin": {"id": "c1"}, "error": True}},
    "Pydantic AI": {"tool_call_id": "c1", "content": "locked", "part_kind": "retry-prompt"},
    "AI SDK": {"toolCallId": "c1", "toolName": "get_stock", "result": "locked", "isError": True},
}


@pytest.mark.parametrize("on_span", [True, False])
@pytest.mark.parametrize("form", FAILURES)
def test_a_message_that_states_a_failure_is_an_error(form, on_span):
    assert call_with(FAILURES[form], on_span=on_span).error == "locked"


@pytest.mark.parametrize("on_span", [True, False])
@pytest.mark.parametrize(
    "result",
    [
        {"id": "c2", "name": "Chair", "content": "wood"},
        {"id": "c1", "name": "Chair", "content": "wood", "price": 42},
        {"id": "c1", "name": "Chair"},
        {"call_id": "c1", "output": "a", "content": "b"},
        [{"id": "c1", "output": 1}, {"id": "c1", "output": 2}],
    ],
)
def test_an_object_of_the_tools_own_stays_as_it_is(result, on_span):
    assert call_with(result, on_span=on_span).result == result


BEDROCK_FAILURES = {
    "a text": ([{"text": "locked"}], "locked"),
    "two texts": ([{"text": "locked"}, {"text": "since noon"}], "locked\nsince noon"),
    "JSON": ([{"json": {"code": 5}}], '{"code":5}'),
    "a text and a picture": (
        [{"text": "locked"}, {"image": {"format": "png", "source": {"bytes": "iVBO"}}}],
        '[{"text":"locked"},{"image":{"format":"png","source":{"bytes":"iVBO"}}}]',
    ),
    "an empty text": ([{"text": ""}], "error"),
    "no block": ([], "[]"),
}


@pytest.mark.parametrize("on_span", [True, False])
@pytest.mark.parametrize("blocks", BEDROCK_FAILURES)
def test_bedrocks_failure_without_the_calls_id_is_an_error(blocks, on_span):
    content, error = BEDROCK_FAILURES[blocks]
    call = call_with({"status": "error", "content": content}, on_span=on_span)
    assert (call.error, call.error_inferred) == (error, False)


@pytest.mark.parametrize("on_span", [True, False])
def test_bedrocks_result_without_the_calls_id_is_opened(on_span):
    call = call_with({"status": "success", "content": [{"json": 42}]}, on_span=on_span)
    assert (call.result, call.error) == (42, None)


RECORDS = {
    "a text for content": {"status": "error", "content": "disk full"},
    "texts": {"status": "error", "content": ["disk full"]},
    "a field beside": {"status": "error", "content": [{"text": "disk full"}], "time": 5},
    "another tool's call": {
        "toolUseId": "c2",
        "status": "error",
        "content": [{"text": "disk full"}],
    },
    "a field in a block": {"status": "error", "content": [{"text": "disk full", "url": "/log"}]},
    "a number for a text": {"status": "error", "content": [{"text": 28}]},
    "a block that is empty": {"status": "error", "content": [{}]},
    "blocks with a type": {"status": "error", "content": [{"type": "text", "text": "disk full"}]},
    "a picture's name": {"status": "error", "content": [{"image": "disk.png"}]},
    "one block of its own": {"status": "error", "content": [{"text": "a"}, {"line": 7}]},
    "another status": {"status": "failed", "content": [{"text": "disk full"}]},
    "another case": {"status": "ERROR", "content": [{"text": "disk full"}]},
    "a list for a status": {"status": ["error"], "content": [{"text": "disk full"}]},
    "a page without entries": {"status": "success", "content": []},
    "a list of one": [{"status": "error", "content": [{"text": "disk full"}]}],
    "a list": [{"status": "error", "content": [{"text": "disk full"}]}] * 2,
    "a record in a record": {"alert": {"status": "error", "content": [{"text": "disk full"}]}},
}


@pytest.mark.parametrize("on_span", [True, False])
@pytest.mark.parametrize("record", RECORDS)
def test_a_record_of_the_tools_own_that_resembles_bedrocks_failure_stays_whole(record, on_span):
    call = call_with(RECORDS[record], on_span=on_span)
    assert (call.result, call.error) == (RECORDS[record], None)


@pytest.mark.parametrize(
    "answer",
    [
        {"role": "tool", "content": "locked", "status": "error"},
        {"type": "tool_result", "content": "locked", "is_error": True},
        {"content": [{"type": "text", "text": "locked"}], "isError": True},
    ],
)
def test_an_answer_without_an_id_that_states_a_failure_is_one_also_in_a_message(answer):
    call = call_with(answer, on_span=False)
    assert (call.result, call.error, call.error_inferred) == ("locked", "locked", False)


@pytest.mark.parametrize("on_span", [True, False])
@pytest.mark.parametrize(
    "record",
    [
        {"role": "tool", "content": "a drill", "price": 30},
        {"role": "tool", "name": "drill", "content": "for wood"},
        {"role": "assistant", "content": "hello"},
        {"type": "tool", "content": "a drill", "status": "success"},
    ],
)
def test_a_record_that_resembles_a_message_stays_whole(record, on_span):
    call = call_with(record, on_span=on_span)
    assert (call.result, call.error) == (record, None)
