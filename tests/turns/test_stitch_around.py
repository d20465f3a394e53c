"""Traces of tools, and those that link to others or lie within them, are parts of these others'
turns.
"""

import json
from dataclasses import replace

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, text, told, tool
from turn_traces import RAIN, alone, answers, asks, rebuilt

from spanscore.model.span import Link
from spanscore.rebuild import rebuild_all


def test_a_tools_trace_is_found_by_the_id_of_its_call():
    ran = alone(3, tool("x", 2, "weather", call__id="c1", call__result="15C"))
    (trace,) = rebuild_all([asks(1, 0, RAIN), ran])
    assert [(x.result, x.span_id) for x in trace.tool_calls] == [("15C", ran.span_id)]


def test_a_tools_trace_without_an_id_is_found_within_its_session():
    ran = alone(3, tool("x", 2, "weather"), session__id="s")
    second = answers(2, 5, RAIN, told("15C", "c1"), session__id="s")
    assert rebuilt(asks(1, 0, RAIN, session__id="s"), ran, second) == [[1, 3, 2]]


@pytest.mark.parametrize("start", [-5, 9])
def test_a_tool_that_ran_at_another_time_is_not_the_turns(start):
    ran = alone(3, tool("x", start, "weather"), session__id="s")
    second = answers(2, 5, RAIN, told("15C", "c1"), session__id="s")
    assert rebuilt(asks(1, 0, RAIN, session__id="s"), ran, second) == [[1, 2]]


def test_a_tools_trace_alone_is_no_agent_trace():
    assert rebuilt(alone(3, tool("x", 2, "weather", call__id="c1"), session__id="s")) == []


def test_a_tools_trace_that_two_turns_may_have_asked_for_is_neithers():
    one, other = (asks(x, 0, call("weather", {}), session__id="s") for x in (1, 2))
    assert rebuilt(one, other, alone(3, tool("x", 2, "weather"), session__id="s")) == [[1], [2]]


def test_an_answer_that_is_fetched_later_belongs_to_what_was_asked():
    asked = alone(1, chat("x", 0, [ASK], gen_ai__response__id="r1"))
    fetched = alone(2, chat("x", 9, None, [ANSWER], gen_ai__response__id="r1"))
    (trace,) = rebuild_all([asked, fetched])
    assert (trace.user_input, trace.final_output, len(trace.model_calls)) == (
        "Paris or Berlin?",
        "Paris, as ever.",
        1,
    )


def test_work_that_a_running_agent_has_done_by_another_is_a_step_of_its_turn():
    boss = alone(
        1,
        agent(
            end=50, gen_ai__agent__name="boss", gen_ai__output__messages='[{"role": "assistant"}]'
        ),
    )
    expert = alone(2, agent(start=10, end=20, gen_ai__agent__name="expert"), after=boss)
    ran = alone(3, tool("x", 12, "weather"), after=expert)
    (trace,) = rebuild_all([boss, expert, ran])
    assert (trace.agent_name, [(x.name, x.agent) for x in trace.tool_calls]) == (
        "boss",
        [("weather", "expert")],
    )


def test_an_answer_delivered_to_the_next_agent_is_the_same_turn():
    writer = answers(1, 0, answer=text("assistant", "A draft of the letter."))
    given = [text("user", "Improve this:\nA draft of the letter.")]
    (trace,) = rebuild_all([writer, answers(2, 9, given=given, after=writer)])
    assert (trace.user_input, trace.final_output) == ("Paris or Berlin?", "Paris, as ever.")


def test_an_answer_to_no_question_of_its_own_belongs_to_the_turn_it_links_to():
    summed_up = alone(2, chat("x", 9, None, [text("assistant", "In short: Paris.")]))
    first = answers(1, 0)
    assert rebuilt(first, replace(summed_up, links=(Link(first.trace_id, first.span_id),))) == [
        [1, 2]
    ]


def test_a_link_to_an_answered_turn_that_tells_no_more_joins_nothing():
    first = answers(1, 0)
    assert rebuilt(first, answers(2, 9, given=[text("user", "And Rome?")], after=first)) == [
        [1],
        [2],
    ]


def test_what_links_to_several_turns_belongs_to_none():
    first, second = answers(1, 0), answers(2, 0, given=[text("user", "And Rome?")])
    links = tuple(Link(x.trace_id, x.span_id) for x in (first, second))
    gathering = replace(alone(3, tool("x", 1, "store")), links=links)
    assert rebuilt(first, second, gathering) == [[1], [2]]


def wrapped(number, start, end, *, answer="Paris, as ever.", session="s"):
    """An agent that tells what it was asked and answered, and shows no model call, as a trace."""
    said = {"gen_ai.input.messages": [ASK], "gen_ai.output.messages": [text("assistant", answer)]}
    return alone(
        number,
        agent(span_id="x", start=start, end=end),
        gen_ai__conversation__id=session,
        **{key: json.dumps(value) for key, value in said.items()},
    )


def hooked(number, start, end, *, session="s"):
    """An agent that tells nothing itself, around a model call, as a trace."""
    top = alone(number, agent(span_id="x", start=start, end=end), gen_ai__conversation__id=session)
    model = chat("m", start + 1, [ASK], [ANSWER], parent=top.span_id)
    return [top, replace(model, trace_id=top.trace_id, span_id=f"{number + 100:016x}")]


def test_a_run_that_is_reported_by_what_wraps_it_and_again_inside_is_one_turn():
    assert rebuilt(wrapped(1, 0, 100), *hooked(2, 1, 90)) == [[1, 2]]


@pytest.mark.parametrize(
    "other",
    [
        wrapped(1, 0, 100, answer="Berlin."),
        wrapped(1, 0, 100, session="another"),
        wrapped(1, 0, 50),
        wrapped(1, 2, 100),
    ],
)
def test_a_run_with_another_answer_session_or_time_is_another_turn(other):
    assert len(rebuilt(other, *hooked(2, 1, 90))) == 2


def test_two_equal_runs_inside_one_are_not_joined_to_it():
    assert len(rebuilt(wrapped(1, 0, 100), *hooked(2, 1, 40), *hooked(3, 50, 90))) == 3
