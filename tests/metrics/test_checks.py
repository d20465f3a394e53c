"""The checks: what each finds, and above all what it must not find."""

import pytest
from check_harness import CHECKS, call, findings, fired, outcome, tool

from spanscore.metrics import available
from spanscore.model.score import Skip
from spanscore.model.trace import PastMessage, RequestedCall, Retrieval, Tool, ToolCall

TIMEOUT = "upstream timeout"


RIGHT = {
    "an apology and the deed": (
        "Parcel 4711 never came",
        "I'm sorry about the delay. I have resent parcel 4711.",
        (call("resend_parcel", {"parcel": "4711"}),),
    ),
    "a sum of the agent's own": (
        "What do 3 seats at 45.50 cost?",
        "136.50 euros.",
        (call("convert_currency", {"amount": 136.5, "to": "USD"}, 148),),
    ),
    "a date of the agent's own": (
        "Book a table for tomorrow",
        "Your table has been booked.",
        (call("book_table", {"date": "2026-11-23", "party_size": 2}),),
    ),
    "a place under another name": (
        "Wie ist das Wetter in München?",
        "In München sind es 12 Grad.",
        (call("get_weather", {"city": "Munich", "country_code": "DEU"}, "12C"),),
    ),
    "a polled job": (
        "Run job J12345",
        "The job is done.",
        tuple(
            call("get_job", {"job_id": "J12345"}, x)
            for x in ("running", "running", "running", "done")
        ),
    ),
    "a polled status": ("Wait for it", "Still open.", (call("check_status", {}, "open"),) * 6),
    "pages": (
        "List all",
        "All of them.",
        tuple(call("list_items", {"page": x}, []) for x in range(6)),
    ),
    "a retry that succeeded": (
        "Look",
        "Found.",
        (call("get_a", error=TIMEOUT), call("get_a", error=TIMEOUT), call("get_a")),
    ),
    "a look after each change": (
        "Fill the cart",
        "Filled.",
        (
            call("get_cart", result=7),
            call("add_item"),
            call("get_cart", result=7),
            call("add_item"),
            call("get_cart", result=7),
        ),
    ),
    "the same question by three agents": (
        "Ask all",
        "All agree.",
        tuple(call("get_weather", {"city": "Rome"}, "sunny", agent=x) for x in "abc"),
    ),
    "a stepping tool": ("Go down", "At the end.", (call("scroll_down", {}, "ok"),) * 9),
    "an answer of one word": ("Is it open?", "Yes", ()),
    "an answer of one sign": ("Was it good?", "👍", ()),
    "an answer in signs": ("2+2?", "4", ()),
    "an answer in Japanese": ("東京の天気は\uff1f", "晴れです。", ()),
    "a hand-over": ("Where is my parcel?", "On its way.", (call("transfer_to_parcel_clerk"),)),
    "a status that was looked up": (
        "Where is order 123?",
        "Your order has been shipped and arrives tomorrow.",
        (call("get_order", {"order_id": "123"}, "shipped"),),
    ),
    "a refund that was looked up": (
        "What's the status of my refund?",
        "The amount of $50 has been refunded on May 3.",
        (call("get_refund", {"id": "55"}),),
    ),
    "a flight number that was spelled": (
        "Status of British Airways one seven five",
        "On time.",
        (call("flight_status", {"flight_number": "BA175"}),),
    ),
    "a phone number with its country": (
        "Call 0170 1234567",
        "Called.",
        (call("dial", {"phone": "+491701234567"}),),
    ),
    "an address put together": (
        "Mail Ann at example.com, it is ann dot smith",
        "Done.",
        (call("send_email", {"email": "ann.smith@example.com"}),),
    ),
    "a number with a prefix": (
        "Show order 4711",
        "It is there.",
        (call("get_order", {"order_id": "ORD-004711"}),),
    ),
    "an empty structure": ("List the errors as JSON", "[]", ()),
    "a state in the words of the request": (
        "Can you check the bags of my booking?",
        "Your flight is booked in economy, with two bags.",
        (call("get_booking"),),
    ),
    "an explained exception": ("What is a KeyError?", "KeyError: the key is not in the dict", ()),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_answer_gives_no_finding(make_trace, case):
    request, answer, calls = RIGHT[case]
    assert (
        fired(
            make_trace(
                user_input=request, final_output=answer, tool_calls=calls, available_tools=None
            )
        )
        == set()
    )


WRONG = {
    "nine identical calls": (
        "Weather?",
        "None",
        (call("get_weather", {"city": "Rome"}, "sunny"),) * 9,
        "repeated_calls",
    ),
    "the same refused call": (
        "Weather?",
        "No luck.",
        (call("get_weather", {"city": ""}, error="city must not be empty"),) * 3,
        "repeated_calls",
    ),
    "a printed None": ("What is the weather?", "None", (), "answer_present"),
    "a printed undefined": ("What is the weather?", "undefined", (), "answer_present"),
    "nothing": ("What is the weather?", "  \n", (), "answer_present"),
    "a stack trace": (
        "What is the weather?",
        'Traceback (most recent call last):\n  File "a.py", line 1\nKeyError: 1',
        (),
        "answer_present",
    ),
    "a failure at the end": (
        "Find a flight",
        "Nothing found.",
        (call("find_flight", error=TIMEOUT),),
        "errors_recovered",
    ),
    "a failed change and a look": (
        "Book it",
        "It is there.",
        (call("book_it", error="full"), call("get_it")),
        "errors_recovered",
    ),
    "a made-up code": (
        "Cancel my booking",
        "Done.",
        (call("cancel_booking", {"booking_code": "XEHM4B"}),),
        "arguments_grounded",
    ),
    "a made-up address": (
        "Mail it to Ann",
        "Done.",
        (call("send_mail", {"email": "ann.smith@example.com"}),),
        "arguments_grounded",
    ),
    "a made-up phone number": (
        "Call Ann",
        "Done.",
        (call("dial", {"phone": "+49 170 1234567"}),),
        "arguments_grounded",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_fault_is_found(make_trace, case):
    request, answer, calls, name = WRONG[case]
    trace = make_trace(
        user_input=request, final_output=answer, tool_calls=calls, available_tools=None
    )
    assert name in fired(trace)


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_a_whole_turn_without_fault_gives_no_finding(make_trace, name):
    assert findings(name.removeprefix("check."), make_trace()) == ()


def test_a_finding_names_call_tool_argument_and_text(make_trace):
    calls = (
        call("get_user", {"name": "Ann"}, "no id"),
        call("get_orders", {"user_id": "u-881234"}),
    )
    [found] = findings("arguments_grounded", make_trace(tool_calls=calls))
    assert (found["call"], found["tool"], found["argument"]) == (2, "get_orders", "user_id")
    assert "u-881234" in found["text"]


def test_a_score_says_what_was_found_and_where(make_trace):
    score = outcome(
        "errors_recovered", make_trace(tool_calls=(call("get_a"), call("get_b", error="timed out")))
    )
    assert score.reason == (
        'Call 2 (get_b): failed with "timed out", and no later call made it good.'
    )


@pytest.mark.parametrize(
    ("tool", "error"),
    [
        ("get_order", "Error: order 4711 not found"),
        ("search_flights", "No matching flights found"),
        ("lookup_customer", '{"error": "customer_not_found"}'),
        ("fetch_page", "HTTP 404: Not Found"),
        ("get_resource", "ResourceNotFoundException: vm-12"),
        ("read_file", "[Errno 2] No such file or directory: 'notes.txt'"),
        ("find_patient", "Patient mit der Nummer 12 nicht gefunden"),
        ("get_order", "订单不存在"),
    ],
)
def test_a_look_up_that_finds_nothing_has_not_failed(make_trace, tool, error):
    trace = make_trace(tool_calls=(call(tool, error=error),))
    assert outcome("errors_recovered", trace).cause == "not_applicable"


@pytest.mark.parametrize(
    ("tool", "error"),
    [
        ("get_order", TIMEOUT),
        ("cancel_order", "Error: order 4711 not found"),
        ("get_weather", "tool get_weather not found"),
        ("get_weather", "API key not found"),
        ("query_orders", "no such table: orders"),
        ("fetch_page", "host not found"),
        ("get_report", "ModuleNotFoundError: pandas"),
        ("search_flights", "No date was given"),
    ],
)
def test_any_other_failure_is_found(make_trace, tool, error):
    assert findings("errors_recovered", make_trace(tool_calls=(call(tool, error=error),)))


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        ("That day is full. Would you like another day?", "not_applicable"),
        ("The card was refused.\n\nPlease tell me which other card to use.", "not_applicable"),
        ("I could not book it. Is there anything else that I can do?", None),
        ("Did it work? I could not book it.", None),
    ],
)
def test_a_failure_after_which_the_agent_asks_the_user_is_not_judged(make_trace, output, cause):
    trace = make_trace(tool_calls=(call("book_it", error="full"),), final_output=output)
    assert getattr(outcome("errors_recovered", trace), "cause", None) == cause


@pytest.mark.parametrize(
    ("request_", "cause"),
    [
        ("Which of my orders are late?", "not_applicable"),
        ("How many are open?", "not_applicable"),
        ("What is the weather?", None),
    ],
)
def test_none_may_be_the_answer_to_which_or_how_many(make_trace, request_, cause):
    found = outcome("answer_present", make_trace(user_input=request_, final_output="None"))
    assert getattr(found, "cause", None) == cause


def test_no_finding_is_one_and_a_finding_is_nothing(make_trace):
    values = [
        outcome("answer_present", make_trace(final_output=x)).value for x in ("It is.", "null")
    ]
    assert values == [1.0, 0.0]


def test_a_trace_of_very_many_faults_has_few_findings(make_trace):
    calls = tuple(call("get_user", {"user_id": f"u-88{x:04}"}) for x in range(900))
    assert len(findings("arguments_grounded", make_trace(tool_calls=calls))) == 20


@pytest.mark.parametrize(
    ("name", "fields", "cause"),
    [
        ("errors_recovered", {}, "not_applicable"),
        ("repeated_calls", {}, "not_applicable"),
        ("arguments_grounded", {}, "not_applicable"),
        ("arguments_match_schema", {"tool_calls": ()}, "not_applicable"),
        ("arguments_match_schema", {"available_tools": None}, "not_recorded"),
        (
            "tools_on_offer",
            {"tool_calls": (call("x", error="no"),), "available_tools": None},
            "not_recorded",
        ),
        ("repeated_calls", {"tool_calls": None}, "not_recorded"),
        ("repeated_calls", {"tool_calls": (ToolCall(None, "x"),) * 9}, "not_recorded"),
        ("answer_present", {"final_output": None}, "not_recorded"),
        ("answer_present", {"damaged": ("final_output",)}, "damaged"),
    ],
)
def test_a_check_that_cannot_say_anything_is_skipped_with_its_cause(
    make_trace, name, fields, cause
):
    found = outcome(name, make_trace(**fields))
    assert isinstance(found, Skip)
    assert found.cause == cause


SEATS = tool(
    "book",
    {
        "seats": {"type": "integer", "minimum": 1},
        "cabin": {"$ref": "#/$defs/Cabin"},
        "note": {"type": "string"},
        "late": {"type": "boolean", "default": False},
        "who": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    },
    required=("seats", "late"),
    additionalProperties=False,
    **{"$defs": {"Cabin": {"enum": ["economy", "business"]}}},
)


@pytest.mark.parametrize(
    "arguments",
    [
        {"seats": 2},
        {"seats": 2, "note": None},
        {"seats": "2"},
        {"seats": 2.0},
        {"seats": 2, "late": "true"},
        {"seats": 2, "note": 5},
        {"seats": 2, "cabin": "business"},
        {"seats": 2, "who": ["Ann"]},
    ],
)
def test_what_frameworks_take_for_the_same_breaks_no_schema(make_trace, arguments):
    trace = make_trace(available_tools=(SEATS,), tool_calls=(call("srv__book", arguments),))
    assert findings("arguments_match_schema", trace) == ()


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({}, "seats"),
        ({"seats": 0}, "seats"),
        ({"seats": "many"}, "seats"),
        ({"seats": 2, "cabin": "first"}, "cabin"),
        ({"seats": 2, "seat": 3}, "seat"),
        ({"seats": 2, "who": True}, "who"),
    ],
)
def test_arguments_that_break_the_schema_are_found(make_trace, arguments, argument):
    trace = make_trace(available_tools=(SEATS,), tool_calls=(call("book", arguments),))
    assert [x["argument"] for x in findings("arguments_match_schema", trace)] == [argument]


