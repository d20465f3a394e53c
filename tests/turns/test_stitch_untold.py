"""A turn over several traces is found though its model calls do not tell which tools they asked
for.
"""

import pytest
from turn_spans import ASK, chat, text, told, tool
from turn_traces import RAIN, SUN, alone, answers, rebuilt

from spanscore.rebuild import rebuild_all


def silent(number, start, *heard, said="", **attributes):
    """A model call that does not tell which tools it asked for, as a trace."""
    return alone(number, chat("x", start, [ASK, *heard], [text("assistant", said)]), **attributes)


@pytest.mark.parametrize("said", ["", "Plan: look up the rain."])
def test_a_model_call_that_does_not_tell_its_calls_is_found_by_all_that_was_said(said):
    plan = [text("assistant", said)] if said else []
    second = answers(2, 5, *plan, RAIN, told("15C", "c1"))
    (trace,) = rebuild_all([silent(1, 0, said=said), second])
    assert (len(trace.trace_ids), len(trace.tool_calls), trace.final_output) == (
        2,
        1,
        "Paris, as ever.",
    )


def test_a_turn_of_calls_that_are_not_told_goes_on_over_many_traces():
    known = [RAIN, told("15C", "c1")]
    last = answers(3, 9, *known, SUN, told("11C", "c2"))
    assert rebuilt(silent(1, 0), silent(2, 5, *known), last) == [[1, 2, 3]]


RESULT = {"role": "tool", "parts": [{"type": "text", "content": "15C"}]}
SAID = text("assistant", "I look it up.")


def left_out(number, start, **attributes):
    """A model call that asked for a tool, and does not tell for which."""
    reasons = {"gen_ai__response__finish_reasons": ["tool_calls"]}
    return alone(number, chat("x", start, [ASK], [SAID], **reasons), **attributes)


def test_neither_the_calls_nor_their_ids_need_be_told_where_all_else_was_said_before():
    assert rebuilt(left_out(1, 0), answers(2, 5, SAID, RESULT)) == [[1, 2]]


def test_where_calls_are_left_out_something_else_that_was_said_is_another_conversation():
    assert rebuilt(left_out(1, 0), answers(2, 5, text("assistant", "Let me see."), RESULT)) == [
        [1],
        [2],
    ]


def test_a_tool_that_ran_while_a_call_that_is_not_told_was_waited_for_is_the_turns():
    named = {"session__id": "s"}
    ran = alone(3, tool("x", 2, "weather", call__result="15C"), **named)
    (trace,) = rebuild_all([left_out(1, 0, **named), answers(2, 5, SAID, RESULT, **named), ran])
    assert [(x.name, x.result) for x in trace.tool_calls] == [("weather", "15C")]


def test_a_call_that_is_not_told_and_was_never_answered_is_no_later_tools():
    named = {"session__id": "s"}
    ran = alone(3, tool("x", 900, "weather", call__result="15C"), **named)
    assert rebuilt(left_out(1, 0, **named), ran) == [[1]]


def test_a_finish_reason_says_that_calls_were_left_out():
    first = alone(1, chat("x", 0, [ASK], gen_ai__response__finish_reasons=["tool_calls"]))
    assert rebuilt(first, answers(2, 5, RAIN, told("15C", "c1"))) == [[1, 2]]


@pytest.mark.parametrize("said", ["Paris.", "Plan: look up the sun."])
def test_a_model_call_that_said_something_else_is_not_gone_on_with(said):
    second = answers(2, 5, text("assistant", "Plan: look up the rain."), RAIN, told("15C", "c1"))
    assert rebuilt(silent(1, 0, said=said), second) == [[1], [2]]


def test_an_answer_is_not_gone_on_with_by_the_next_question():
    first = silent(1, 0, said="Paris.")
    second = answers(
        2, 5, text("assistant", "Paris."), text("user", "Why?"), RAIN, told("15C", "c1")
    )
    assert rebuilt(first, second) == [[1], [2]]


def test_two_that_do_not_tell_their_calls_at_the_same_time_are_joined_to_none():
    last = [answers(3, 5, RAIN, told("15C", "c1")), answers(4, 5, RAIN, told("15C", "c1"))]
    assert rebuilt(silent(1, 0), silent(2, 0), *last) == [[1], [2], [3], [4]]
