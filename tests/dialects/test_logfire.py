"""Logfire's spans in the forms that its recordings do not cover: streams, lists of events, MCP,
what it hides.
"""

import json

import pytest

from spanscore import dialects
from spanscore.model.span import STATUS_ERROR, Resource, Scope, Span
from spanscore.model.step import Message
from spanscore.model.trace import RequestedCall
from spanscore.rebuild import rebuild

OPENAI, ANTHROPIC = "logfire.openai", "logfire.anthropic"
AGENTS, MCP = "logfire.openai_agents", "logfire.mcp"
ASKED = [{"role": "user", "content": "Where?"}]


def span(attributes, *, scope=OPENAI, name="span", span_id="1", parent="", status=0):
    as_recorded = {k: v if isinstance(v, str) else json.dumps(v) for k, v in attributes.items()}
    return Span(
        "t", span_id, parent, name, 1, 1, 2, status, "", as_recorded, Resource(), Scope(scope)
    )


def read(attributes, **more):
    (step,) = dialects.read([span(attributes, **more)]).steps
    return step


def test_a_streamed_call_is_told_by_the_record_of_its_answer():
    request = {"messages": ASKED, "model": "m", "stream": True}
    answer = {"message": {"role": "assistant", "content": "There."}, "usage": {"prompt_tokens": 7}}
    begun = span({"request_data": request})
    ended = span(
        {"request_data": request, "response_data": answer, "logfire.span_type": "log"}, span_id="2"
    )
    first, second = dialects.read([begun, ended]).steps
    assert (first.kind, first.output, first.input_tokens, second.kind) == (
        "model",
        (Message("assistant", "There."),),
        7,
        "other",
    )


def test_a_streamed_call_that_failed_is_a_call():
    request = {"messages": ASKED, "model": "m", "stream": True}
    assert read({"request_data": request}, status=STATUS_ERROR).kind == "model"


def test_the_chunks_of_a_stream_are_its_answer():
    answer = {"combined_chunk_content": "There.", "chunk_count": 2}
    assert read({"request_data": {"messages": ASKED}, "response_data": answer}).output == (
        Message("assistant", "There."),
    )


def test_the_answer_is_what_comes_last_among_events():
    events = [
        {"event.name": "gen_ai.system.message", "role": "system", "content": "Be brief."},
        {"event.name": "gen_ai.user.message", "role": "user", "content": "Where?"},
        {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "There."},
    ]
    step = read({"events": events})
    assert ([x.role for x in step.input], step.output) == (
        ["system", "user"],
        (Message("assistant", "There."),),
    )


def test_arguments_of_an_anthropic_model_come_out_of_their_envelope():
    call = {"function": {"name": "f", "arguments": '{"input": {"x": 0}}'}}
    answer = {"message": {"role": "assistant", "tool_calls": [call]}}
    step = read({"request_data": {"messages": ASKED}, "response_data": answer}, scope=ANTHROPIC)
    assert step.output[0].calls == (RequestedCall(None, "f", {"x": 0}),)


def test_arguments_of_an_openai_model_keep_a_key_called_input():
    call = {"function": {"name": "f", "arguments": '{"input": {"x": 0}}'}}
    answer = {"message": {"role": "assistant", "tool_calls": [call]}}
    step = read({"request_data": {"messages": ASKED}, "response_data": answer})
    assert step.output[0].calls == (RequestedCall(None, "f", {"input": {"x": 0}}),)


@pytest.mark.parametrize(
    ("recorded", "value"), [("0", 0), ("null", None), ("[]", []), ("", ""), ("00042", "00042")]
)
def test_a_function_of_an_agent_is_a_tool(recorded, value):
    attributes = {"name": "f", "input": '{"sku": "00042"}', "output": recorded}
    step = read(attributes, scope=AGENTS, name="Function: {name}")
    assert (step.kind, step.tool_name, step.arguments, step.result, step.has_result) == (
        "tool",
        "f",
        {"sku": "00042"},
        value,
        True,
    )


def test_a_function_that_failed_says_why():
    error = {
        "message": "Error running tool (non-fatal)",
        "data": {"tool_name": "f", "error": "no such article"},
    }
    assert (
        read({"name": "f", "error": error}, scope=AGENTS, name="Function: {name}").error
        == "no such article"
    )


