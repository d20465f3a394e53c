"""Empty objects by which a framework stands in for content that it was told to hide, and a tool's
own empty objects.
"""

import json

import pytest
from one_span import read, span

from spanscore import dialects
from spanscore.rebuild import rebuild_all

ADK = "gcp.vertex.agent"
SHOWN = '{"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}'
EMPTY = {"gen_ai.prompt": "{}", "gen_ai.completion": "{}"}


def adk_tool(given="{}", returned="{}"):
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    both = {
        "tool_call_args": given,
        "tool_response": returned,
        "llm_request": "{}",
        "llm_response": "{}",
    }
    return span(
        {**attributes, **{f"{ADK}.{key}": x for key, x in both.items()}}, scope=ADK, span_id="2"
    )


def adk_model(request):
    attributes = {
        "gen_ai.operation.name": "call_llm",
        f"{ADK}.llm_request": request,
        f"{ADK}.llm_response": "{}",
    }
    return span(attributes, scope=ADK, name="call_llm")


def langsmith(kind, span_id, **attributes):
    told = {key.replace("__", "."): value for key, value in attributes.items()}
    return span({"langsmith.span.kind": kind, **EMPTY, **told}, name="look", span_id=span_id)


def tool_of(*spans):
    (step,) = (x for x in dialects.read(spans).steps if x.kind == "tool")
    return step.arguments, step.result, step.has_result


def test_adk_hides_arguments_and_results_behind_empty_objects():
    assert tool_of(adk_model("{}"), adk_tool()) == (None, None, False)


def test_a_tool_of_adk_that_takes_and_returns_an_empty_object_keeps_it_where_content_is_shown():
    assert tool_of(adk_model(SHOWN), adk_tool()) == ({}, {}, True)


def test_a_tool_of_adk_that_returned_an_empty_object_keeps_it_where_its_own_arguments_are_shown():
    assert tool_of(adk_tool('{"city": "Rome"}')) == ({"city": "Rome"}, {}, True)


def test_a_tool_of_adk_that_gave_no_response_returned_nothing():
    given, returned = '{"city": "Rome"}', '{"result": "<not specified>"}'
    assert tool_of(adk_tool(given, returned)) == ({"city": "Rome"}, None, False)


def test_langsmith_hides_inputs_and_outputs_behind_empty_objects():
    assert tool_of(langsmith("llm", "1"), langsmith("tool", "2")) == (None, None, False)


@pytest.mark.parametrize(
    ("shown", "read_so"),
    [
        ({"gen_ai__prompt": '{"messages": []}'}, ({}, None, False)),
        ({"gen_ai__completion": '{"generations": []}'}, (None, {}, True)),
        (
            {"gen_ai__prompt": '{"messages": []}', "gen_ai__completion": '{"generations": []}'},
            ({}, {}, True),
        ),
    ],
    ids=["outputs are hidden", "inputs are hidden", "nothing is hidden"],
)
def test_a_tool_keeps_an_empty_object_where_langsmith_shows_that_side(shown, read_so):
    assert tool_of(langsmith("llm", "1", **shown), langsmith("tool", "2")) == read_so


def test_hidden_outputs_of_a_model_do_not_say_that_it_asked_for_no_tool():
    (trace,) = rebuild_all(
        [langsmith("llm", "1", gen_ai__prompt='{"messages": [{"role": "user", "content": "Hi"}]}')]
    )
    assert (trace.user_input, trace.tool_calls, trace.final_output) == ("Hi", None, None)


def test_a_hidden_run_of_a_model_is_still_one():
    assert read({"langsmith.span.kind": "llm", **EMPTY}).kind == "model"


@pytest.mark.parametrize("content", [None, "Hi"], ids=["hidden", "shown"])
def test_pydantic_ai_leaves_out_what_a_tool_returned_and_null_alike(content):
    text = {"type": "text"} if content is None else {"type": "text", "content": content}
    call = {"type": "tool_call", "id": "c1", "name": "look"}
    said = [
        {"role": "user", "parts": [text]},
        {"role": "assistant", "parts": [call]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "name": "look"}]},
    ]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(said)}
    step = read(attributes, scope="pydantic-ai", name="chat gpt")
    is_shown = content is not None
    assert [bool(x.results) for x in step.input] == [False, False, is_shown]
    assert ("input" in step.damaged) is not is_shown
