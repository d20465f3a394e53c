"""Facts that a span states in a place where few emitters have them, or without a text of theirs."""

import json

import pytest
from one_span import read

from spanscore.model.span import STATUS_ERROR, Event

REQUEST = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "unlock"}]}


def result_of(part):
    step = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps([REQUEST, {"role": "tool", "parts": [part]}]),
        }
    )
    ((result,),) = [x.results for x in step.input if x.results]
    return result


@pytest.mark.parametrize(
    "answer",
    [
        {"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": ""},
        {"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": None},
        {"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"text": " "}]}},
        {"type": "tool-result", "toolCallId": "c1", "output": {"type": "error-text", "value": ""}},
        {
            "type": "tool_call_response",
            "id": "c1",
            "response": {
                "type": "tool_result",
                "tool_use_id": "c1",
                "is_error": True,
                "content": "",
            },
        },
    ],
)
def test_a_failure_that_is_stated_without_a_text_is_a_failure(answer):
    assert result_of(answer).error == "error"


def test_a_result_without_a_text_that_states_no_failure_is_none():
    assert result_of({"type": "tool_result", "tool_use_id": "c1", "content": ""}).error is None


def test_a_span_that_failed_with_an_empty_block_of_text_has_failed():
    nothing = Event("exception", 1, {"exception.message": '[{"type": "text", "text": ""}]'})
    step = read(
        {"openinference.span.kind": "TOOL", "tool.name": "unlock"},
        events=(nothing,),
        status=STATUS_ERROR,
    )
    assert step.error == "error"


def test_an_agent_states_the_tools_on_offer_in_the_attributes_of_a_model_call():
    defined = {"name": "unlock", "description": "Open a door.", "parameters": {"type": "object"}}
    step = read(
        {
            "openinference.span.kind": "AGENT",
            "input.value": "Let me in.",
            "llm.tools.0.tool.json_schema": json.dumps(defined),
        }
    )
    assert [(x.name, x.description) for x in step.tools] == [("unlock", "Open a door.")]


def test_an_agent_that_lists_no_tools_does_not_state_that_there_are_none():
    assert read({"openinference.span.kind": "AGENT", "input.value": "Let me in."}).tools is None


def test_the_final_result_that_an_agent_states_is_its_answer():
    step = read({"gen_ai.operation.name": "invoke_agent", "final_result": "The door is open."})
    assert step.output_text == "The door is open."


def typed(kind, value):
    return json.dumps({"type": kind, "value": value})


def test_langwatch_types_each_element_of_a_list():
    answer = typed("list", [{"type": "text", "value": "The door is open."}])
    model = read({"langwatch.span.type": "llm", "langwatch.output": answer})
    agent = read({"langwatch.span.type": "agent", "langwatch.output": answer})
    assert ([x.text for x in model.output], agent.output_text) == (
        ["The door is open."],
        "The door is open.",
    )


def test_langwatch_types_each_of_several_results():
    doors = [{"type": "json", "value": {"door": 1}}, {"type": "json", "value": {"door": 2}}]
    step = read({"langwatch.span.type": "tool", "langwatch.output": typed("list", doors)})
    assert step.result == [{"door": 1}, {"door": 2}]


def test_langwatch_typed_list_of_one_result_stays_a_list():
    towns = typed("list", [{"type": "text", "value": "paris"}])
    step = read({"langwatch.span.type": "tool", "langwatch.output": towns})
    assert step.result == ["paris"]


def test_a_list_that_a_tool_itself_returned_stays_whole():
    own = [{"type": "oak", "value": 3}]
    step = read({"langwatch.span.type": "tool", "langwatch.output": typed("json", own)})
    assert step.result == own