def test_a_function_whose_exception_has_no_text_has_failed():
    message, nothing = "Error running tool (non-fatal)", {"tool_name": "f", "error": ""}
    steps = [
        read({"name": "f", "error": x}, scope=AGENTS, name="Function: {name}")
        for x in ({"message": message, "data": nothing}, {"message": "", "data": nothing})
    ]
    assert [x.error for x in steps] == [message, "error"]


def test_an_mcp_request_that_calls_a_tool_is_the_call():
    request = {"method": "tools/call", "params": {"name": "f", "arguments": {"x": 1}}}
    response = {"content": [{"type": "text", "text": "15C"}], "isError": False}
    step = read({"request": request, "response": response}, scope=MCP)
    assert (step.tool_name, step.arguments, step.result, step.error) == ("f", {"x": 1}, "15C", None)


def test_an_mcp_tool_that_failed_without_a_text_has_failed():
    request = {"method": "tools/call", "params": {"name": "f", "arguments": {}}}
    response = {"content": [{"type": "text", "text": ""}], "isError": True}
    assert read({"request": request, "response": response}, scope=MCP).error == "error"


def test_an_mcp_tool_that_failed_says_so():
    request = {"method": "tools/call", "params": {"name": "f", "arguments": {}}}
    response = {"content": [{"type": "text", "text": "no such city"}], "isError": True}
    assert read({"request": request, "response": response}, scope=MCP).error == "no such city"


def test_any_other_mcp_request_is_bookkeeping():
    assert read({"request": {"method": "tools/list"}}, scope=MCP).kind == "other"


def test_an_announced_span_is_not_read():
    announced = span({"request_data": {"messages": ASKED}, "logfire.span_type": "pending_span"})
    assert dialects.read([announced]).spans == ()


def test_a_hidden_session_is_none():
    assert read({"session.id": "[Scrubbed due to 'session']"}).session_id is None


def test_hidden_messages_are_damaged():
    hidden = [{"role": "user", "content": "[Scrubbed due to 'password']"}]
    step = read({"request_data": {"messages": hidden}, "response_data": {}})
    assert step.input[0].damaged == {"text"}


def around(**named):
    """The turn of a model call in a span that the application opened with Logfire, with these
    attributes.
    """
    messages = {"messages": [{"role": "user", "content": "Where?"}]}
    answer = {"message": {"role": "assistant", "content": "In Lyon."}}
    called = {"request_data": json.dumps(messages), "response_data": json.dumps(answer)}
    (trace,) = rebuild(
        [
            span(
                {key.replace("__", "."): x for key, x in named.items()},
                scope="logfire",
                name="turn",
            ),
            span(called, scope="logfire.openai", parent="1", span_id="2"),
        ]
    )
    return trace.session_id, trace.user_id


@pytest.mark.parametrize(
    "key", ["session_id", "conversation_id", "thread_id", "session__id", "gen_ai__conversation__id"]
)
def test_the_session_on_an_applications_span_is_that_of_the_calls_in_it(key):
    assert around(**{key: "floor-7"}) == ("floor-7", None)


@pytest.mark.parametrize("key", ["user_id", "user__id", "enduser__id"])
def test_the_user_on_an_applications_span_is_that_of_the_calls_in_it(key):
    assert around(**{key: 42}) == (None, "42")


def test_the_conventions_name_of_a_session_goes_before_an_applications():
    assert around(session_id="a", session__id="b") == ("b", None)


def test_a_session_on_a_call_itself_as_logfires_baggage_puts_it_there_is_read():
    given = {
        "request_data": '{"messages": []}',
        "response_data": "{}",
        "session_id": "floor-7",
        "user_id": "clerk",
    }
    step = read(given, scope="logfire.openai")
    assert (step.session_id, step.user_id) == ("floor-7", "clerk")


def test_a_session_id_on_a_span_that_is_not_logfires_may_mean_anything():
    reading = dialects.read([span({"session_id": "floor-7"}, scope="shop.web")])
    assert reading.steps == ()
