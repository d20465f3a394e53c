"""Pipecat's context and turns, in forms its recordings do not cover."""

import json

import pytest

from spanscore import dialects
from spanscore.model.span import Resource, Scope, Span
from spanscore.rebuild import rebuild

ASKED = {"role": "user", "content": "Where?"}


def span(span_id, parent_id="", *, name="llm", start_ns=1, **attributes):
    said = {key.replace("__", "."): value for key, value in attributes.items()}
    return Span(
        "t", span_id, parent_id, name, 1, start_ns, 99, 0, "", said, Resource(), Scope("pipecat")
    )


def model(span_id, messages, parent_id="", *, start_ns=1, **attributes):
    return span(span_id, parent_id, start_ns=start_ns, input=json.dumps(messages), **attributes)


def call(call_id):
    return {
        "role": "assistant",
        "tool_calls": [{"id": call_id, "function": {"name": "f", "arguments": "{}"}}],
    }


def result(call_id, content):
    return {"role": "tool", "content": content, "tool_call_id": call_id}


def read(*spans):
    return dialects.read(spans).steps


def test_what_the_model_was_given_is_read_without_the_conventions():
    (step,) = read(model("1", [ASKED]))
    assert [x.text for x in step.input] == ["Where?"]


def test_a_turn_is_an_agent_and_the_conversation_around_it_is_not():
    steps = read(
        *(
            span(str(i), name=x, conversation__id="00042")
            for i, x in enumerate(("turn", "conversation"))
        )
    )
    assert [(x.kind, x.session_id) for x in steps] == [("agent", "00042"), ("other", "00042")]


def test_a_models_calls_are_those_of_the_next_request():
    after = [ASKED, call("c1"), result("c1", "1"), call("c2"), result("c2", "2")]
    first, _ = read(model("1", [ASKED], output="I look."), model("2", after, start_ns=2))
    assert [(x.text, [y.call_id for y in x.calls]) for x in first.output] == [
        ("I look.", ["c1", "c2"])
    ]


def test_a_request_of_another_conversation_tells_no_calls():
    first, _ = read(
        model("1", [ASKED]),
        model("2", [{"role": "user", "content": "When?"}, call("c1")], start_ns=2),
    )
    assert first.output == ()


@pytest.mark.parametrize("word", ["COMPLETED", "IN_PROGRESS"])
def test_a_word_that_stands_for_a_result_is_none(word):
    (step,) = read(model("1", [ASKED, call("c1"), result("c1", word)]))
    assert [x.results for x in step.input] == [(), (), ()]


def test_a_tools_own_word_is_its_result():
    (step,) = read(model("1", [ASKED, call("c1"), result("c1", json.dumps("COMPLETED"))]))
    assert [x.value for x in step.input[2].results] == ["COMPLETED"]


def test_a_call_that_was_cancelled_failed():
    (step,) = read(model("1", [ASKED, call("c1"), result("c1", "CANCELLED")]))
    assert [x.error for x in step.input[2].results] == ["CANCELLED"]


def test_the_user_of_a_conversation_is_that_of_all_its_turns():
    turns = [span(str(i), "9", name="turn", start_ns=i, conversation__id="a") for i in (1, 2)]
    steps = read(span("9", name="conversation", conversation__id="a", user__id="007"), *turns)
    assert {x.user_id for x in steps} == {"007"}


def test_a_turn_in_which_the_user_goes_on_after_an_answer_is_none():
    then = [ASKED, {"role": "assistant", "content": "There."}, {"role": "user", "content": "Why?"}]
    turn = span("9", name="turn", conversation__id="a")
    first, second = (
        model("1", [ASKED], "9", output="There."),
        model("2", then, "9", start_ns=2, output="So."),
    )
    assert [x.user_input for x in rebuild([turn, first, second])] == ["Where?", "Why?"]


def test_what_pipecat_says_of_a_function_that_failed_is_an_error():
    said = "The function `f` failed and returned no result."
    (step,) = read(model("1", [ASKED, call("c1"), result("c1", json.dumps(said))]))
    assert [x.error for x in step.input[2].results] == [said]


def test_a_turn_in_which_the_user_says_more_before_an_answer_is_one():
    turn, more = span("9", name="turn", conversation__id="a"), {"role": "user", "content": "Quick."}
    calls = model("1", [ASKED], "9"), model("2", [ASKED, more], "9", start_ns=2, output="There.")
    (trace,) = rebuild([turn, *calls])
    assert trace.final_output == "There."