DEEP = tool(
    "find",
    {
        "filters": {
            "type": "object",
            "properties": {
                "limit": {"type": "INTEGER"},
                "on": {"type": "boolean"},
                "page": {"type": "integer", "default": 1},
            },
            "required": ["limit", "page"],
        },
        "ids": {"type": "array", "items": {"type": "integer"}},
        "room": {"anyOf": [{"$ref": "#/$defs/Room"}, {"type": "null"}]},
        "day": {"type": ["string", "null"]},
    },
    **{"$defs": {"Room": {"type": "object", "properties": {"beds": {"type": "integer"}}}}},
)


@pytest.mark.parametrize(
    "arguments",
    [
        {"filters": {"limit": 5}},
        {"filters": {"limit": "5", "on": "true"}},
        {"filters": {"limit": 5, "on": None}},
        {"ids": ["5", "6"]},
        {"ids": "[5, 6]"},
        {"room": '{"beds": 2}'},
        {"day": 2026},
    ],
)
def test_what_frameworks_take_for_the_same_breaks_no_schema_at_any_depth(make_trace, arguments):
    trace = make_trace(available_tools=(DEEP,), tool_calls=(call("find", arguments),))
    assert findings("arguments_match_schema", trace) == ()


@pytest.mark.parametrize(
    "arguments",
    [
        {"filters": {"limit": "five"}},
        {"filters": {"limit": None}},
        {"filters": {"limit": "5.5"}},
        {"filters": {"on": True}},
        {"ids": 5},
        {"ids": ["5", "x"]},
        {"room": '{"beds": "two"}'},
        {"room": "[1]"},
    ],
)
def test_what_cannot_be_converted_breaks_a_schema_at_any_depth(make_trace, arguments):
    trace = make_trace(available_tools=(DEEP,), tool_calls=(call("find", arguments),))
    assert len(findings("arguments_match_schema", trace)) == 1


