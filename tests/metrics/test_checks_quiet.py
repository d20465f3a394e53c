"""Answers and calls that look like faults and are none, and faults worded in other ways."""

import pytest
from check_harness import call, findings, fired

from spanscore.model.trace import PastMessage, Tool

QUIET = {
    "a deed of somebody else": (
        "Book the blue room",
        "The blue room has been booked by another guest. Would you like the green one?",
        (call("get_rooms", result="blue: no"),),
    ),
    "a deed before this turn": (
        "Cancel my appointment",
        "Your appointment has been cancelled by the clinic last week.",
        (call("get_appointment"),),
    ),
    "a state that was looked up": (
        "Pay my invoice",
        "The invoice has been paid on May 1, so no payment is due.",
        (call("get_invoice", result={"paid": "May 1"}),),
    ),
    "a possibility": (
        "Delete notes.txt",
        "There is no such file; it may have been deleted.",
        (call("list_files", result=[]),),
    ),
    "a wish withdrawn in German": (
        "Storniere Bestellung 31",
        "Die Bestellung 31 wurde bereits am Montag storniert.",
        (call("get_order"),),
    ),
    "nothing done yet, in German": (
        "Buche einen Tisch",
        "Ich habe noch nichts gebucht, denn mir fehlt die Uhrzeit.",
        (),
    ),
    "a question of state in German": (
        "Wurde mein Paket verschickt?",
        "Ja, Ihr Paket wurde verschickt.",
        (call("get_parcel"),),
    ),
    "a condition in Japanese": ("ホテルを予約して", "予約が完了しましたらお知らせします。", ()),
    "a state of yesterday in Chinese": (
        "帮我取消订单",
        "您的订单昨天已经取消了。",
        (call("get_order"),),
    ),
    "an offer in Chinese": ("帮我预订酒店", "确认日期后我会为您预订。", ()),
    "a deed before this turn in Spanish": (
        "Envía el paquete",
        "El paquete se ha enviado esta mañana, antes de su mensaje.",
        (call("get_package"),),
    ),
    "a deed by SQL": (
        "Delete customer 4",
        "I have deleted customer 4.",
        (call("query", {"sql": "DELETE FROM customers WHERE id = 4"}),),
    ),
    "a deed by GraphQL": (
        "Cancel order 9",
        "Order 9 has been cancelled.",
        (call("graphql_query", {"query": "mutation { cancelOrder(id: 9) { ok } }"}),),
    ),
    "a deed by HTTP": (
        "Cancel order 9",
        "Order 9 has been cancelled.",
        (call("fetch", {"method": "POST", "url": "/orders/9/cancel"}),),
    ),
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
    "null as an answer": ("What does JSON print for a missing value?", "null", ()),
    "NaN as an answer": ("What is 0/0?", "NaN", ()),
    "an exception as the cause": ("What went wrong?", "ValueError: no such city", ()),
    "a drawn line": ("Draw a line", "- - - - " * 10, ()),
    "a song with refrain": ("Sing me a song", "na na na na " * 30, ()),
    "data that a tool returned": (
        "Give me all the values",
        "true false\n" * 60,
        (call("get_values", result="true false\n" * 60),),
    ),
    "work on data": (
        "Find the outliers in the data",
        "Three.",
        (call("drop_na"), call("find_outliers", result=3)),
    ),
    "a look without something": (
        "Display the article without ads",
        "Here.",
        (call("remove_ads"),),
    ),
    "a trial run": (
        "Find duplicates in my contacts",
        "Three.",
        (call("remove_contacts", {"dry_run": True}),),
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
    "a state in the first turn": (
        "Please book me a flight to Rome on May 3.",
        "Your flight to Rome on May 3 is booked! Have a nice trip.",
        (),
        "claims_backed_by_calls",
    ),
    "a state in German": (
        "Kündige mein Abo",
        "Ihr Abo ist hiermit gekündigt.",
        (),
        "claims_backed_by_calls",
    ),
    "what the agent was able to do": (
        "Book the 9am slot",
        "Great news, I was able to book the slot.",
        (call("get_slots", result=["9am"]),),
        "claims_backed_by_calls",
    ),
    "a processed refund": (
        "I want my money back",
        "I've processed your full refund.",
        (),
        "claims_backed_by_calls",
    ),
    "a cancellation in Chinese": (
        "取消我的订单",
        "您的订单已取消。",
        (call("query_order", result="open"),),
        "claims_backed_by_calls",
    ),
    "a booking in spite of May": (
        "Book a table",
        "No problem, I have booked it for May 3.",
        (),
        "claims_backed_by_calls",
    ),
    "an invented identifier of an amount": (
        "Show the price",
        "5 EUR",
        (call("get_price", {"price_id": "price_1MoBy5L"}),),
        "arguments_grounded",
    ),
    "a loop in Chinese": (
        "Tell me about Rome",
        "罗马是一座城市。" * 60,
        (),
        "answer_does_not_loop",
    ),
    "a removed thing of the user's": (
        "Show me invoice 42",
        "Here.",
        (call("remove_invoice", {"id": 42}),),
        "changes_asked_for",
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


def test_a_state_after_the_first_turn_is_no_claim(make_trace):
    history = (PastMessage("user", "Book a table"), PastMessage("assistant", "Booked."))
    trace = make_trace(
        user_input="Book a taxi too",
        final_output="Your table is booked. Where shall the taxi come?",
        tool_calls=(),
        history=history,
    )
    assert findings("claims_backed_by_calls", trace) == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"system_instructions": "Correct the grammar of what the user writes."},
        {"history": (PastMessage("user", "Translate all that I write into German."),)},
    ],
)
def test_an_agent_that_works_on_texts_may_give_one_back(make_trace, fields):
    trace = make_trace(
        user_input="Ich gehe um 5 Uhr nach Hause.",
        final_output="Ich gehe um 5 Uhr nach Hause.",
        **fields,
    )
    assert findings("answer_is_no_echo", trace) == ()


@pytest.mark.parametrize("called", ["weather-srv_get_weather", "get_weather", "srv.get_weather"])
def test_a_server_in_front_of_a_name_makes_no_other_tool(make_trace, called):
    trace = make_trace(
        available_tools=(Tool("get_weather"),), tool_calls=(call(called, error="503"),)
    )
    assert findings("tools_on_offer", trace) == ()


def test_a_server_may_stand_before_the_name_of_the_tool_on_offer_alone(make_trace):
    trace = make_trace(
        available_tools=(Tool("srv_get_weather"),),
        tool_calls=(call("get_weather", error="503"),),
    )
    assert findings("tools_on_offer", trace) == ()
