"""Answers and calls that look like faults and are none, and faults worded in other ways."""

import pytest
from check_harness import call, findings, fired

from spanscore.model.trace import Tool

QUIET = {
    "a date with signs": (
        "Which day is free? The 3rd of May 2026?",
        "It is free.",
        (call("get_booking", {"booking": "2026-05-03"}),),
    ),
    "a date in digits": (
        "What is the code of today?",
        "It is set.",
        (call("get_code", {"code": "20261123"}),),
    ),
    "digits of full width": (
        "订单２０２６７７８８９９１２３４",
        "已发货。",
        (call("get_order", {"order_id": "20267788991234"}),),
    ),
    "digits in Chinese": (
        "订单号是七七二零四四零三",
        "已发货。",
        (call("get_order", {"order_id": "77204403"}),),
    ),
    "a code that was spelled": (
        "My code is X, E, H, M, four, B.",
        "Found.",
        (call("get_booking", {"confirmation_code": "XEHM4B"}),),
    ),
    "a code in the spelling alphabet": (
        "It is X as in X-ray, Echo, Hotel, Mike, 4, Bravo.",
        "Found.",
        (call("get_booking", {"confirmation_code": "XEHM4B"}),),
    ),
    "numbers of public registers": (
        "Look up Dune",
        "It is there.",
        (
            call("get_book", {"isbn_number": "9780441172719"}),
            call("get_shop", {"zip_code": "90210-1234"}),
            call("get_stock", {"isin_code": "US0378331005"}),
        ),
    ),
    "a computed total": (
        "Order A costs 120000, order B 130000",
        "250000.",
        (call("get_discount", {"order_total": 250000}),),
    ),
    "coins": ("Flip a coin until I win", "Tails.", (call("flip_coin", result="heads"),) * 5),
    "a die": ("Roll the die", "6.", (call("throw_dice", result=6),) * 4),
    "several things": ("Send 3 reminders", "Sent.", (call("send_reminder", result="sent"),) * 3),
    "several in Chinese": ("发三个提醒", "好的。", (call("send_reminder", result="sent"),) * 3),
    "a repetition that was asked for": (
        "Look at the shop again and again, four times",
        "Nothing.",
        (call("get_shop", result="empty"),) * 4,
    ),
    "work under way in German": (
        "Sieh nach dem Auftrag",
        "Er läuft noch.",
        (call("get_auftrag", result="in Bearbeitung"),) * 4,
    ),
    "work under way in Chinese": (
        "查询任务",
        "还在处理。",
        (call("query_task", result="处理中"),) * 4,
    ),
}


@pytest.mark.parametrize("case", QUIET)
def test_what_only_looks_like_a_fault_gives_no_finding(make_trace, case):
    request, answer, calls = QUIET[case]
    trace = make_trace(
        user_input=request, final_output=answer, tool_calls=calls, available_tools=None
    )
    assert fired(trace) == set()


FOUND = {
    "an invented identifier of an amount": (
        "Show the price",
        "5 EUR",
        (call("get_price", {"price_id": "price_1MoBy5L"}),),
        "arguments_grounded",
    ),
    "a change that was repeated unasked": (
        "Remind Ann",
        "Reminded.",
        (call("send_reminder", result="sent"),) * 3,
        "repeated_calls",
    ),
}


@pytest.mark.parametrize("case", FOUND)
def test_a_fault_in_other_words_is_found(make_trace, case):
    request, answer, calls, name = FOUND[case]
    trace = make_trace(
        user_input=request, final_output=answer, tool_calls=calls, available_tools=None, history=()
    )
    assert name in fired(trace)


@pytest.mark.parametrize("called", ["weather-srv_get_weather", "get_weather", "srv.get_weather"])
def test_a_server_in_front_of_a_name_makes_no_other_tool(make_trace, called):
    trace = make_trace(
        available_tools=(Tool("get_weather"),), tool_calls=(call(called, error="503"),)
    )
    assert findings("tools_on_offer", trace) == ()


def test_a_server_may_stand_before_the_name_of_the_tool_on_offer_alone(make_trace):
    trace = make_trace(
        available_tools=(Tool("srv_get_weather"),), tool_calls=(call("get_weather", error="503"),)
    )
    assert findings("tools_on_offer", trace) == ()