def test_of_a_call_that_failed_nothing_is_converted(make_trace):
    failed = call("find", {"ids": ["5"]}, error="ids must be integers")
    trace = make_trace(available_tools=(DEEP,), tool_calls=(failed,))
    assert len(findings("arguments_match_schema", trace)) == 1


def booked(make_trace, arguments, *properties, calls=1):
    """The outcome of the check where the tools `book0`, `book1`, ... with these properties were
    called.
    """
    tools = tuple(tool(f"book{place}", x) for place, x in enumerate(properties))
    made = tuple(call(x.name, arguments) for x in tools for _ in range(calls))
    return outcome("arguments_match_schema", make_trace(available_tools=tools, tool_calls=made))


def test_a_schema_that_is_too_large_is_not_checked(make_trace):
    found = booked(make_trace, {"seats": 1}, {"seats": {"enum": list(range(100_000))}})
    assert (type(found), "too large" in found.reason) == (Skip, True)


def test_all_calls_share_one_budget(make_trace):
    found = booked(make_trace, {"seats": 1}, {"seats": {"enum": list(range(20_000))}}, calls=900)
    assert (type(found), "too large" in found.reason) == (Skip, True)


def test_arguments_that_break_a_schema_are_found_beside_one_that_is_too_large(make_trace):
    found = booked(
        make_trace,
        {"seats": -1},
        {"seats": {"enum": list(range(100_000))}},
        {"seats": {"minimum": 1}},
        {"seats": {}},
    )
    assert [x["tool"] for x in found.metadata["findings"]] == ["book1"]


