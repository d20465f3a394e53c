"""What is read of AgentOps' spans: decorated functions and classes, model calls, and the calls that
models ask for.
"""

import json
from dataclasses import replace

import pytest
from one_span import read, span

from spanscore import dialects
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

REQUESTED = "agentops.instrumentation.providers.openai.wrappers.chat"
MODEL = {
    "gen_ai.request.type": "chat",
    "gen_ai.prompt.0.role": "user",
    "gen_ai.prompt.0.content": "Where?",
}
SAID = {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "I look."}


def function(kind, given=None, returned=None, *, key=None, name="helper", **more):
    attributes = {"agentops.span.kind": kind, "operation.name": name}
    attributes |= {
        f"agentops.{key or kind}.{x}": y
        for x, y in (("input", given), ("output", returned))
        if y is not None
    }
    return read(attributes, scope="agentops", **more)


def called(*args, **kwargs):
    return json.dumps({"args": args, "kwargs": kwargs})


def requested(name, given, identity, parent="model"):
    attributes = {"tool.name": name, "tool.parameters": given, "tool.call.id": identity}
    return span(attributes, scope=REQUESTED, parent=parent, span_id=identity, start_ns=5)


def model_with(*inside, **attributes):
    call = span({**MODEL, **attributes}, scope="openai", span_id="model")
    return next(x for x in dialects.read([call, *inside]).steps if x.kind == "model")


@pytest.mark.parametrize("key", ["agent", "entity"])
def test_an_agents_function_was_asked_and_answered(key):
    step = function("agent", called("Where?"), "Here.", key=key)
    assert (step.kind, step.agent_name, step.input_text, step.output_text) == (
        "agent",
        "helper",
        "Where?",
        "Here.",
    )


def test_the_construction_of_an_agents_class_is_no_question():
    step = function("agent", called("lab"), key="entity")
    assert (step.agent_name, step.input_text) == ("helper", None)


def test_a_session_is_what_is_around_the_turn():
    step = function("session", called(question="Where?"), "Here.", key="entity")
    assert (step.kind, step.input_text, step.output_text, step.agent_name) == (
        "workflow",
        "Where?",
        "Here.",
        None,
    )


def test_an_answer_that_is_json_stays_as_it_was_written():
    assert (
        function("task", called("Where?"), '{"gate": 8,  "open": true}').output_json
        == '{"gate": 8,  "open": true}'
    )


def test_a_tool_by_names_by_place_and_without_arguments():
    steps = [function("tool", x, "0", name="f") for x in (called(a=1), called(1), called())]
    assert [(x.arguments, x.positional) for x in steps] == [({"a": 1}, ()), (None, (1,)), ({}, ())]
    assert [(x.tool_name, x.result, x.has_result) for x in steps] == [("f", 0, True)] * 3


@pytest.mark.parametrize("kind", ["guardrail", "http", "unknown", "of the future", 3])
def test_what_is_no_agents_work_is_bookkeeping(kind):
    assert function(kind, called("Where?"), "Here.").kind == "other"


def test_the_calls_inside_of_a_model_call_are_those_that_it_asked_for():
    step = model_with(requested("f", '{"a": 1}', "c0"), requested("g", "", "c1"), **SAID)
    assert step.output == (
        Message(
            "assistant",
            "I look.",
            calls=(RequestedCall("c0", "f", {"a": 1}), RequestedCall("c1", "g", {})),
        ),
    )


def test_a_model_call_without_an_answer_asked_for_calls_alone():
    assert model_with(requested("f", "{}", "c0")).output == (
        Message("assistant", calls=(RequestedCall("c0", "f", {}),)),
    )


def test_calls_that_the_answer_tells_are_not_told_twice():
    told = {
        "gen_ai.completion.0.tool_calls.0.id": "c0",
        "gen_ai.completion.0.tool_calls.0.name": "f",
    }
    step = model_with(requested("f", "{}", "c0"), **SAID, **told)
    assert [x.call_id for x in step.output[0].calls] == ["c0"]


def test_a_call_of_which_the_arguments_were_cut_is_damaged():
    assert model_with(requested("f", '{"a": "b', "c0")).output[0].damaged == {"calls"}


def test_a_requested_call_without_its_model_call_is_no_tool_call():
    (step,) = dialects.read([requested("f", "{}", "c0")]).steps
    assert step.kind == "other"


@pytest.mark.parametrize("prefix", ["gen_ai.request.functions.0.", "gen_ai.request.tools.0."])
def test_the_tools_on_offer_are_listed_one_by_one(prefix):
    schema = {"type": "object"}
    key = "parameters" if "functions" in prefix else "arguments"
    step = read(
        {
            **MODEL,
            prefix + "name": "f",
            prefix + "description": "Look.",
            prefix + key: json.dumps(schema),
        }
    )
    assert step.tools == (Tool("f", "Look.", schema),)


def test_anthropics_tools_are_read_where_no_call_is_written_over_them():
    schemas = [
        {"name": "f", "schema": {"description": "Look.", "input_schema": {"type": "object"}}},
        None,
        {"name": 3},
    ]
    given = {"gen_ai.request.tools.0.name": "f", "gen_ai.request.tools.0.arguments": '{"a": 1}'}
    step = read({**MODEL, **given, "anthropic.tools.schemas": json.dumps(schemas)})
    assert step.tools == (Tool("f", "Look.", {"type": "object"}),)


def test_anthropics_results_are_no_words_of_the_user():
    said = '[Tool Result: 0] [Tool Result: {"a": [1]}]'
    step = read({**MODEL, "gen_ai.prompt.0.content": said}, name="anthropic.messages.create")
    assert step.input == (
        Message("user", results=(ToolResult(None, 0), ToolResult(None, {"a": [1]}))),
    )


def test_a_thousand_calls_in_one_model_call_and_a_circle_of_spans_are_read():
    circle = replace(requested("f", "{}", "loop"), parent_span_id="loop")
    many = [requested("f", "{}", f"c{x}") for x in range(1000)]
    assert len(model_with(circle, *many).output[0].calls) == 1000
