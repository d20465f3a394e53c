"""Google's ADK under OpenInference's instrumentation, in forms that its recordings do not cover."""

import json

import pytest
from one_span import read

from spanscore.model.trace import RequestedCall

SCOPE = "openinference.instrumentation.google_adk"
CALL = {"function_call": {"id": "c3", "name": "g", "args": {}}}
RESPONSES = [
    {"function_response": {"id": x, "name": "f", "response": {"result": x}}} for x in ("c1", "c2")
]


def of_kind(kind, **more):
    attributes = {
        "openinference.span.kind": kind,
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return read(attributes, scope=SCOPE)


def tool(response=None, **more):
    output = (
        {}
        if response is None
        else {"output__value": json.dumps({"id": "c1", "name": "f"} | response)}
    )
    return of_kind("TOOL", tool__name="f", output__mime_type="application/json", **output, **more)


def test_a_runs_new_message_is_its_question_and_its_last_event_its_answer():
    event = {
        "content": {"parts": [{"text": "It rains."}], "role": "model"},
        "author": "clerk",
        "id": "e1",
    }
    asked = {
        "user_id": "7",
        "new_message": {"parts": [{"text": "How is"}, {"text": "it?"}], "role": "user"},
    }
    step = of_kind("CHAIN", input__value=json.dumps(asked), output__value=json.dumps(event))
    assert [(x.role, x.text) for x in (*step.input, *step.output)] == [
        ("user", "How is\nit?"),
        ("assistant", "It rains."),
    ]


def test_a_run_that_ends_without_content_has_no_answer():
    step = of_kind(
        "AGENT",
        output__value='{"error_code": "SAFETY", "author": "clerk"}',
        output__mime_type="application/json",
    )
    assert (step.output, step.output_text, step.output_json) == (None, None, None)


def test_a_question_that_was_cut_is_damaged():
    assert "input" in of_kind("CHAIN", input__value='{"user_id": "7", "new_message": {"par').damaged


@pytest.mark.parametrize(
    ("response", "result"),
    [
        ({"result": 0}, 0),
        ({"result": None}, None),
        ({"error": "no such sku"}, {"error": "no such sku"}),
        ({"result": "ok", "error": None}, {"result": "ok", "error": None}),
    ],
)
def test_a_tools_response_is_its_result(response, result):
    step = tool({"response": response})
    assert (step.has_result, step.result) == (True, result)


def test_an_object_of_the_tools_own_is_no_response():
    recorded = {"name": "Ada", "response": "yes", "age": 36}
    step = of_kind(
        "TOOL",
        tool__name="f",
        output__value=json.dumps(recorded),
        output__mime_type="application/json",
    )
    assert step.result == recorded


def test_a_response_that_is_missing_is_no_result():
    assert not tool({}).has_result


def test_a_call_that_waits_for_a_person_has_no_result():
    assert not tool(
        {"response": {"error": "This tool call requires confirmation, please approve or reject."}}
    ).has_result


def test_a_call_without_arguments_has_none_since_only_others_are_recorded():
    assert tool({"response": {"result": 1}}).arguments == {}


def test_hidden_arguments_are_damaged():
    step = tool({"response": {"result": 1}}, input__value="__REDACTED__")
    assert (step.arguments, step.damaged) == (None, frozenset({"arguments"}))


def test_several_results_of_one_message_stay_apart_from_the_next_message():
    contents = [{"role": "user", "parts": RESPONSES}, {"role": "model", "parts": [CALL]}]
    flat = {
        "llm.input_messages.0.message.role": "tool",
        "llm.input_messages.0.message.tool_call_id": "c1",
        "llm.input_messages.0.message.content": '{"result": "c1"}',
        "llm.input_messages.1.message.role": "model",
        "llm.input_messages.1.message.tool_call_id": "c2",
        "llm.input_messages.1.message.content": '{"result": "c2"}',
        "llm.input_messages.1.message.tool_calls.0.tool_call.id": "c3",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "g",
    }
    given, called = of_kind("LLM", input__value=json.dumps({"contents": contents}), **flat).input
    assert ([x.value for x in given.results], called.calls) == (
        ["c1", "c2"],
        (RequestedCall("c3", "g", {}),),
    )


def test_where_the_request_was_cut_results_that_overlap_are_left_out_and_the_input_is_damaged():
    flat = {
        "llm.input_messages.0.message.role": "tool",
        "llm.input_messages.0.message.content": '{"result": 1}',
        "llm.input_messages.1.message.role": "model",
        "llm.input_messages.1.message.content": '{"result": 2}',
        "llm.input_messages.1.message.contents.0.message_content.text": "I see.",
        "llm.input_messages.1.message.contents.0.message_content.type": "text",
    }
    step = of_kind("LLM", input__value='{"contents": [{"ro', **flat)
    assert ([(x.text, x.results) for x in step.input], "input" in step.damaged) == (
        [("I see.", ())],
        True,
    )


def test_instructions_and_tools_are_in_a_requests_configuration():
    config = {
        "system_instruction": "Be brief.",
        "tools": [{"function_declarations": [{"name": "f"}]}],
    }
    step = of_kind("LLM", input__value=json.dumps({"contents": [], "config": config}))
    assert (step.system, [x.name for x in step.tools]) == ("Be brief.", ["f"])


def test_what_adks_own_attributes_hide_is_read_from_openinferences():
    hidden = {"gcp.vertex.agent.tool_call_args": "{}", "gcp.vertex.agent.tool_response": "{}"}
    step = tool(
        {"response": {"result": 17}},
        input__value='{"sku": "00042"}',
        gen_ai__operation__name="execute_tool",
        **hidden,
    )
    assert (step.arguments, step.result) == ({"sku": "00042"}, 17)


def test_what_openinferences_attributes_hide_is_read_from_adks_own():
    own = {
        "gcp.vertex.agent.tool_call_args": '{"sku": "7"}',
        "gcp.vertex.agent.tool_response": '{"result": 3}',
    }
    step = tool(
        input__value="__REDACTED__",
        output__value="__REDACTED__",
        gen_ai__operation__name="execute_tool",
        **own,
    )
    assert (step.arguments, step.result, step.damaged) == ({"sku": "7"}, 3, frozenset())


@pytest.mark.parametrize("result", [False, 0, [], None])
def test_an_empty_result_stays_where_openinference_completes_adks_own_span(result):
    step = read(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "f",
            "gcp.vertex.agent.tool_response": json.dumps({"result": result}),
            "openinference.span.kind": "TOOL",
            "output.value": json.dumps({"id": "c1", "name": "f", "response": {"result": "other"}}),
        },
        scope="gcp.vertex.agent",
    )
    assert (step.has_result, step.result) == (True, result)
