"""Providers' SDKs under each instrumentation: what one leaves out or prints is found, and what
nobody said is not.
"""

import json

import pytest
from one_span import read, span

from spanscore import dialects
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

CALLED = [{"id": "c-1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
MISTRAL = "openinference.instrumentation.mistralai"
OPENINFERENCE = {"openinference.span.kind": "LLM"}
FLAT = "llm.output_messages.0.message."
NAMED = {f"{FLAT}role": "assistant", f"{FLAT}tool_calls.0.tool_call.function.name": "f"}
PRINTED = (
    "media_resolution=None function_call=FunctionCall(\n  args={\n    'city': 'Paris'\n  },\n "
    " name='f'\n) function_response=None text=None"
)


def openinference(attributes, scope=MISTRAL):
    return read({**OPENINFERENCE, **attributes}, scope=scope)


def openlit(scope, **attributes):
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return read({"gen_ai.operation.name": "chat", **named}, scope=scope)


def mlflow(asked, answered, **more):
    return read(
        {
            "mlflow.spanType": '"LLM"',
            "mlflow.spanInputs": json.dumps(asked),
            "mlflow.spanOutputs": json.dumps(answered),
            **more,
        },
        scope="mlflow.tracing.provider",
    )


def test_the_ids_and_arguments_that_flattened_messages_leave_out_are_those_of_the_response():
    response = {
        "id": "chatcmpl-1",
        "choices": [{"message": {"role": "assistant", "tool_calls": CALLED}}],
    }
    step = openinference({**NAMED, "output.value": json.dumps(response)})
    assert step.output == (Message("assistant", calls=(RequestedCall("c-1", "f", {}),)),)


def test_an_empty_result_that_flattened_messages_leave_out_is_that_of_the_request():
    prefix = "llm.input_messages.0.message."
    request = {"messages": [{"role": "tool", "tool_call_id": "c-1", "content": ""}]}
    flat = {f"{prefix}role": "tool", f"{prefix}tool_call_id": "c-1"}
    step = openinference({**flat, "input.value": json.dumps(request)})
    assert step.input == (Message("tool", results=(ToolResult("c-1", ""),)),)


def test_a_request_that_tells_something_else_does_not_replace_flattened_messages():
    response = {
        "choices": [{"message": {"role": "assistant", "content": "No.", "tool_calls": CALLED}}]
    }
    step = openinference({**NAMED, f"{FLAT}content": "Yes.", "output.value": json.dumps(response)})
    assert step.output == (Message("assistant", "Yes.", calls=(RequestedCall(None, "f"),)),)


def test_the_tools_and_instructions_that_only_a_request_holds_are_those_on_offer():
    request = {
        "system": "Be brief.",
        "messages": [],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    }
    step = openinference(
        {"input.value": json.dumps(request)}, "openinference.instrumentation.anthropic"
    )
    assert (step.system, step.tools) == ("Be brief.", (Tool("f", None, {"type": "object"}),))


def test_tools_that_were_printed_are_none():
    step = openinference({"input.value": json.dumps({"tools": ["Tool(name='f')"]})})
    assert step.tools is None


def test_no_arguments_are_told_of_a_call_whose_attributes_were_dropped():
    step = openinference(NAMED, "openinference.instrumentation.google_genai")
    assert step.output[0].calls[0].arguments == {}


def test_the_address_of_a_stream_is_no_answer():
    step = openinference({"output.value": "<groq.Stream object at 0x7fa7cd29e810>"})
    assert step.output is None


def test_the_answer_of_a_stream_of_the_agents_sdk_is_in_the_response():
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Here."}],
    }
    step = openinference({"output.value": json.dumps([{"object": "response", "output": [item]}])})
    assert step.output == (Message("assistant", "Here."),)


def test_an_empty_id_is_none():
    said = [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "", "name": "f", "arguments": {}}],
        }
    ]
    step = read({"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(said)})
    assert step.output[0].calls == (RequestedCall(None, "f", {}),)


def test_the_text_of_a_tools_message_is_its_result():
    told = [{"role": "tool", "parts": [{"type": "text", "content": "0"}]}]
    step = read({"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(told)})
    assert step.input == (Message("tool", results=(ToolResult(None, 0),)),)


@pytest.mark.parametrize(("scope", "printed"), [("mistralai", "null"), ("cohere", "[]")])
def test_what_stands_for_a_missing_text_is_none(scope, printed):
    attributes = {"gen_ai.completion.0.content": printed, "gen_ai.completion.0.role": "assistant"}
    step = read(attributes, scope=f"opentelemetry.instrumentation.{scope}")
    assert step.output == (Message("assistant"),)


def test_a_tools_message_without_content_had_an_empty_one():
    attributes = {"gen_ai.prompt.0.role": "tool", "gen_ai.prompt.0.tool_call_id": "c-1"}
    assert read(attributes).input == (Message("tool", results=(ToolResult("c-1", ""),)),)


def test_a_printed_part_of_geminis_is_a_call():
    blocks = json.dumps([{"type": "text", "text": "I look."}, {"type": "text", "text": PRINTED}])
    attributes = {"gen_ai.prompt.0.role": "model", "gen_ai.prompt.0.content": blocks}
    step = read(attributes, scope="opentelemetry.instrumentation.google_generativeai")
    assert step.input == (
        Message("assistant", "I look.", calls=(RequestedCall(None, "f", {"city": "Paris"}),)),
    )


@pytest.mark.parametrize(
    ("scope", "part"),
    [
        (
            "openai.v1",
            {"type": "reasoning", "content": json.dumps([{"type": "summary_text", "text": "Hm."}])},
        ),
        (
            "bedrock",
            {
                "type": "text",
                "content": json.dumps({"reasoningContent": {"reasoningText": {"text": "Hm."}}}),
            },
        ),
    ],
)
def test_reasoning_that_is_printed_as_json_is_opened(scope, part):
    said = [{"role": "assistant", "parts": [part, {"type": "text", "content": "Here."}]}]
    attributes = {"llm.request.type": "chat", "gen_ai.output.messages": json.dumps(said)}
    step = read(attributes, scope=f"opentelemetry.instrumentation.{scope}")
    assert step.output == (Message("assistant", "Here.", reasoning="Hm."),)


def test_openlits_decorator_tells_the_question_and_the_answer():
    attributes = {
        "function.args": "('Where?',)",
        "function.kwargs": "{}",
        "gen_ai.output.messages": "Here.",
    }
    step = read(attributes, scope="openlit")
    assert (step.kind, step.input_text, step.output_text) == ("workflow", "Where?", "Here.")


@pytest.mark.parametrize("returned", ["", "<coroutine object answer at 0x7fa7>"])
def test_a_function_that_answers_with_no_text_is_no_turn(returned):
    attributes = {
        "function.args": "('Where?',)",
        "function.kwargs": "{}",
        "gen_ai.output.messages": returned,
    }
    assert read(attributes, scope="openlit").kind == "other"


def test_openlit_prints_what_gemini_was_told_and_did_not_say():
    asked = {"type": "tool_call", "id": "", "name": "f", "arguments": {}}
    told = {"type": "tool_call_response", "id": "", "response": "{'result': False}"}
    step = openlit(
        "openlit.instrumentation.google_ai_studio",
        gen_ai__input__messages=json.dumps([{"role": "user", "parts": [told]}]),
        gen_ai__output__messages=json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "None"}, asked]}]
        ),
    )
    assert (step.input[0].results[0].value, step.output[0].text) == (False, None)


