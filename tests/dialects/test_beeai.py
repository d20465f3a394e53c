"""BeeAI's spans under OpenInference's instrumentation, in forms its recordings do not cover."""

import json
from functools import partial

import one_span

from spanscore.model.span import STATUS_ERROR
from spanscore.model.step import Message

SCOPE = "openinference.instrumentation.beeai"

read = partial(one_span.read, scope=SCOPE)


def test_a_tools_arguments_stand_beside_its_options():
    step = read(
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "f",
            "input.value": '{"input": {"x": 1}, "options": null}',
        }
    )
    assert step.arguments == {"x": 1}


def test_the_tool_that_answers_is_no_tool_call():
    assert read({"openinference.span.kind": "TOOL", "tool.name": "final_answer"}).kind == "other"


def test_what_the_answering_tool_is_called_with_is_the_answer():
    call = "llm.output_messages.0.message.tool_calls.0.tool_call.function."
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
    }
    attributes |= {call + "name": "final_answer", call + "arguments": '{"response": "There."}'}
    assert read(attributes).output == (Message("assistant", "There."),)


def test_the_error_of_a_model_call_is_not_its_answer():
    assert (
        read(
            {"openinference.span.kind": "LLM", "output.value": "ChatModelError: x"},
            status=STATUS_ERROR,
        ).output
        is None
    )


def test_the_question_is_what_the_agent_was_called_with():
    attributes = {
        "openinference.span.kind": "AGENT",
        "input.value": json.dumps({"input": '{"a": 1}'}),
    }
    assert read(attributes).input == (Message("user", '{"a": 1}'),)


def test_a_span_that_stands_for_an_event_is_no_step():
    assert (
        read({"openinference.span.kind": "LLM", "metadata.path": "backend.openai.chat.error"}).kind
        == "other"
    )


def test_of_calls_that_were_put_into_one_the_first_is_told():
    call = "llm.output_messages.0.message.tool_calls.0.tool_call.function."
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
    }
    attributes |= {call + "name": "f", call + "arguments": '{"x": 1}{"x": 2}'}
    assert [x.arguments for m in read(attributes).output for x in m.calls] == [{"x": 1}]


def test_what_a_function_returned_is_read_as_python_prints_it():
    step = read(
        {"openinference.span.kind": "TOOL", "tool.name": "f", "output.value": "{'result': None}"}
    )
    assert step.result == {"result": None}