def test_a_required_list_that_contains_objects_forbids_nothing(make_trace):
    tools = (Tool("book", None, {"type": "object", "properties": {"seats": {}}, "required": [{}]}),)
    trace = make_trace(available_tools=tools, tool_calls=(call("book", {"seats": None}),))
    assert findings("arguments_match_schema", trace) == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"history": (PastMessage("user", "I am u-881234"),)},
        {
            "history": (
                PastMessage("assistant", None, (RequestedCall(None, "get", {"id": "u-881234"}),)),
            )
        },
        {"system_instructions": "You serve the user u-881234."},
        {"available_tools": (Tool("get", "Such as U-881234"),)},
        {"damaged": ("history",)},
        {"damaged": ("system_instructions",)},
        {"user_input": "what of u 881 234"},
    ],
)
def test_an_identifier_that_was_told_or_may_have_been_is_no_finding(make_trace, fields):
    trace = make_trace(**{"tool_calls": (call("get_orders", {"user_id": "u-881234"}),), **fields})
    assert findings("arguments_grounded", trace) == ()


def test_an_identifier_from_an_earlier_turn_of_the_session_is_grounded(make_trace):
    earlier = make_trace(1, tool_calls=(call("get_user", {}, {"id": "u-881234"}),))
    trace = make_trace(2, tool_calls=(call("get_orders", {"user_id": "u-881234"}),))
    assert (
        len(findings("arguments_grounded", trace)),
        findings("arguments_grounded", trace, [earlier]),
    ) == (1, ())


def test_what_an_unrecorded_conversation_may_account_for_is_no_finding(make_trace):
    trace = make_trace(2, tool_calls=(call("get_orders", {"user_id": "u-881234"}),), history=None)
    assert available()["check.arguments_grounded"]().measure(trace).cause == "not_recorded"
    earlier = make_trace(1, user_input="Hello.")
    assert len(findings("arguments_grounded", trace, [earlier])) == 1