def test_openlit_1_36_tells_messages_line_by_line_and_calls_in_lists():
    step = openlit(
        "openlit.otel.tracing",
        gen_ai__prompt="system: Be\nbrief.\nuser: Where?\ntool: [0]",
        gen_ai__tool__name="f, g",
        gen_ai__tool__call__id="1, 2",
        gen_ai__tool__args='{"a": 1}, {}',
    )
    assert (step.input, step.output) == (
        (
            Message("system", "Be\nbrief."),
            Message("user", "Where?"),
            Message("tool", results=(ToolResult(None, [0]),)),
        ),
        (
            Message(
                "assistant", calls=(RequestedCall("1", "f", {"a": 1}), RequestedCall("2", "g", {}))
            ),
        ),
    )


@pytest.mark.parametrize(
    "answer", ["[1] is the source.", "[Note] In stock.", "{x: 1} are the settings."]
)
def test_an_answer_that_openlit_1_36_tells_is_not_cut_where_it_begins_as_json_does(answer):
    step = openlit("openlit.otel.tracing", gen_ai__prompt="user: [1]?", gen_ai__completion=answer)
    assert (step.output, step.damaged) == ((Message("assistant", answer),), frozenset())


def test_openlits_tokens_are_unknown_where_a_stream_told_none():
    step = openlit(
        "openlit.instrumentation.groq",
        gen_ai__usage__input_tokens=0,
        gen_ai__usage__output_tokens=0,
    )
    assert (step.input_tokens, step.output_tokens) == (None, None)


def test_mlflow_keeps_geminis_request_and_response():
    request = {"contents": [{"role": "user", "parts": [{"text": "Where?"}]}]}
    config = {
        "system_instruction": "Be brief.",
        "tools": [{"function_declarations": [{"name": "f"}]}],
    }
    response = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Here."}]}}]}
    step = mlflow({**request, "config": config}, response)
    assert (step.input, step.output, step.system, step.tools) == (
        (Message("user", "Where?"),),
        (Message("assistant", "Here."),),
        "Be brief.",
        (Tool("f"),),
    )


