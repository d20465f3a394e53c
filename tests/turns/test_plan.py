"""What the agent wrote before it acted, from its model calls or from the messages that it
returned.
"""

import json

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, text, told

from spanscore.rebuild import rebuild


def plan(*spans):
    (trace,) = rebuild(spans)
    return trace.plan


PLAN = "1. look up the weather\n2. pack the bag"
CALLS = call("weather", {"city": "Paris"}, "c1", said=PLAN)
RETURNED = json.dumps([ASK, CALLS, told("15C", "c1"), ANSWER])


def test_the_text_beside_the_first_calls_is_the_plan():
    assert plan(
        agent(),
        chat("1", 1, [ASK], [CALLS]),
        chat("2", 5, [ASK, CALLS, told("15C", "c1")], [ANSWER]),
    ) == (PLAN)


def test_where_model_calls_leave_out_the_tool_calls_the_agents_messages_tell_the_plan():
    silent = chat("1", 1, [ASK], [text("assistant", PLAN)])
    assert plan(agent(gen_ai__output__messages=RETURNED), silent) == PLAN


def test_a_text_with_which_a_call_stopped_for_tools_is_the_plan_though_the_calls_are_left_out():
    asking = chat(
        "1", 1, [ASK], [text("assistant", PLAN)], gen_ai__response__finish_reasons=["tool-calls"]
    )
    again = chat("2", 5, [ASK], [CALLS])
    assert plan(agent(), asking, again) == PLAN


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
    assert plan(agent(**named), retold) == PLAN


def test_another_agents_text_is_no_plan_of_the_first():
    retold = agent("b", 10, 20, gen_ai__output__messages=RETURNED, gen_ai__agent__name="clerk")
    assert plan(agent(gen_ai__agent__name="guide"), retold) is None


def test_an_agent_that_only_goes_on_has_no_plan():
    assert (
        plan(
            agent(),
            chat("1", 1, [ASK], [call("weather", {"city": "Paris"}, "c1", said="Next step.")]),
        )
        is None
    )


def test_an_earlier_text_is_the_plan_where_the_one_beside_the_calls_lists_nothing():
    bare = call("weather", {"city": "Paris"}, "c1", said="OK.")
    spans = (chat("1", 1, [ASK], [text("assistant", PLAN)]), chat("2", 5, [ASK], [bare]))
    assert plan(agent(), *spans) == PLAN


def test_a_text_after_the_first_calls_is_no_plan():
    bare = call("weather", {"city": "Paris"}, "c1")
    spans = (
        chat("1", 1, [ASK], [bare]),
        chat("2", 5, [ASK, bare, told("15C", "c1")], [text("assistant", PLAN)]),
    )
    assert plan(agent(), *spans) is None


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (
            "TodoWrite",
            {"todos": [{"content": "Find a flight", "status": "pending"}, {"content": "Book it"}]},
        ),
        (
            "update_plan",
            {"explanation": "", "plan": [{"step": "Find a flight"}, {"step": "Book it"}]},
        ),
        ("mcp__desk__write_todos", {"todos": ["Find a flight", "Book it"]}),
        (
            "manage_todo_list",
            {"todoList": [{"id": 1, "title": "Find a flight"}, {"id": 2, "title": "Book it"}]},
        ),
        ("createPlan", {"plan": "1) Find a flight 2) Book it"}),
    ],
)
def test_a_list_that_a_tool_for_plans_is_given_is_the_plan(tool, arguments):
    assert (
        plan(agent(), chat("1", 1, [ASK], [call(tool, arguments, "c1")]))
        == "1. Find a flight\n2. Book it"
    )


def test_a_list_that_another_tool_is_given_is_no_plan():
    arguments = {"steps": ["Find a flight", "Book it"]}
    assert plan(agent(), chat("1", 1, [ASK], [call("record_movement", arguments, "c1")])) is None
