"""Which dialect reads a span, and what it makes of the forms that recordings do not cover."""

import json

import pytest

from spanscore import dialects
from spanscore.model.span import Event, LogRecord, Resource, Scope, Span
from spanscore.model.trace import Tool

JS_LANGCHAIN = "@arizeai/openinference-instrumentation-langchain"
LANGCHAIN = "openinference.instrumentation.langchain"
TRACELOOP_LANGCHAIN = "opentelemetry.instrumentation.langchain"


def span(attributes, *, scope="", events=(), name="span", parent="", span_id="1"):
    return Span(
        "t",
        span_id,
        parent,
        name,
        1,
        1,
        2,
        0,
        "",
        attributes,
        Resource(),
        Scope(scope),
        tuple(events),
    )


def log(event_name, body=None, attributes=None, time_ns=0):
    return LogRecord("t", "1", time_ns, event_name, body, attributes or {}, Resource(), Scope())


def read(attributes, *logs, **more):
    (step,) = dialects.read([span(attributes, **more)], logs).steps
    return step


def said(messages):
    return [(x.role, x.text) for x in messages]


@pytest.mark.parametrize(
    ("scope", "attributes", "dialect"),
    [
        ("pydantic-ai", {"gen_ai.operation.name": "chat"}, "pydantic_ai"),
        ("", {"openinference.span.kind": "LLM", "gen_ai.operation.name": "chat"}, "openinference"),
        ("", {"openinference.span.kind": "LLM", "traceloop.workflow.name": "w"}, "openinference"),
        ("", {"traceloop.workflow.name": "w", "gen_ai.operation.name": "chat"}, "openllmetry"),
        ("", {"gen_ai.prompt.0.role": "user", "gen_ai.system": "openai"}, "openllmetry"),
        ("", {"gen_ai.operation.name": "chat"}, "semconv"),
        ("gen_ai", {"gen_ai.operation.name": "chat"}, "vercel_ai"),
        ("ai", {"ai.operationId": "ai.toolCall"}, "vercel_ai"),
        ("ai", {"ai.operationId": "ai.toolCall", "openinference.span.kind": "TOOL"}, "vercel_ai"),
        ("gcp.vertex.agent", {"gen_ai.operation.name": "invoke_agent"}, "google_adk"),
        (
            "",
            {"gcp.vertex.agent.llm_request": "{}", "gen_ai.system": "gcp.vertex.agent"},
            "google_adk",
        ),
        ("strands.telemetry.tracer", {"gen_ai.operation.name": "chat"}, "strands"),
        ("gemini-cli", {"gen_ai.operation.name": "llm_call"}, "gemini_cli"),
        ("", {"mlflow.spanType": '"TOOL"'}, "mlflow"),
        ("", {"genkit:type": "action"}, "genkit"),
        ("", {"mastra.span.type": "agent_run", "gen_ai.operation.name": "invoke_agent"}, "mastra"),
        ("", {"mastra.span.type": "tool_call", "openinference.span.kind": "TOOL"}, "mastra"),
        (
            "@mastra/langfuse",
            {"mastra.span.type": "tool_call", "langfuse.observation.input": "{}"},
            "mastra",
        ),
        ("@voltagent/core", {"entity.type": "agent"}, "voltagent"),
        (
            "@sentry/node",
            {"sentry.origin": "auto.ai.openai", "gen_ai.operation.name": "chat"},
            "sentry",
        ),
        ("@traceloop/instrumentation-openai", {"gen_ai.operation.name": "chat"}, "openllmetry"),
        ("langfuse-sdk", {}, "langfuse"),
        ("", {"langfuse.observation.type": "tool"}, "langfuse"),
        ("langsmith", {"langsmith.span.kind": "llm", "gen_ai.operation.name": "chat"}, "langsmith"),
        ("litellm", {"llm.openai.messages": "[]"}, "litellm"),
        ("app", {"litellm.call_id": "1", "llm.request.type": "completion"}, "litellm"),
        ("", {"litellm.call_id": "1", "openinference.span.kind": "LLM"}, "openinference"),
    ],
)
def test_of_dialects_that_claim_a_span_the_more_special_one_reads_it(scope, attributes, dialect):
    assert read(attributes, scope=scope).dialect == dialect


