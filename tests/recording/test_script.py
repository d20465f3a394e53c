"""The scripted model keeps its place, whatever a framework sends along."""

import pytest
from conversation import DESK, SHOP
from script import ASIDE_TEXT, Options, Script, tokens

OFFERED = [x.__name__ for x in SHOP.tools]
FRONT, CLERK = ({"instructions": x.instructions} for x in DESK.agents)


def said(script, times, offered=OFFERED):
    return [script.next({}, offered) for _ in range(times)]


def test_answers_come_in_order_without_any_history():
    script = Script(SHOP, Options())
    answers = said(script, sum(len(x.steps) for x in SHOP.turns))
    assert [x.text for x in answers] == [step.text for turn in SHOP.turns for step in turn.steps]


def test_all_turns_are_answered_at_the_end():
    script = Script(SHOP, Options())
    said(script, sum(len(x.steps) for x in SHOP.turns))
    assert script.turns_answered == len(SHOP.turns)


def test_a_call_on_the_side_takes_nothing_from_the_conversation():
    script = Script(SHOP, Options())
    texts = [
        script.next({}, []).text,
        script.next({}, ["web_search"]).text,
        script.next({}, OFFERED).text,
    ]
    assert texts == [ASIDE_TEXT, ASIDE_TEXT, SHOP.turns[0].steps[0].text]


def test_what_answers_the_last_tool_calls_is_in_the_conversation_even_without_tools_on_offer():
    script = Script(SHOP, Options())
    (first,) = said(script, 1)
    assert script.next({"tool_call_id": f"call_{first.requests[0].call_id}"}, []).requests


@pytest.mark.parametrize("prefix", ["mcp__shop__", "shop-", "shop."])
def test_tools_are_asked_for_by_the_names_on_offer(prefix):
    (answer,) = said(Script(SHOP, Options()), 1, [prefix + x for x in OFFERED])
    assert [x.name for x in answer.requests] == [f"{prefix}stock_level", f"{prefix}article_note"]


def test_a_tool_whose_name_merely_ends_alike_is_another():
    assert Script(SHOP, Options()).next({}, ["unreserve"]).text == ASIDE_TEXT


def test_the_answer_comes_by_the_tool_that_the_framework_wants():
    script = Script(SHOP, Options(answer_tool="final_answer.answer"))
    last = said(script, len(SHOP.turns[0].steps), [*OFFERED, "final_answer"])[-1]
    assert [(x.name, x.arguments) for x in last.requests] == [
        ("final_answer", {"answer": SHOP.turns[0].steps[-1].text})
    ]


def test_no_two_model_calls_report_the_same_tokens():
    counts = [
        tokens(i, j)
        for talk in (SHOP, DESK)
        for i, turn in enumerate(talk.turns)
        for j in range(len(turn.steps))
    ]
    assert len({x for x, _ in counts}) == len({(i, j) for i, j in counts})


def test_the_clerk_is_asked_in_the_front_desks_turn():
    script = Script(DESK, Options(hand_over="ask_clerk", hand_over_arguments={"request": "00731?"}))
    asked = script.next(FRONT, ["opening_hours", "ask_clerk"])
    clerk = [script.next(CLERK, ["track_parcel"]) for _ in range(2)]
    last = script.next(FRONT, ["opening_hours", "ask_clerk"])
    assert [asked.requests[0].name, clerk[0].requests[0].name, clerk[1].text, last.text] == [
        "ask_clerk",
        "track_parcel",
        DESK.turns[0].steps[2].text,
        DESK.turns[0].steps[3].text,
    ]


def test_a_clerk_who_answers_the_user_ends_the_turn():
    script = Script(DESK, Options(hand_over="transfer_to_clerk", hands_off=True))
    script.next(FRONT, ["opening_hours", "transfer_to_clerk"])
    script.next(CLERK, ["track_parcel"])
    script.next(CLERK, ["track_parcel"])
    assert script.turns_answered == 1
