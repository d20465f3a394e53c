"""What came before a turn: what the model was given of it, nothing, or what was not recorded."""

import json

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, text, told

from spanscore.model.trace import AgentTrace, PastMessage
from spanscore.rebuild import rebuild

RULES = text("system", "Be brief.")
EARLIER = [text("user", "Hello."), text("assistant", "Hi!")]
ASKED = json.dumps([ASK])
CALLS = call("weather", {"city": "Paris"}, "c1")


def trace(*spans):
    (found,) = rebuild(spans)
    return found


def test_a_request_that_begins_with_the_users_input_shows_that_nothing_came_before():
    assert trace(agent(), chat("1", 1, [RULES, ASK], [ANSWER])).history == ()


def test_messages_before_the_input_are_the_history():
    found = trace(agent(), chat("1", 1, [RULES, *EARLIER, ASK], [ANSWER]))
    assert found.history == (PastMessage("user", "Hello."), PastMessage("assistant", "Hi!"))


NOT_RECORDED = {
    "content off": (agent(), chat("1", 1)),
    "an agent's input alone": (agent(gen_ai__input__messages=ASKED), chat("1", 1)),
    "an agent without model calls": (
        agent(gen_ai__input__messages=ASKED, gen_ai__output__messages="[]"),
    ),
    "a request without words of the user": (agent(), chat("1", 1, [RULES], [ANSWER])),
    "requests with what is new": (
        agent(),
        chat("1", 1, [ASK], [CALLS]),
        chat("2", 5, [told("15C", "c1")], [ANSWER]),
    ),
    "a first request with an earlier answer": (
        agent(),
        chat("1", 1, [ASK, text("assistant", "Hi!")], [ANSWER]),
    ),
    "a first request with an earlier result": (
        agent(),
        chat("1", 1, [ASK, told("15C", "c1")], [ANSWER]),
    ),
}


@pytest.mark.parametrize("spans", NOT_RECORDED.values(), ids=NOT_RECORDED)
def test_what_nothing_shows_was_not_recorded(spans):
    assert trace(*spans).history is None


def test_a_turn_that_goes_on_in_its_first_request_begins_with_the_users_input():
    assert trace(agent(), chat("1", 1, [ASK, CALLS, told("15C", "c1")], [ANSWER])).history == ()


def test_an_agents_input_with_earlier_messages_tells_them_though_no_request_was_recorded():
    given = json.dumps([*EARLIER, ASK])
    assert len(trace(agent(gen_ai__input__messages=given), chat("1", 1)).history) == 2


def test_a_request_that_was_recorded_shows_it_though_the_agent_was_given_the_input_alone():
    assert (
        trace(agent(gen_ai__input__messages=ASKED), chat("1", 1, [RULES, ASK], [ANSWER])).history
        == ()
    )


def test_a_prompt_around_the_input_has_the_history_before_it():
    prompt = text("user", "Your task: Paris or Berlin?")
    found = trace(
        agent(gen_ai__input__messages=ASKED), chat("1", 1, [RULES, *EARLIER, prompt], [ANSWER])
    )
    assert (found.user_input, [x.text for x in found.history]) == (
        "Paris or Berlin?",
        ["Hello.", "Hi!"],
    )


@pytest.mark.parametrize("history", [None, (), (PastMessage("user", "Hello."),)])
def test_its_json_tells_nothing_from_not_recorded(history):
    found = trace(agent(), chat("1", 1, [ASK], [ANSWER]))
    data = found.to_json() | {"history": None if history is None else [_json(x) for x in history]}
    assert AgentTrace.from_json(data).history == history


def _json(message):
    return {"role": message.role, "text": message.text, "tool_calls": []}