def test_one_trace_may_mix_dialects():
    spans = [
        span({"openinference.span.kind": "AGENT"}),
        span({"gen_ai.operation.name": "chat"}, span_id="2"),
    ]
    assert [x.dialect for x in dialects.read(spans).steps] == ["openinference", "semconv"]


def test_a_span_that_nobody_reads_is_counted():
    reading = dialects.read([span({"http.route": "/"})])
    assert (reading.steps, reading.unread) == ((), 1)


def test_a_request_without_any_mark_shows_no_genai():
    assert not dialects.shows_genai(b"http.request.method")


@pytest.mark.parametrize("dialect", dialects.all_dialects(), ids=lambda x: x.name)
def test_each_mark_of_a_dialect_shows_genai(dialect):
    assert all(dialects.shows_genai(b"..." + mark + b"...") for mark in dialect.prefilters)


MESSAGES = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]


@pytest.mark.parametrize(
    "value", [json.dumps(MESSAGES), MESSAGES, str(MESSAGES)], ids=["json", "AnyValue", "repr"]
)
def test_messages_come_as_json_arrays_or_python_repr(value):
    assert said(read({"gen_ai.operation.name": "chat", "gen_ai.input.messages": value}).input) == [
        ("user", "Hi")
    ]


def test_a_bad_part_does_not_cost_the_message():
    parts = [
        None,
        5,
        {"type": "hologram"},
        {"type": "tool_call"},
        {"type": "text", "content": "Hi"},
    ]
    step = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [{"role": "user", "parts": parts}, 7],
        }
    )
    assert said(step.input) == [("user", "Hi")]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "tool_call", "id": "1", "name": "f", "arguments": {"x": 1}},
        {"type": "tool_call", "id": "1", "name": "f", "arguments": '{"x": 1}'},
        {"type": "tool_call", "id": ["fc_1", "1"], "name": "f", "arguments": '"{\\"x\\": 1}"'},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}},
        {"type": "tool-call", "toolCallId": "1", "toolName": "f", "args": {"x": 1}},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "1",
            "name": "f",
            "arguments": '{"x": 1}',
        },
        {"toolUse": {"toolUseId": "1", "name": "f", "input": {"x": 1}}},
        {"toolRequest": {"ref": "1", "name": "f", "input": {"x": 1}}},
        {"function_call": {"id": "1", "name": "f", "args": {"x": 1}}},
    ],
)
def test_a_tool_call_is_read_in_every_spelling(part):
    step = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": [{"role": "model", "parts": [part]}],
        }
    )
    (call,) = step.output[0].calls
    assert (call.name, call.arguments, call.call_id in {"1", "fc_1"}) == ("f", {"x": 1}, True)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "15C"}]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "1", "result": "15C"}]},
        {"role": "tool", "tool_call_id": "1", "content": "15C"},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "15C"}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "1", "content": "15C"}],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "1", "content": [{"text": "15C"}]}}],
        },
        {"role": "user", "parts": [{"function_response": {"id": "1", "response": "15C"}}]},
        {"role": "tool", "content": [{"toolResponse": {"ref": "1", "name": "f", "output": "15C"}}]},
        {
            "role": "function",
            "parts": [{"functionResponse": {"id": "1", "name": "f", "response": "15C"}}],
        },
        {"type": "function_call_output", "call_id": "1", "output": "15C"},
    ],
)
def test_a_tool_result_is_read_in_every_spelling(message):
    step = read({"gen_ai.operation.name": "chat", "gen_ai.input.messages": [message]})
    assert [(x.call_id, x.value) for x in step.input[0].results] == [("1", "15C")]