def test_an_identifier_may_come_from_a_result_that_was_not_recorded(make_trace):
    calls = (ToolCall(None, "get_user", {}), call("get_orders", {"user_id": "u-881234"}))
    assert findings("arguments_grounded", make_trace(tool_calls=calls)) == ()


@pytest.mark.parametrize(
    "value",
    ["10km", "1080p", "2h30m", "utf-8", "gpt-4o", "2026-W12", "q3_2026", "May-20-2026", 42, 2026],
)
def test_units_dates_and_versions_are_no_identifiers(make_trace, value):
    trace = make_trace(tool_calls=(call("get_orders", {"code": value}),))
    assert isinstance(outcome("arguments_grounded", trace), Skip)


def test_what_a_call_creates_may_be_named_by_the_agent(make_trace):
    assert (
        findings(
            "arguments_grounded",
            make_trace(tool_calls=(call("create_user", {"user_id": "u-881234"}),)),
        )
        == ()
    )


def test_a_tool_that_nobody_offered_is_found_where_the_call_failed(make_trace):
    offered = (tool("get_weather"),)
    failed = make_trace(
        available_tools=offered, tool_calls=(call("get_news", error="unknown tool"),)
    )
    worked = make_trace(
        available_tools=offered,
        tool_calls=(call("web_search"), call("x__get_weather", error="503")),
    )
    assert (len(findings("tools_on_offer", failed)), findings("tools_on_offer", worked)) == (1, ())


@pytest.mark.slow
def test_hostile_texts_take_no_longer_than_their_length(make_trace, lines_run):
    texts = ["a " * 50_000, "I have " * 20_000, "((((" * 30_000, '"' * 90_000]
    for text in texts:
        trace = make_trace(
            user_input=text, final_output=text, tool_calls=(call("get", {"id": text}),) * 5
        )
        assert lines_run(fired, trace) < 60_000


def test_what_is_derived_from_a_trace_is_not_taken_for_that_of_the_next(make_trace):
    check = available()["check.answer_present"]()
    empty, answered = (
        make_trace(user_input="Hi", final_output=""),
        make_trace(user_input="Hi", final_output="Hello"),
    )
    assert [check.measure(x).value for x in (empty, answered, empty)] == [0.0, 1.0, 0.0]


def found_by(result):
    return {"tool_calls": (call("get_customer", {"name": "Raj"}, result), TO_RAJ)}


TO_RAJ = call(
    "send", {"email": "raj@example.com", "order_id": "ord_47119", "phone": "+49 170 1234567"}
)


@pytest.mark.parametrize(
    "fields",
    [
        {"user_input": "Please write to <EMAIL_ADDRESS> about order [ORDER_ID_1]"},
        {"history": (PastMessage("tool", "Customer: j***@example.com"),)},
        {"retrieved": (Retrieval("s", "whom", ({"email": "<EMAIL_ADDRESS>"},)),)},
        found_by({"email": "<EMAIL_ADDRESS>", "order": "[ORDER_ID_1]"}),
        found_by([{"email": "***"}]),
        found_by("Customer: j***@example.com, card ****1234"),
        found_by("Customer: j***@example.com"),
        found_by("Ends in ****1234"),
    ],
)
def test_a_value_that_others_may_have_masked_is_no_finding(make_trace, fields):
    found = outcome("arguments_grounded", make_trace(**{"tool_calls": (TO_RAJ,), **fields}))
    assert (type(found), found.cause) == (Skip, "not_recorded")


def test_a_mask_behind_a_call_does_not_account_for_its_arguments(make_trace):
    calls = (call("send", {"email": "raj@example.com"}, {"to": "<EMAIL_ADDRESS>"}),)
    assert len(findings("arguments_grounded", make_trace(tool_calls=calls))) == 1


def test_a_form_in_the_instructions_masks_nothing(make_trace):
    trace = make_trace(
        system_instructions="Greet <CUSTOMER_NAME>.",
        tool_calls=(call("send", {"email": "raj@example.com"}),),
    )
    assert len(findings("arguments_grounded", trace)) == 1


def test_calls_whose_arguments_are_masked_need_not_be_the_same(make_trace):
    calls = (call("get_customer", {"email": "<EMAIL_ADDRESS>"}, "none"),) * 4
    assert findings("repeated_calls", make_trace(tool_calls=calls)) == ()


def test_a_masked_argument_need_not_fit_the_schema(make_trace):
    trace = make_trace(
        available_tools=(tool("get", {"number": {"type": "integer"}}),),
        tool_calls=(call("get", {"number": "[ORDER_NUMBER_1]"}, error="no"),),
    )
    assert findings("arguments_match_schema", trace) == ()
