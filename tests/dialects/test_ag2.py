"""AG2's spans under OpenInference's instrumentation, in the forms that its recording does not
cover.
"""

import json

import pytest

from spanscore import dialects
from spanscore.model.span import Resource, Scope, Span
from spanscore.model.step import Message, ToolResult

SCOPE = "openinference.instrumentation.ag2"


def read(attributes, name="helper.generate_reply"):
    given = Span("t", "1", "", name, 1, 1, 2, 0, "", attributes, Resource(), Scope(SCOPE))
    (step,) = dialects.read([given]).steps
    return step


def tool(returned):
    given = '{"name": "f", "arguments": "{\\"x\\": 1}"}'
    kind = {"openinference.span.kind": "TOOL", "tool.name": "f", "tool_call.id": "c1"}
    return read(kind | {"input.value": given, "output.value": json.dumps(returned)})


@pytest.mark.parametrize("asked", ["Where?", {"content": "Where?"}], ids=["text", "message"])
def test_a_chat_is_the_other_agents_and_begins_with_the_question(asked):
    attributes = {
        "openinference.span.kind": "AGENT",
        "agent.name": "user",
        "ag2.recipient.name": "helper",
    }
    step = read(attributes | {"input.value": json.dumps({"message": asked})}, "user.initiate_chat")
    assert (step.agent_name, step.input) == ("helper", (Message("user", "Where?"),))


def test_a_reply_by_tools_is_no_agent_speaking():
    returned = {
        "role": "tool",
        "content": "0",
        "tool_responses": [{"tool_call_id": "c1", "content": "0"}],
    }
    assert (
        read({"openinference.span.kind": "AGENT", "output.value": json.dumps(returned)}).kind
        == "workflow"
    )


def test_several_answers_in_one_message_are_several_results():
    answers = [{"tool_call_id": "c1", "content": "0"}, {"tool_call_id": "c2", "content": "[]"}]
    given = [{"role": "tool", "content": "0\n\n[]", "tool_responses": answers}]
    step = read({"openinference.span.kind": "AGENT", "input.value": json.dumps(given)})
    assert step.input == (Message("tool", results=(ToolResult("c1", 0), ToolResult("c2", []))),)


def test_a_call_has_its_arguments_and_result_in_envelopes():
    step = tool([True, {"name": "f", "role": "function", "content": "00042"}])
    assert (step.call_id, step.arguments, step.result, step.error) == (
        "c1",
        {"x": 1},
        "00042",
        None,
    )


def test_a_call_that_did_not_succeed_is_an_error():
    assert (
        tool([False, {"name": "f", "role": "function", "content": "Error: no x"}]).error
        == "Error: no x"
    )


def test_a_call_that_did_not_succeed_and_has_no_text_is_an_error():
    assert tool([False, {"name": "f", "role": "function", "content": ""}]).error == "error"
