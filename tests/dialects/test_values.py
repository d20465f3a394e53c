"""What tools took and returned, and what users asked, comes through whole, whatever it looks
like.
"""

import json

import pytest

from spanscore.model.json import dumps
from spanscore.model.span import Event, LogRecord, Resource, Scope, Span
from spanscore.rebuild import rebuild

VALUES = [
    {"result": 5},
    {"content": "x"},
    {"output": 3},
    {"result": {"id": 1}},
    {"error": None, "result": 1},
    {"error": "±2", "result": 5},
    {"error": 0},
    {"error": ""},
    {"text": "hi"},
    {"id": "00042"},
    {"args": [1], "kwargs": {}},
    {"type": "text", "value": "x"},
    [{"id": 1}],
    [],
    0,
    False,
    None,
    "",
    "00042",
    "0.10",
    "It is 22C.",
]
QUESTIONS = [
    '{"a": 1}',
    '["x"]',
    "{'a': 1}",
    "['x']",
    "42",
    "true",
    '{"messages": []}',
    "[1] is what?",
]


def span(span_id, parent="", start=0, scope="", name="s", events=(), **attributes):
    return Span(
        "t",
        span_id,
        parent,
        name,
        1,
        100 + start,
        200 + start,
        0,
        "",
        attributes,
        Resource(),
        Scope(scope),
        events,
    )


def written(value):
    """As SDKs write a value into an attribute: text as it is, all else as JSON."""
    return value if isinstance(value, str) else dumps(value)


def named(prefix="gen_ai.", **attributes):
    return {prefix + key.replace("__", "."): value for key, value in attributes.items()}


def semconv(value):
    given = named(operation__name="execute_tool", tool__name="f", tool__call__result=written(value))
    return span("2", "1", 5, **given)


def openinference(value):
    mime = "text/plain" if isinstance(value, str) else "application/json"
    given = {"openinference.span.kind": "TOOL", "tool.name": "f", "output.value": written(value)}
    return span("2", "1", 5, **given, **{"output.mime_type": mime})


def openllmetry(value):
    given = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "f",
        "traceloop.entity.output": dumps(value),
    }
    return span("2", "1", 5, **given)


def vercel_ai(value):
    given = {
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.name": "f",
        "ai.toolCall.result": dumps(value),
    }
    return span("2", "1", 5, **given)


def google_adk(value):
    response = value if isinstance(value, dict) else {"result": value}
    given = named(operation__name="execute_tool", tool__name="f")
    return span(
        "2",
        "1",
        5,
        "gcp.vertex.agent",
        **given,
        **{"gcp.vertex.agent.tool_response": dumps(response)},
    )


def langsmith(value):
    returned = value if isinstance(value, dict) else {"output": value}
    return span(
        "2",
        "1",
        5,
        name="f",
        **{"langsmith.span.kind": "tool", "gen_ai.completion": dumps(returned)},
    )


def strands(value):
    content = [{"text": value}] if isinstance(value, str) else [{"json": value}]
    given = named(operation__name="execute_tool", tool__name="f")
    event = Event("gen_ai.choice", 150, {"message": dumps(content)})
    return span("2", "1", 5, "strands.telemetry.tracer", events=(event,), **given)


def pydantic_ai(value):
    given = named(operation__name="execute_tool", tool__name="f", tool__call__result=written(value))
    return span("2", "1", 5, "pydantic-ai", **given)


def mlflow(value):
    given = {
        "mlflow.spanType": '"TOOL"',
        "mlflow.spanFunctionName": '"f"',
        "mlflow.spanOutputs": dumps(value),
    }
    return span("2", "1", 5, **given)


def langfuse(value):
    given = {"langfuse.observation.type": "tool", "langfuse.observation.output": written(value)}
    return span("2", "1", 5, "langfuse-sdk", name="f", **given)


def told(value):
    """As the next model call's input tells it."""
    said = [
        {"role": "user", "parts": [{"type": "text", "content": "Go."}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {}}],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": written(value)}],
        },
    ]
    return span("2", "1", 5, **named(operation__name="chat", input__messages=dumps(said)))


def told_by_openai(value):
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": written(value)},
    ]
    return span(
        "2",
        "1",
        5,
        **{"langfuse.observation.type": "generation"},
        **{"langfuse.observation.input": dumps(said)},
    )


