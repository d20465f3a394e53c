"""Values that tools are given: which of them were told, follow, or come from nowhere.

The requests and calls are the project's own, in the manner of a shop's and an airline's agents.
"""

import pytest
from check_harness import call, findings

from spanscore.model.trace import Tool

PROFILE = {
    "order_id": "#W7390241",
    "items": ["8310926033", "1725100896"],
    "address": {"street": "12 Elm Road", "zip": "97211"},
    "dob": "1986-03-14",
    "email": "ann.smith12@mail.example",
    "payment": "credit_card_4421486",
    "trips": [{"code": "4WQ1B7", "date": "2026-05-23", "price": 174}],
}
LOOKED_UP = call("find_user", {"name": "Ann"}, PROFILE)
NOW = 1_778_500_000_000_000_000  # Monday, 2026-05-11
REQUEST = "My name is Ann, please change what I ordered with my card and the trip on May 20."


def found(make_trace, arguments, request=REQUEST, name="change_it", **fields):
    trace = make_trace(
        user_input=request,
        tool_calls=(LOOKED_UP, call(name, arguments)),
        available_tools=None,
        **{"history": (), "started_ns": NOW, **fields},
    )
    return [x["argument"] for x in findings("arguments_grounded", trace)]


TOLD_AND_CHANGED = [
    ("order_id", "#W7390241", "#W7390341"),
    ("order", "W7390241", "W7390242"),
    ("item_ids", ["8310926033"], ["3310926033"]),
    ("product_id", 1725100896, 1725100796),
    ("reservation_id", "4WQ1B7", "4WQ1B8"),
    ("payment_id", "credit_card_4421486", "credit_card_4421487"),
    ("to", "ann.smith12@mail.example", "ann.smith13@mail.example"),
    ("cc", ["ann.smith12@mail.example"], ["ann.smith12@mail.invalid"]),
    ("recipient", "Ann.Smith12@mail.example", "bob.smith12@mail.example"),
    ("dob", "1986-03-14", "1986-03-15"),
    ("birth_date", "1986-03-14", "1986-03-54"),
    ("date", "2026-05-23", "2026-05-24"),
    ("flights", [{"date": "2026-05-20"}], [{"date": "2026-05-19"}]),
    ("event_start", "2026-05-20 09:00:00", "2026-05-21 09:00:00"),
    ("amount", 174, 186),
    ("total", "$174.00", "$147.00"),
]


@pytest.mark.parametrize(("argument", "told", "changed"), TOLD_AND_CHANGED)
def test_a_told_value_is_grounded(make_trace, argument, told, changed):
    assert found(make_trace, {argument: told}) == []


@pytest.mark.parametrize(("argument", "told", "changed"), TOLD_AND_CHANGED)
def test_a_changed_value_is_found_at_its_argument(make_trace, argument, told, changed):
    where = f"{argument}.date" if argument == "flights" else argument
    assert found(make_trace, {argument: changed}) == [where]


def test_a_finding_says_what_kind_of_value_comes_from_nowhere(make_trace):
    calls = (LOOKED_UP, call("pay", {"amount": 186}))
    trace = make_trace(user_input=REQUEST, tool_calls=calls, available_tools=None, history=())
    [finding] = findings("arguments_grounded", trace)
    assert finding["text"].startswith('the amount "186" is in nothing that the agent was told')


@pytest.mark.parametrize(("zip_code", "expected"), [("97211", []), ("97212", ["zip"])])
def test_a_postal_code_beside_a_name_is_a_persons(make_trace, zip_code, expected):
    assert found(make_trace, {"first_name": "Ann", "zip": zip_code}) == expected


def test_a_postal_code_alone_is_a_places(make_trace):
    assert found(make_trace, {"zip": "10115"}, name="get_weather") == []