def test_several_results_in_one_message_are_all_kept():
    parts = [{"type": "tool_call_response", "id": str(i), "response": i} for i in range(3)]
    step = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [{"role": "tool", "parts": parts}],
        }
    )
    assert [x.value for x in step.input[0].results] == [0, 1, 2]


def test_a_result_whose_envelope_says_error_states_it():
    part = {"type": "tool_result", "tool_use_id": "1", "content": "no such city", "is_error": True}
    step = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [{"role": "user", "content": [part]}],
        }
    )
    assert step.input[0].results[0].error == "no such city"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "refusal": "I can't."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I can't."}]},
    ],
)
def test_a_refusal_is_an_answer(message):
    step = read({"gen_ai.operation.name": "chat", "gen_ai.output.messages": [message]})
    assert step.output[0].text == "I can't."


def test_reasoning_is_no_text():
    parts = [{"type": "thinking", "content": "hm"}, {"type": "text", "content": "Hi"}]
    step = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": [{"role": "assistant", "parts": parts}],
        }
    )
    assert (step.output[0].text, step.output[0].reasoning) == ("Hi", "hm")


def test_a_history_that_repeats_is_read_on_from_where_it_ended():
    longer = [*MESSAGES, {"role": "assistant", "parts": [{"type": "text", "content": "Ho"}]}]
    spans = [
        span(
            {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(x)},
            span_id=str(i),
        )
        for i, x in enumerate((MESSAGES, longer, MESSAGES))
    ]
    assert [len(x.input) for x in dialects.read(spans).steps] == [1, 2, 1]


def test_log_records_of_one_message_each_are_joined_by_time():
    step = read(
        {"gen_ai.operation.name": "chat", "gen_ai.system": "openai"},
        log(
            "gen_ai.choice",
            {"index": 0, "message": {"content": "Ho"}, "finish_reason": "stop"},
            time_ns=3,
        ),
        log("gen_ai.user.message", {"content": "Hi"}, time_ns=2),
        log("gen_ai.system.message", {"content": "Be brief.", "role": "developer"}, time_ns=1),
    )
    assert (said(step.input), said(step.output)) == (
        [("system", "Be brief."), ("user", "Hi")],
        [("assistant", "Ho")],
    )


def test_a_choice_may_hold_its_calls_beside_the_message():
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    step = read(
        {"gen_ai.system": "x"},
        log("gen_ai.choice", {"message": {"role": "assistant"}, "tool_calls": calls}),
    )
    assert [x.name for x in step.output[0].calls] == ["f"]


def test_messages_come_as_span_events_too():
    events = [
        Event("gen_ai.user.message", 1, {"content": '[{"text": "Hi"}]'}),
        Event(
            "gen_ai.choice",
            2,
            {"message": '[{"toolUse": {"toolUseId": "1", "name": "f", "input": {}}}]'},
        ),
    ]
    step = read({"gen_ai.operation.name": "chat"}, events=events)
    assert (said(step.input), step.output[0].calls[0].name) == ([("user", "Hi")], "f")


def test_messages_come_as_the_events_of_semconv_1_26():
    events = [
        Event("gen_ai.content.prompt", 1, {"gen_ai.prompt": '[{"role": "user", "content": "Hi"}]'}),
        Event(
            "gen_ai.content.completion",
            2,
            {"gen_ai.completion": '[{"role": "assistant", "content": "Ho"}]'},
        ),
    ]
    step = read({"gen_ai.operation.name": "chat", "gen_ai.usage.prompt_tokens": 3}, events=events)
    assert (said(step.input), said(step.output), step.input_tokens) == (
        [("user", "Hi")],
        [("assistant", "Ho")],
        3,
    )


def test_each_details_event_may_carry_a_half():
    name = "gen_ai.client.inference.operation.details"
    step = read(
        {"gen_ai.operation.name": "chat"},
        log(
            name,
            attributes={
                "gen_ai.output.messages": [
                    {"role": "assistant", "parts": [{"type": "text", "content": "Ho"}]}
                ]
            },
        ),
        events=[Event(name, 1, {"gen_ai.input.messages": json.dumps(MESSAGES)})],
    )
    assert (said(step.input), said(step.output)) == ([("user", "Hi")], [("assistant", "Ho")])


