"""Work that goes from one agent to another: what tells whose it is where not every span tells."""

import json
from dataclasses import replace

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, span, text, told, tool

from spanscore.model.span import Link
from spanscore.rebuild import rebuild, rebuild_all

HAND_OVER = call("transfer_to_clerk", {}, "c1", said="The clerk knows.")
LOOK = call("lookup", {"x": "00042"}, "c2")
PRODUCER, CONSUMER = 4, 5


def only(*spans):
    (trace,) = rebuild(spans)
    return trace


def named(span_id, start, end, name=None, parent=""):
    more = {} if name is None else {"gen_ai__agent__name": name}
    return span(span_id, parent, start, end, gen_ai__operation__name="invoke_agent", **more)


def two_agents():
    """The desk says something, and that it handed over only the clerk's input tells."""
    return (
        named("a", 0, 9, "desk"),
        chat("1", 1, [ASK], [text("assistant", "The clerk knows.")]),
        named("b", 10, 90, "clerk"),
        chat("2", 11, [ASK, HAND_OVER, told("ok", "c1")], [LOOK], parent="b"),
        tool("3", 20, "lookup", parent="b", call__id="c2"),
        chat(
            "4", 30, [ASK, HAND_OVER, told("ok", "c1"), LOOK, told(0, "c2")], [ANSWER], parent="b"
        ),
    )


def test_a_call_that_only_the_next_agent_was_told_of_is_the_first_ones():
    calls = only(*two_agents()).tool_calls
    assert [(x.name, x.agent) for x in calls] == [
        ("transfer_to_clerk", "desk"),
        ("lookup", "clerk"),
    ]


def test_whose_call_it_was_is_open_where_no_model_call_shows_that_could_have_asked_for_it():
    _, first, *rest = two_agents()
    other = replace(first, attributes={**first.attributes, "gen_ai.input.messages": "[]"})
    assert [
        x.agent
        for x in only(named("a", 0, 9, "desk"), other, *rest).tool_calls
        if x.name != "lookup"
    ] == [None]


def test_of_agents_side_by_side_the_first_without_a_name_is_not_called_as_the_next():
    _, *rest = two_agents()
    assert only(named("a", 0, 9), *rest).agent_name is None


def test_rounds_of_one_agent_have_its_name_though_the_first_does_not_tell_it():
    rules = text("system", "Be brief.")
    trace = only(
        named("a", 0, 9),
        chat("1", 1, [rules, ASK], [LOOK]),
        named("b", 10, 90, "desk"),
        chat("2", 11, [rules, ASK, LOOK, told(0, "c2")], [ANSWER], parent="b"),
    )
    assert trace.agent_name == "desk"


def test_a_call_belongs_to_the_agent_inside_the_chat_that_has_it_run():
    trace = only(
        agent("a", gen_ai__agent__name="group"),
        named("b", 1, 9, "clerk", parent="a"),
        chat("1", 2, [ASK], [LOOK], parent="b"),
        tool("2", 10, "lookup", call__id="c2"),
    )
    assert [x.agent for x in trace.tool_calls] == ["clerk"]


def test_a_streamed_answer_that_repeats_what_was_said_beside_hidden_calls_ends_with_the_answer():
    said = text("assistant", "The clerk knows.Paris, as ever.")
    trace = only(
        agent(
            gen_ai__output__messages=chat("0", 0, produced=[said]).attributes[
                "gen_ai.output.messages"
            ]
        ),
        chat("1", 1, [ASK], [call("lookup", {}, "c2")]),
        chat("2", 9, [ASK, call("lookup", {}, "c2"), told(0, "c2")], [ANSWER]),
    )
    assert trace.final_output == "Paris, as ever."


@pytest.mark.parametrize(("kind", "turns"), [(PRODUCER, 1), (CONSUMER, 1), (1, 2)])
def test_a_trace_that_carries_a_message_from_another_is_the_same_turn(kind, turns):
    desk = [named("a", 0, 9, "desk"), chat("1", 1, [ASK], [text("assistant", "Done.")])]
    clerk = [named("b", 20, 90, "clerk", parent="m"), chat("2", 21, [ASK], [ANSWER], parent="b")]
    message = replace(span("m", start=20, end=90), kind=kind, links=(Link("t1", "a"),))
    assert (
        len(rebuild_all([*desk, *(replace(x, trace_id="t2") for x in (message, *clerk))])) == turns
    )


def test_a_turn_goes_on_though_each_answer_numbers_its_calls_anew():
    first, second = call("lookup", {"x": "1"}, "lookup_0"), call("lookup", {"x": "2"}, "lookup_0")
    said = [ASK, first, told(1, "lookup_0"), second, told(2, "lookup_0")]
    steps = [
        chat("1", 1, said[:1], [first], parent=""),
        chat("2", 2, said[:3], [second], parent=""),
        chat("3", 3, said, [ANSWER], parent=""),
    ]
    (trace,) = rebuild_all([replace(x, trace_id=f"t{x.span_id}") for x in steps])
    assert [x.arguments for x in trace.tool_calls] == [{"x": "1"}, {"x": "2"}]


def test_a_call_belongs_to_the_agent_that_the_model_call_names():
    trace = only(
        agent("a", gen_ai__agent__name="graph"),
        chat("1", 2, [ASK], [LOOK], gen_ai__agent__name="clerk"),
        tool("2", 10, "lookup", call__id="c2"),
    )
    assert [x.agent for x in trace.tool_calls] == ["clerk"]


def test_where_only_agents_tell_what_they_asked_for_calls_come_in_the_order_of_their_spans():
    asked = json.dumps(
        [ASK, call("ask_clerk", {"x": 1}), told("Here."), call("hours", {"day": "Monday"}), ANSWER]
    )
    desk = agent("a", gen_ai__output__messages=asked)
    asks, tracks = (
        tool("1", 10, "ask_clerk", call__arguments='{"x": 1}'),
        tool("2", 11, "track", parent="1"),
    )
    hours = tool("3", 20, "hours", call__arguments='{"day": "Monday"}')
    (found,) = rebuild([desk, asks, tracks, hours])
    assert [x.name for x in found.tool_calls] == ["ask_clerk", "track", "hours"]