TOOLS = [
    semconv,
    openinference,
    openllmetry,
    vercel_ai,
    google_adk,
    langsmith,
    strands,
    pydantic_ai,
    mlflow,
    langfuse,
    told,
    told_by_openai,
]
ALIKE = {(google_adk, 0), (langsmith, 2)}
"""An object of one key that the framework itself puts around whatever is no object: the bytes are
the same.
"""


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("emitter", TOOLS, ids=lambda x: x.__name__)
def test_what_a_tool_returned_comes_through_whole(emitter, value):
    if any(emitter is of and value == VALUES[at] for of, at in ALIKE):
        pytest.skip("this framework's envelope cannot be told from the tool's own object")
    (trace,) = rebuild([span("1", **named(operation__name="invoke_agent")), emitter(value)])
    (call,) = trace.tool_calls
    assert json.dumps(call.result) == json.dumps(value)
    assert call.error is None


def asked_semconv(question):
    said = [{"role": "user", "parts": [{"type": "text", "content": question}]}]
    return span("1", **named(operation__name="chat", input__messages=dumps(said)))


def asked_plainly(question):
    return span("1", **named(operation__name="chat", prompt=question))


def asked_of_openinference(question):
    said = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": question,
    }
    return span("1", **{"openinference.span.kind": "LLM", **said})


def asked_of_a_function(question):
    return span(
        "1",
        **{
            "openinference.span.kind": "AGENT",
            "input.value": question,
            "input.mime_type": "text/plain",
        },
    )


def asked_of_openllmetry(question):
    said = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": question}
    return span("1", **{"llm.request.type": "chat", **said})


def asked_of_vercel_ai(question):
    return span(
        "1", **{"ai.operationId": "ai.generateText", "ai.prompt": dumps({"prompt": question})}
    )


def asked_of_pydantic_ai(question):
    said = dumps([{"role": "user", "parts": [{"type": "text", "content": question}]}])
    given = named(operation__name="invoke_agent")
    return span("1", scope="pydantic-ai", **given, **{"pydantic_ai.all_messages": said})


def asked_of_google_adk(question):
    request = {"model": "m", "contents": [{"role": "user", "parts": [{"text": question}]}]}
    given = {"gcp.vertex.agent.llm_request": dumps(request)}
    return span("1", scope="gcp.vertex.agent", **named(operation__name="generate_content"), **given)


def asked_of_openai(question):
    said = dumps([{"role": "user", "content": question}])
    return span(
        "1", **{"langfuse.observation.type": "generation", "langfuse.observation.input": said}
    )


QUESTIONERS = [
    asked_semconv,
    asked_plainly,
    asked_of_openinference,
    asked_of_a_function,
    asked_of_openllmetry,
    asked_of_vercel_ai,
    asked_of_pydantic_ai,
    asked_of_google_adk,
    asked_of_openai,
]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("emitter", QUESTIONERS, ids=lambda x: x.__name__)
def test_a_question_that_looks_like_data_is_the_question(emitter, question):
    (trace,) = rebuild([emitter(question)])
    assert trace.user_input == question


def test_a_tools_only_argument_that_is_a_number_in_text_stays_text():
    given = {
        "openinference.span.kind": "TOOL",
        "tool.name": "f",
        "input.value": "42",
        "input.mime_type": "text/plain",
    }
    (trace,) = rebuild(
        [span("1", **named(operation__name="invoke_agent")), span("2", "1", 5, **given)]
    )
    assert trace.tool_calls[0].arguments == "42"


def test_a_tools_own_list_that_looks_like_blocks_stays_one_where_a_log_record_tells_it_as_text():
    own = [{"type": "text", "text": "hi"}]
    spans = [span("1", gen_ai__operation__name="chat", gen_ai__request__model="m")]
    told = {"content": json.dumps(own), "id": "c1"}
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = {"tool_calls": [call]}
    bodies = (("user", {"content": "Hi?"}), ("assistant", asked), ("tool", told))
    logs = [
        LogRecord(
            spans[0].trace_id, "1", at, f"gen_ai.{name}.message", body, {}, Resource(), Scope("s")
        )
        for at, (name, body) in enumerate(bodies, start=1)
    ]
    (trace,) = rebuild(spans, logs)
    assert [x.result for x in trace.tool_calls] == [own]
