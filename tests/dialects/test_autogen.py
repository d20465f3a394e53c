"""AutoGen's deliveries and messages, in the forms that its recordings do not cover."""

import json
from functools import partial

import one_span

from spanscore.model.span import STATUS_ERROR, Event
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

SCOPE = "autogen SingleThreadedAgentRuntime"
OPENINFERENCE = "openinference.instrumentation.autogen_agentchat"
MANAGER = "RoundRobinGroupChatManager"

read = partial(one_span.read, scope=SCOPE)


def delivery(message, recipient=MANAGER):
    return read(
        {"message": json.dumps(message), "recipient_agent_class": recipient},
        name="autogen process x",
    )


def text(said, source="helper", **more):
    return {"source": source, "content": said, "type": "TextMessage", "models_usage": None} | more


def test_the_start_of_a_team_holds_the_question():
    assert delivery({"messages": [text("Where?", "user")]}).input == (Message("user", "Where?"),)


def test_an_agents_response_to_the_manager_holds_what_it_did():
    calls = [{"id": "c1", "name": "f", "arguments": '{"x": 1}'}]
    results = [{"call_id": "c1", "name": "f", "content": "{'result': None}", "is_error": False}]
    inner = [
        {
            "source": "helper",
            "content": calls,
            "type": "ToolCallRequestEvent",
            "models_usage": {"prompt_tokens": 7},
        },
        {"source": "helper", "content": results, "type": "ToolCallExecutionEvent"},
        {"source": "helper", "content": "?", "type": "MemoryQueryEvent"},
    ]
    step = delivery(
        {"response": {"inner_messages": inner, "chat_message": text("There.")}, "name": "helper"}
    )
    assert (step.kind, step.agent_name, step.input_tokens, step.output) == (
        "agent",
        "helper",
        7,
        (
            Message("assistant", calls=(RequestedCall("c1", "f", {"x": 1}),)),
            Message("tool", results=(ToolResult("c1", {"result": None}),)),
            Message("assistant", "There."),
        ),
    )


def test_a_response_that_is_passed_on_to_the_other_agents_counts_once():
    assert (
        delivery({"response": {"chat_message": text("There.")}}, "ChatAgentContainer").kind
        == "other"
    )


def test_what_a_speaking_manager_says_itself_is_read_where_its_agents_get_it():
    said = {
        "response": {"chat_message": text("It left.", "MagenticOneOrchestrator")},
        "name": "MagenticOneOrchestrator",
    }
    step = delivery(said, "ChatAgentContainer")
    assert (step.kind, step.agent_name, step.output) == (
        "agent",
        "MagenticOneOrchestrator",
        (Message("assistant", "It left."),),
    )


def test_an_agent_without_a_name_of_its_own_is_named_by_its_message():
    assert delivery({"response": {"chat_message": text("There.")}}).agent_name == "helper"


def test_a_failed_call_states_its_error():
    results = [{"call_id": "c1", "content": "no such file", "is_error": True}]
    event = {"source": "helper", "content": results, "type": "ToolCallExecutionEvent"}
    step = delivery({"response": {"inner_messages": [event], "chat_message": text("Sorry.")}})
    assert step.output[0].results == (ToolResult("c1", "no such file", "no such file"),)


def test_a_failed_call_without_a_text_has_failed():
    results = [{"call_id": "c1", "content": "", "is_error": True}]
    event = {"source": "helper", "content": results, "type": "ToolCallExecutionEvent"}
    step = delivery({"response": {"inner_messages": [event], "chat_message": text("Sorry.")}})
    assert step.output[0].results == (ToolResult("c1", "", "error"),)


def test_a_tools_span_whose_status_is_all_that_states_its_failure_has_failed():
    step = read(
        {"openinference.span.kind": "TOOL", "tool.name": "f", "output.value": ""},
        events=(Event("exception", 1, {"exception.message": "Tool execution failed"}),),
        status=STATUS_ERROR,
        scope=OPENINFERENCE,
    )
    assert (step.result, step.error) == ("", "error")


def test_what_is_no_json_and_what_is_only_sent_on_tells_nothing():
    assert [delivery(x).kind for x in ("No Message", {}, {"message": text("Hi.")})] == ["other"] * 3


def test_of_a_team_inside_a_team_only_its_answer_is_told_again():
    call = {
        "source": "clerk",
        "content": [{"id": "c1", "name": "f", "arguments": "{}"}],
        "type": "ToolCallRequestEvent",
    }
    counted = text("There.", "clerk") | {
        "models_usage": {"prompt_tokens": 5, "completion_tokens": 2}
    }
    step = delivery({"name": "inner", "result": {"messages": [call, counted]}})
    assert (step.agent_name, step.output, step.input_tokens) == (
        "inner",
        (Message("assistant", "There."),),
        None,
    )


def test_a_tool_that_ran_is_described():
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "f",
        "gen_ai.tool.description": "Finds.",
    }
    assert read(attributes, scope="autogen-core").tools == (Tool("f", "Finds."),)


def test_thoughts_are_said_beside_calls_and_are_reasoning_beside_text():
    call = {"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "f"}
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
    }
    attributes |= {
        "output.value": '{"thought": "First f."}',
        "llm.input_messages.0.message.content": "Yes.",
    }
    attributes |= {
        "llm.input_messages.0.message.role": "assistant",
        "llm.input_messages.0.thought": "Because.",
    }
    step = read(attributes | call, scope=OPENINFERENCE)
    assert (step.output[0].text, step.input[0].text, step.input[0].reasoning) == (
        "First f.",
        "Yes.",
        "Because.",
    )


def test_what_functions_returned_stands_beside_the_flattened_message():
    told = json.dumps({"name": "f", "content": "None", "call_id": "c1", "is_error": False})
    attributes = {"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "function"}
    step = read(attributes | {"llm.input_messages.0.function.0": told}, scope=OPENINFERENCE)
    assert step.input == (Message("tool", results=(ToolResult("c1", None),)),)


def test_an_agents_printed_input_ends_with_what_it_was_told():
    printed = "id='1' source='user' metadata={} content='It\\'s \"here\".' type='TextMessage'"
    attributes = {
        "openinference.span.kind": "AGENT",
        "input.value": json.dumps({"messages": ["id='0'", printed]}),
    }
    step = read(attributes, name="helper.on_messages_stream", scope=OPENINFERENCE)
    assert (step.agent_name, step.input_text) == ("helper", 'It\'s "here".')


def test_a_teams_result_is_what_came_after_the_task():
    result = {"messages": [text("Where?", "user"), text("There.")], "stop_reason": None}
    attributes = {
        "openinference.span.kind": "CHAIN",
        "input.value": '{"task": "Where?"}',
        "output.value": json.dumps(result),
    }
    step = read(attributes, name="Swarm.run_stream", scope=OPENINFERENCE)
    assert (step.input_text, step.output) == ("Where?", (Message("assistant", "There."),))
