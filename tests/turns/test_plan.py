"""What the agent wrote before it acted, from its model calls or from the messages that it returned."""

import json

from turn_spans import ANSWER, ASK, agent, call, chat, text, told

from spanscore.rebuild import rebuild


def plan(*spans):
    (trace,) = rebuild(spans)
    return trace.plan


CALLS = call("weather", {"city": "Paris"}, "c1", said="I look.")
RETURNED = json.dumps([ASK, CALLS, told("15C", "c1"), ANSWER])


def test_the_text_beside_the_first_calls_is_the_plan():
    assert plan(agent(), chat("1", 1, [ASK], [CALLS]), chat("2", 5, [ASK, CALLS, told("15C", "c1")], [ANSWER])) == (
        "I look."
    )


def test_where_model_calls_leave_out_the_tool_calls_the_agents_messages_tell_the_plan():
    silent = chat("1", 1, [ASK], [text("assistant", "I look.")])
    assert plan(agent(gen_ai__output__messages=RETURNED), silent) == "I look."


def test_a_text_with_which_a_call_stopped_for_tools_is_the_plan_though_the_calls_are_left_out():
    asking = chat("1", 1, [ASK], [text("assistant", "I look.")], gen_ai__response__finish_reasons=["tool-calls"])
    again = chat("2", 5, [ASK], [CALLS])
    assert plan(agent(), asking, again) == "I look."


def test_messages_of_earlier_turns_tell_no_plan_of_this_one():
    returned = json.dumps([ASK, CALLS, told("15C", "c1"), text("user", "Thanks."), ANSWER])
    silent = chat("1", 1, [text("user", "Thanks.")], [ANSWER])
    assert plan(agent(gen_ai__output__messages=returned), silent) is None


def test_text_that_came_before_calls_in_model_calls_is_not_looked_for_again():
    bare = call("weather", {"city": "Paris"}, "c1")
    assert plan(agent(gen_ai__output__messages=RETURNED), chat("1", 1, [ASK], [bare])) is None


def test_another_span_of_the_same_agent_tells_the_plan():
    named = {"gen_ai__agent__name": "guide"}
    retold = agent("b", 10, 20, gen_ai__output__messages=RETURNED, **named)
    assert plan(agent(**named), retold) == "I look."


def test_another_agents_text_is_no_plan_of_the_first():
    retold = agent("b", 10, 20, gen_ai__output__messages=RETURNED, gen_ai__agent__name="clerk")
    assert plan(agent(gen_ai__agent__name="guide"), retold) is None