DERIVED = [
    ("Please book it for tomorrow", "2026-05-12", "2026-05-14"),
    ("Please move it to next Friday", "2026-05-15", "2026-05-14"),
    ("What did you send to me in the past 4 days?", "2026-05-07", "2026-05-03"),
    ("Please move my trip to the day after", "2026-05-24", "2026-05-26"),
    ("Please move my trip by 2 weeks, to make it later", "2026-06-06", "2026-06-07"),
    ("Please book it on the 28th", "2026-05-28", "2026-05-29"),
    ("Please book a table on 28 or 29 May", "2026-05-29", "2026-05-30"),
    ("Please book a table for 5/28", "2026-05-28", "2026-05-29"),
    ("What is on my list this month?", "2026-05-31", "2026-07-31"),
]


@pytest.mark.parametrize(("request_", "right", "wrong"), DERIVED)
def test_a_date_that_follows_from_the_users_words_is_grounded(make_trace, request_, right, wrong):
    assert found(make_trace, {"date": right}, request_) == []


@pytest.mark.parametrize(("request_", "right", "wrong"), DERIVED)
def test_a_date_that_does_not_follow_is_found(make_trace, request_, right, wrong):
    assert found(make_trace, {"date": wrong}, request_) == ["date"]


def test_the_instructions_may_tell_the_present(make_trace):
    fields = {"system_instructions": "Today is 2024-05-15.", "started_ns": 0}
    request = "Please book it for tomorrow with my card"
    assert [
        found(make_trace, {"date": x}, request, **fields) for x in ("2024-05-16", "2024-05-18")
    ] == [[], ["date"]]


def test_a_relative_date_without_a_known_present_is_grounded(make_trace):
    request = "Please book it for tomorrow with my card"
    assert found(make_trace, {"date": "2031-02-03"}, request, started_ns=0) == []


def test_dates_in_other_languages_are_not_judged(make_trace):
    assert found(make_trace, {"date": "2026-05-14"}, "Bitte buche es auf Christi Himmelfahrt") == []


AMOUNTS = [
    ("Please refund both, 55 and 67.50 dollars", 122.5, 132.5),
    ("Please book 3 seats at 45.50", 136.5, 146.5),
    ("Please give me the 15% off my 86 dollars", 73.1, 78.2),
    ("Please pay 1,250 dollars", 125000, 134000),
    ("Please transfer 5k to my brother", 5000, 5350),
]


@pytest.mark.parametrize(("request_", "right", "wrong"), AMOUNTS)
def test_an_amount_that_can_be_computed_is_grounded(make_trace, request_, right, wrong):
    assert found(make_trace, {"amount": right}, request_) == []


@pytest.mark.parametrize(("request_", "right", "wrong"), AMOUNTS)
def test_an_amount_that_cannot_be_computed_is_found(make_trace, request_, right, wrong):
    assert found(make_trace, {"amount": wrong}, request_) == ["amount"]


def test_a_told_amount_may_be_paid_for_each_thing_in_the_call(make_trace):
    assert found(make_trace, {"amount": 348, "passengers": ["Ann", "Bob"]}) == []


@pytest.mark.parametrize("argument", ["max_price", "price_limit", "amount_id"])
def test_bounds_are_chosen(make_trace, argument):
    assert found(make_trace, {argument: 500}) == []


def test_the_schema_of_a_tool_tells_its_defaults_and_examples(make_trace):
    schema = {"properties": {"order_id": {"examples": ["#W1000001"]}, "fee": {"default": 35}}}
    arguments = {"order_id": "#W1000001", "fee": 35}
    trace = make_trace(
        user_input=REQUEST,
        tool_calls=(call("pay", arguments),),
        available_tools=(Tool("pay", None, schema),),
        history=(),
    )
    assert findings("arguments_grounded", trace) == ()


def test_a_number_within_a_longer_one_was_not_told(make_trace):
    assert found(make_trace, {"customer_id": "31092"}) == ["customer_id"]


@pytest.mark.slow
def test_texts_of_many_dates_and_numbers_take_no_longer_than_their_length(make_trace, lines_run):
    texts = ["1-1-" * 20_000, "1,111" * 15_000, "may 1 and 2 or " * 6_000, "3 days " * 12_000]
    for text in texts:
        calls = (call("pay", {"amount": 186, "date": "2026-01-02"}),) * 50
        trace = make_trace(user_input=text, tool_calls=calls, history=(), started_ns=NOW)
        assert lines_run(findings, "arguments_grounded", trace) < 200_000