def test_a_dotnet_event_holds_its_payload_as_json():
    content = json.dumps({"role": "user", "content": "Hi"})
    step = read(
        {"gen_ai.operation.name": "chat"},
        events=[Event("gen_ai.user.message", 1, {"gen_ai.event.content": content})],
    )
    assert said(step.input) == [("user", "Hi")]


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}},
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
        },
        {"name": "f", "description": "d", "input_schema": {"type": "object"}},
        {"name": "f", "description": "d", "parameters_json_schema": {"type": "object"}},
        {
            "function_declarations": [
                {"name": "f", "description": "d", "parameters": {"type": "object"}}
            ]
        },
    ],
)
def test_a_tool_definition_is_read_in_every_spelling(definition):
    step = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.tool.definitions": json.dumps([definition, None, 3]),
        }
    )
    assert step.tools == (Tool("f", "d", {"type": "object"}),)


def test_numeric_text_counts_tokens():
    step = read({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": "12"})
    assert step.input_tokens == 12


OI_TOOL = {"openinference.span.kind": "TOOL", "tool.name": "f"}


@pytest.mark.parametrize(
    ("scope", "value", "result"),
    [
        ("", {"output": 5}, {"output": 5}),
        (
            "",
            {"type": "tool", "content": "x", "tool_call_id": "1"},
            {"type": "tool", "content": "x", "tool_call_id": "1"},
        ),
        (LANGCHAIN, {"output": 5}, {"output": 5}),
        (LANGCHAIN, {"content": "x", "error": None}, {"content": "x", "error": None}),
        (
            LANGCHAIN,
            {"type": "tool", "data": {"content": "[]", "tool_call_id": "1", "type": "tool"}},
            [],
        ),
        (
            LANGCHAIN,
            {"content": "x", "tool_call_id": "1", "status": "success", "type": "tool"},
            "x",
        ),
        (JS_LANGCHAIN, {"output": {"output": 5}}, {"output": 5}),
        (
            JS_LANGCHAIN,
            {
                "output": {
                    "type": "constructor",
                    "id": ["ToolMessage"],
                    "kwargs": {"content": "0", "tool_call_id": "1"},
                }
            },
            0,
        ),
    ],
)
def test_an_envelope_is_opened_only_where_its_framework_makes_it(scope, value, result):
    assert read(OI_TOOL | {"output.value": json.dumps(value)}, scope=scope).result == result


def test_a_tools_own_object_with_the_fields_of_a_tool_message_is_its_result():
    value = {"content": "x", "tool_call_id": "q", "status": "success", "type": "tool"}
    attributes = {"mlflow.spanType": '"TOOL"', "mlflow.spanOutputs": json.dumps(value)}
    step = read(attributes)
    assert (step.result, step.call_id) == (value, None)


def test_a_tool_message_brings_its_call_id_and_error():
    value = {"content": "refused", "tool_call_id": "1", "status": "error", "type": "tool"}
    step = read(OI_TOOL | {"output.value": json.dumps(value)}, scope=LANGCHAIN)
    assert (step.call_id, step.error) == ("1", "refused")


@pytest.mark.parametrize(
    ("text", "result"),
    [("{'result': None}", {"result": None}), ("False", False), ("None of it", "None of it")],
)
def test_what_the_openai_agents_sdk_made_text_of_is_a_value_again(text, result):
    step = read(
        OI_TOOL | {"output.value": text}, scope="openinference.instrumentation.openai_agents"
    )
    assert (step.result, step.has_result) == (result, True)


def test_plain_text_that_looks_like_a_number_stays_text():
    assert read(OI_TOOL | {"output.value": "500", "output.mime_type": "text/plain"}).result == "500"


def test_langchains_python_repr_is_read_as_arguments():
    step = read(OI_TOOL | {"input.value": "{'city': 'Paris'}"}, scope=LANGCHAIN)
    assert step.arguments == {"city": "Paris"}


def test_flattened_content_blocks_repeat_no_call():
    prefix = "llm.output_messages.0.message."
    step = read(
        {
            "openinference.span.kind": "LLM",
            prefix + "role": "assistant",
            prefix + "contents.0.message_content.type": "text",
            prefix + "contents.0.message_content.text": "Hi",
            prefix + "contents.1.message_content.type": "tool_use",
            prefix + "contents.1.tool_call.function.name": "f",
            prefix + "tool_calls.0.tool_call.function.name": "f",
        }
    )
    assert (step.output[0].text, len(step.output[0].calls)) == ("Hi", 1)


def test_indices_far_apart_cost_nothing():
    step = read({"gen_ai.prompt.999999999.content": "b", "gen_ai.prompt.0.content": "a"})
    assert [x.text for x in step.input] == ["a", "b"]


def test_a_json_question_in_indexed_messages_stays_text():
    question = '[{"city": "Paris"}]'
    assert (
        read({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": question}).input[0].text
        == question
    )


def test_traceloops_langchain_envelopes_are_opened():
    step = read(
        {
            "traceloop.span.kind": "tool",
            "gen_ai.tool.name": "f",
            "gen_ai.tool.call.arguments": json.dumps(
                {"input_str": "{'x': 1}", "tags": [], "inputs": None}
            ),
            "gen_ai.tool.call.result": json.dumps({"output": {"result": 0}, "kwargs": {}}),
        },
        scope=TRACELOOP_LANGCHAIN,
    )
    assert (step.arguments, step.result) == ({"x": 1}, {"result": 0})


def test_a_decorated_tools_own_keys_are_kept():
    step = read(
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "f",
            "traceloop.entity.input": '{"args": [], "kwargs": {"args": 1}}',
            "traceloop.entity.output": '{"output": null, "kwargs": {}}',
        }
    )
    assert (step.arguments, step.result) == ({"args": 1}, {"output": None, "kwargs": {}})


def test_pydantic_ais_run_starts_at_its_new_message_index():
    conversation = [
        *MESSAGES,
        {"role": "assistant", "parts": []},
        {"role": "user", "parts": [{"type": "text", "content": "Go on"}]},
    ]
    step = read(
        {
            "gen_ai.operation.name": "invoke_agent",
            "pydantic_ai.all_messages": json.dumps(
                [*conversation, {"role": "assistant", "parts": []}]
            ),
            "pydantic_ai.new_message_index": 2,
        },
        scope="pydantic-ai",
    )
    assert ([x.role for x in step.input], len(step.output)) == (["user", "assistant", "user"], 1)


def test_pydantic_ais_structured_answer_is_no_tool_call():
    answer = {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "1", "name": "final_result", "arguments": {"x": 1}}],
    }
    step = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": json.dumps([answer]),
            "model_request_parameters": (
                '{"function_tools": [], "output_tools": [{"name": "final_result"}]}'
            ),
        },
        scope="pydantic-ai",
    )
    assert (step.output[0].text, step.output[0].calls) == ('{"x":1}', ())


def test_a_pydantic_ai_tool_of_version_1_is_read():
    step = read(
        {"gen_ai.tool.name": "f", "tool_arguments": '{"x": 1}', "tool_response": "5"},
        scope="pydantic-ai",
        name="running tool",
    )
    assert (step.kind, step.arguments, step.result) == ("tool", {"x": 1}, 5)


def test_reading_changes_nothing_in_what_was_received():
    body = {"content": {"role": "user", "parts": [{"text": "q"}]}}
    read({"gen_ai.operation.name": "chat"}, log("gen_ai.user.message", body))
    assert body == {"content": {"role": "user", "parts": [{"text": "q"}]}}
