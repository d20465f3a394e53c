"""OpenLLMetry: which of its keys names a session, and what its instrumentations of Google's SDKs
make text of.
"""

import json

import pytest
from one_span import read, span

from spanscore import dialects
from spanscore.model.span import Resource, Scope, Span
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall
from spanscore.rebuild import explain_all, rebuild_all

GOOGLE = "opentelemetry.instrumentation.google_generativeai"
ASSOCIATED = "traceloop.association.properties."
SESSIONS = [
    *(ASSOCIATED + "session_id", "gen_ai.conversation.id"),
    *(ASSOCIATED + x for x in ("conversation_id", "chat_id", "thread_id")),
]
COUNTED = {"gen_ai.request.model": "gemini-2.5-flash", "gen_ai.usage.output_tokens": 3}


def gemini(attributes, **more):
    return read({"llm.request.type": "completion", **attributes}, scope=GOOGLE, **more)


def printed(name, fields, identity=""):
    """A result as str() prints the part that holds it."""
    inside = "".join(
        f'    fields {{\n      key: "{x}"\n      value {{\n        {y}\n      }}\n    }}\n'
        for x, y in fields
    )
    return f'function_response {{\n  name: "{name}"\n  response {{\n{inside}  }}\n{identity}}}\n'


@pytest.mark.parametrize("first", range(len(SESSIONS)))
def test_of_the_keys_that_name_a_session_the_first_one_does(first):
    told = {key: f"s{number}" for number, key in enumerate(SESSIONS) if number >= first}
    assert read({"traceloop.span.kind": "task", **told}).session_id == f"s{first}"


def test_what_an_application_in_typescript_calls_session_and_user_is_read():
    told = {ASSOCIATED + "chatId": "s", ASSOCIATED + "userId": "ann"}
    step = read({"traceloop.span.kind": "task", **told})
    assert (step.session_id, step.user_id) == ("s", "ann")


def test_the_thread_that_lost_against_the_session_is_told():
    told = {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": '"Where?"',
        "traceloop.entity.output": '"Here."',
    }
    named = {ASSOCIATED + "session_id": "s-1", ASSOCIATED + "thread_id": "t-1"}
    ((trace, explanation),) = explain_all([span({**told, **named})])
    lost = explanation.facts["session_id"].lost
    assert trace.session_id == "s-1"
    assert [(x.value, x.attributes) for x in lost] == [("t-1", (ASSOCIATED + "thread_id",))]


def test_the_oldest_instrumentations_put_a_line_break_behind_the_question():
    assert gemini({"gen_ai.prompt.0.user": "Where?\n\n"}).input == (Message("user", "Where?\n"),)


def test_results_that_were_sent_as_protobuf_messages_are_not_said_by_the_user():
    sent = (
        printed("f", [("result", "number_value: 0")])
        + "\n"
        + printed("g", [("b", "bool_value: true")])
        + "\n"
    )
    (message,) = gemini({"gen_ai.prompt.0.user": sent}).input
    assert (message.text, message.results) == (
        None,
        (ToolResult(None, 0), ToolResult(None, {"b": True})),
    )