def test_mlflow_keeps_bedrocks_request_and_response():
    request = {
        "messages": [{"role": "user", "content": [{"text": "Where?"}]}],
        "system": [{"text": "Be brief."}],
    }
    step = mlflow(
        request, {"output": {"message": {"role": "assistant", "content": [{"text": "Here."}]}}}
    )
    assert (step.system, step.output) == ("Be brief.", (Message("assistant", "Here."),))


def test_mlflow_encodes_an_answer_once_so_one_that_is_json_stays_text():
    attributes = {
        "mlflow.spanType": '"AGENT"',
        "mlflow.spanOutputs": json.dumps('{"gate": 8, "closed": true}'),
    }
    assert (
        read(attributes, scope="mlflow.tracing.provider").output_text
        == '{"gate": 8, "closed": true}'
    )


def test_mlflows_conventions_print_a_block_of_the_responses_api():
    block = {"type": "output_text", "text": "Here.", "annotations": []}
    said = [{"role": "assistant", "parts": [{"type": "text", "content": json.dumps(block)}]}]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(said)}
    assert read(attributes, scope="mlflow.tracing.provider").input == (
        Message("assistant", "Here."),
    )


def test_langfuse_tells_a_single_item_of_a_response_without_a_list():
    item = {"type": "function_call", "call_id": "c-1", "name": "f", "arguments": "{}", "id": "fc_1"}
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.output": json.dumps(item),
    }
    step = read(attributes, scope="langfuse-sdk")
    assert step.output == (Message("assistant", calls=(RequestedCall("c-1", "f", {}),)),)


def test_langsmith_puts_an_answer_of_anthropics_below_message():
    answer = {"message": {"role": "assistant", "content": [{"type": "text", "text": "Here."}]}}
    attributes = {
        "langsmith.span.kind": "llm",
        "gen_ai.completion": json.dumps(answer),
        "gen_ai.response.id": "msg_1",
    }
    step = read(attributes)
    assert (step.output, step.response_id) == ((Message("assistant", "Here."),), "msg_1")


def test_logfire_puts_the_events_of_googles_sdk_into_one_attribute():
    asked = {"content": {"role": "user", "parts": [{"text": "Where?"}]}, "role": "user"}
    pieces = [
        {"index": i, "message": {"role": "assistant", "content": [x]}}
        for i, x in enumerate(("He", "re."))
    ]
    attributes = {"gen_ai.operation.name": "chat", "events": json.dumps([asked, *pieces])}
    step = read(attributes, scope="opentelemetry.instrumentation.google_genai")
    assert (step.input, step.output) == (
        (Message("user", "Where?"),),
        (Message("assistant", "Here."),),
    )


def test_content_that_is_elided_is_none():
    attributes = {
        "gen_ai.operation.name": "chat",
        "events": json.dumps([{"content": "<elided>", "role": "user"}]),
    }
    step = read(attributes, scope="opentelemetry.instrumentation.google_genai")
    assert (step.input, step.output) == (None, None)


def test_a_result_of_bedrocks_is_in_blocks_under_the_newer_instrumentation_too():
    part = {"type": "tool_call_response", "id": "c-1", "response": [{"text": "false"}]}
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [part]}]),
    }
    step = read(attributes, scope="opentelemetry.instrumentation.genai.bedrock")
    assert step.input == (Message("user", results=(ToolResult("c-1", value=False),)),)


def test_the_agents_sdks_response_is_opened_where_a_part_prints_it():
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Here."}],
    }
    said = [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": str({"object": "response", "output": [item]})}],
        }
    ]
    both = {
        "gen_ai.system": "openai",
        "gen_ai.provider.name": "openai",
        "gen_ai.operation.name": "chat",
    }
    step = read(
        {**both, "gen_ai.output.messages": json.dumps(said)},
        scope="opentelemetry.instrumentation.openai_agents",
    )
    assert [x.text for x in step.output] == ["Here."]


def test_a_streamed_call_under_logfire_holds_the_spans_of_the_sdk():
    request = {"request_data": json.dumps({"model": "m"}), "gen_ai.input.messages": "[]"}
    answer = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Here."}]}])
    begun = span(request, scope="logfire.anthropic")
    ended = {**request, "gen_ai.output.messages": answer, "logfire.span_type": "log"}
    first, second = dialects.read(
        [begun, span(ended, scope="logfire.anthropic", span_id="2", start_ns=5)]
    ).steps
    assert (first.kind, first.output, second.kind) == (
        "model",
        (Message("assistant", "Here."),),
        "other",
    )


BEDROCK = "openinference.instrumentation.bedrock"


@pytest.mark.parametrize(
    ("said", "text"), [("I look.\n\n", "I look."), ("\n", None), ("Two\n\nlines.", "Two\n\nlines.")]
)
def test_line_breaks_in_the_place_of_calls_are_no_part_of_an_answer(said, text):
    step = openinference({f"{FLAT}role": "assistant", f"{FLAT}content": said}, scope=BEDROCK)
    assert step.output == (Message("assistant", text),)
