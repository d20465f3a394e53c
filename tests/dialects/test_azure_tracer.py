"""The tracer of langchain-azure-ai, in the forms that its recording does not cover."""

import json

import one_span
import pytest


def tool(result, **more):
    named = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find",
        "gen_ai.tool.call.id": "c1",
    }
    return one_span.read({**named, **more, "gen_ai.tool.call.result": json.dumps(result)})


@pytest.mark.parametrize("value", ["0", "[]", '{"left": 4}', "00042", ""])
def test_the_message_that_answers_a_call_is_opened_to_its_content(value):
    step = tool({"name": "find", "tool_call_id": "c1", "content": value})
    wanted = {"0": 0, "[]": [], '{"left": 4}': {"left": 4}}.get(value, value)
    assert (step.result, step.has_result, step.call_id) == (wanted, True, "c1")


def test_blocks_of_text_in_such_a_message_are_joined():
    blocks = [{"type": "text", "text": "15C"}, {"type": "text", "text": "rain"}]
    assert tool({"name": "find", "tool_call_id": "c1", "content": blocks}).result == "15C\nrain"


def test_a_message_that_names_the_spans_tool_gives_the_call_its_id():
    step = tool(
        {"name": "find", "tool_call_id": "c1", "content": "15C"}, **{"gen_ai.tool.call.id": None}
    )
    assert (step.result, step.call_id) == ("15C", "c1")


def test_hidden_content_of_such_a_message_is_damaged():
    step = tool({"name": "find", "tool_call_id": "c1", "content": "[redacted]"})
    assert (step.result, step.has_result, "result" in step.damaged) == (None, False, True)


@pytest.mark.parametrize(
    "own",
    [
        {"name": "find", "tool_call_id": "c2", "content": "15C"},
        {"name": "find", "content": "15C"},
        {"name": "find", "tool_call_id": "c1", "content": "15C", "page": 1},
    ],
)
def test_an_object_of_the_tools_own_stays_whole(own):
    assert tool(own).result == own