def test_a_result_in_a_block_has_the_id_that_it_is_printed_with():
    sent = printed("f", [("result", "string_value: 'a b'")], '  id: "c-1"\n')
    said = json.dumps([{"type": "text", "text": sent}])
    (message,) = gemini({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": said}).input
    assert message.results == (ToolResult("c-1", "a b"),)


@pytest.mark.parametrize(
    "said",
    [
        'function_response {\n  name: "f"\n} and so on',
        'function_response {\n  name: "f"\n  response {\n    what is this\n  }\n}\n',
        "function_response {\n",
    ],
)
def test_what_only_looks_like_a_printed_result_is_said_by_the_user(said):
    assert gemini({"gen_ai.prompt.0.user": said + "\n"}).input == (Message("user", said),)


def test_a_result_of_which_only_the_size_is_printed_is_damaged():
    part = (
        "function_response=FunctionResponse(\n  name='f',\n  response={\n    'result': <dict"
        " len=6>\n  }\n) text=None"
    )
    (message,) = gemini(
        {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": blocks(part)}
    ).input
    assert (message.results, message.damaged) == ((ToolResult(None, None),), {"results"})


def test_arguments_of_which_only_the_size_is_printed_are_damaged():
    part = (
        "function_call=FunctionCall(\n  args={\n    'a': {<... 2 items at Max depth ...>}\n  },\n "
        " name='f'\n)"
    )
    (message,) = gemini(
        {"gen_ai.prompt.0.role": "model", "gen_ai.prompt.0.content": blocks(part)}
    ).input
    assert (message.calls, message.damaged) == ((RequestedCall(None, "f"),), {"calls"})


def test_a_mark_inside_of_a_text_hides_nothing():
    part = (
        "function_call=FunctionCall(\n  args={\n    'a': 'see <dict len=6>'\n  },\n  name='f'\n)"
        " text=None"
    )
    (message,) = gemini(
        {"gen_ai.prompt.0.role": "model", "gen_ai.prompt.0.content": blocks(part)}
    ).input
    assert message.calls == (RequestedCall(None, "f", {"a": "see <dict len=6>"}),)


def blocks(part):
    return json.dumps([{"type": "text", "text": part}])


@pytest.mark.parametrize(("counted", "output"), [(COUNTED, ()), ({}, None)])
def test_an_answer_without_text_asked_for_tools_as_its_tokens_show(counted, output):
    assert (
        gemini(
            {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Where?", **counted}
        ).output
        == output
    )


def test_a_trace_for_each_call_that_leaves_out_its_calls_is_one_turn():
    """As google-genai 1.51 under OpenLLMetry 0.48 without decorators: the next call's messages tell
    what was asked.
    """
    call = "function_call=FunctionCall(\n  args={\n    'a': 1\n  },\n  name='f'\n) text=None"
    answer = (
        "function_response=FunctionResponse(\n  name='f',\n  response={\n    'result': 2\n  }\n)"
        " text=None"
    )
    given = [
        ("user", '[{"type": "text", "text": "Where?"}]'),
        ("model", blocks(call)),
        ("user", blocks(answer)),
    ]
    first = prompts(given[:1]) | COUNTED
    second = (
        prompts(given)
        | COUNTED
        | {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Here."}
    )
    (trace,) = rebuild_all([traced("1", 1, first), traced("2", 5, second)])
    assert (trace.user_input, trace.final_output) == ("Where?", "Here.")
    assert [(x.name, x.arguments, x.result) for x in trace.tool_calls] == [("f", {"a": 1}, 2)]


def prompts(given):
    told = ((f"gen_ai.prompt.{at}.", *x) for at, x in enumerate(given))
    return {
        key: value
        for at, role, said in told
        for key, value in ((at + "role", role), (at + "content", said))
    }


def traced(trace_id, start_ns, attributes):
    place = trace_id, trace_id, "", "gemini.generate_content", 3, start_ns, start_ns + 1
    return Span(
        *place, 0, "", {"llm.request.type": "completion", **attributes}, Resource(), Scope(GOOGLE)
    )


def test_a_chats_call_is_counted_once_though_what_it_calls_is_recorded_too():
    told = {
        "llm.request.type": "completion",
        "gen_ai.usage.prompt_tokens": 5,
        "gen_ai.usage.completion_tokens": 3,
    }
    sent = {**told, "gen_ai.prompt.0.user": "Where?\n", "gen_ai.request.model": "unknown"}
    made = {**told, "gen_ai.request.model": "models/gemini-2.5-flash"}
    spans = [
        Span("t", "1", "0", "gemini.send_message", 3, 1, 9, 0, "", sent, Resource(), Scope(GOOGLE)),
        Span(
            "t",
            "2",
            "0",
            "gemini.generate_content",
            3,
            2,
            8,
            0,
            "",
            made,
            Resource(),
            Scope(GOOGLE),
        ),
    ]
    chat, call = dialects.read(spans).steps
    assert (chat.kind, chat.model, call.kind) == ("model", "models/gemini-2.5-flash", "other")
