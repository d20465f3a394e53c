"""The checks: what each finds, and above all what it must not find."""

import pytest
from check_harness import CHECKS, call, findings, fired, outcome, tool

from spanscore.metrics import available
from spanscore.metrics.check._claims import claims
from spanscore.model.score import Skip
from spanscore.model.trace import ModelCall, PastMessage, RequestedCall, Tool, ToolCall

TIMEOUT = "upstream timeout"


RIGHT = {
    "an error that the agent mended": (
        "My script fails",
        "Your script had an error on line 3, I fixed it.",
        (),
    ),
    "a rule with a number": ("May I take shampoo?", "You can't bring liquids over 100 ml.", ()),
    "an apology and the deed": (
        "Parcel 4711 never came",
        "I'm sorry about the delay. I have resent parcel 4711.",
        (call("resend_parcel", {"parcel": "4711"}),),
    ),
    "a deed of a tool without a verb": (
        "Parcel 4711 never came",
        "I have resent parcel 4711.",
        (call("parcel_service", {"parcel": "4711"}),),
    ),
    "a refusal by policy": (
        "Refund me",
        "I'm sorry, our policy does not allow a refund after 30 days.",
        (),
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
    "a draft that the user asked for": (
        "Write to my landlord that I cancel the lease",
        "Dear Sir,\nI have cancelled the lease as of May. I have sent you the keys.",
        (),
    ),
    "a quotation": ("What did the mail say?", 'The mail says: "I have cancelled your order."', ()),
    "an offer": ("Book it", "Once I have booked it, I will tell you. Shall I go on?", ()),
    "a question": (
        "Where is my order?",
        "Have you looked into your mailbox? Your order has been shipped?",
        (),
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
    "None among the answers": ("Which of the tests fail?", "None", ()),
    "an answer of one word": ("Is it open?", "Yes", ()),
    "an answer of one sign": ("Was it good?", "👍", ()),
    "an answer in signs": ("2+2?", "4", ()),
    "an answer in Japanese": ("東京の天気は\uff1f", "晴れです。", ()),
    "a greeting given back": (
        "Good morning and a happy new year",
        "Good morning and a happy new year!",
        (),
    ),
    "an asked-for echo": (
        "Repeat after me: one two three four",
        "Repeat after me: one two three four",
        (),
    ),
    "a change that the user asked for": (
        "Show me invoice 42 and delete it",
        "Gone.",
        (call("delete_invoice", {"id": 42}),),
    ),
    "what the turn itself made": (
        "Show me the chart",
        "Here.",
        (call("create_temp"), call("delete_temp")),
    ),
    "a hand-over": ("Where is my parcel?", "On its way.", (call("transfer_to_parcel_clerk"),)),
    "a cleared list of looks": (
        "What was cancelled?",
        "One order.",
        (call("get_cancelled_orders"),),
    ),
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
    "news": ("Any news on ACME?", "ACME has been charged with fraud.", (call("web_search"),)),
    "a status in German": (
        "Wo ist mein Paket?",
        "Ihr Paket wurde gestern verschickt.",
        (call("get_parcel"),),
    ),
    "a status in Spanish": (
        "¿Dónde está mi pedido?",
        "El paquete ha sido enviado ayer.",
        (call("get_order"),),
    ),
    "a word of the past": ("Do you like me?", "I have booked many trips for customers.", ()),
    "an ordered list": ("Order these by size", "I have ordered them by size: a, b.", ()),
    "attention": ("Pay more attention", "I have paid attention to it.", ()),
    "a shortened text": ("Remove the commas from: a, b", "I've removed the commas: a b", ()),
    "a study plan": ("Schedule my week", "I have scheduled maths on Monday.", ()),
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
    "two wishes": ("How much do I owe? Settle it please", "Settled.", (call("pay_invoice"),)),
    "a hidden wish": (
        "Show me the logs; free some disk space as well",
        "Done.",
        (call("delete_temp_files"),),
    ),
    "an empty structure": ("List the errors as JSON", "[]", ()),
    "a song": ("Sing me a song", "la la la la la la la la la la la la", ()),
    "a translation that stays": ("Translate: Where is the station?", "Where is the station?", ()),
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
    "an echo of the question": (
        "Which trains go to Rome?",
        "Which trains go to Rome?",
        (),
        "answer_is_no_echo",
    ),
    "an echo in Japanese": (
        "東京から大阪までの新幹線はいくらですか\uff1f",
        "東京から大阪までの新幹線はいくらですか",
        (),
        "answer_is_no_echo",
    ),
    "a booking without a call": (
        "Book a table",
        "I have booked a table for you.",
        (),
        "claims_backed_by_calls",
    ),
    "a booking after a look": (
        "Book a table",
        "Your table has been successfully booked.",
        (call("search_tables"),),
        "claims_backed_by_calls",
    ),
    "a booking whose call failed": (
        "Book a table",
        "I've just booked it.",
        (call("book_table", error="no table is free"), call("get_tables")),
        "claims_backed_by_calls",
    ),
    "a booking in the simple past": (
        "Book a table",
        "All done, I booked a table for two.",
        (),
        "claims_backed_by_calls",
    ),
    "a booking that is": (
        "Please book a table",
        "Your table is now booked.",
        (),
        "claims_backed_by_calls",
    ),
    "a detour to a booking": (
        "Book a table",
        "I've gone ahead and booked it.",
        (),
        "claims_backed_by_calls",
    ),
    "a booking in Italian": (
        "Prenota un tavolo",
        "Ho prenotato un tavolo.",
        (),
        "claims_backed_by_calls",
    ),
    "a booking in Portuguese": (
        "Reserve uma mesa",
        "Reservei uma mesa.",
        (),
        "claims_backed_by_calls",
    ),
    "a booking in Dutch": (
        "Boek een tafel",
        "Ik heb een tafel geboekt.",
        (),
        "claims_backed_by_calls",
    ),
    "a booking that is confirmed": (
        "Book a room",
        "Your booking is confirmed.",
        (),
        "claims_backed_by_calls",
    ),
    "a success without a subject": (
        "Book BA12",
        "Successfully booked BA12!",
        (),
        "claims_backed_by_calls",
    ),
    "a cancellation in German": (
        "Storniere das",
        "Ich habe die Buchung storniert.",
        (),
        "claims_backed_by_calls",
    ),
    "a payment in Spanish": (
        "Paga la factura",
        "He pagado la factura.",
        (),
        "claims_backed_by_calls",
    ),
    "a booking in French": (
        "Réserve une table",
        "J'ai réservé une table.",
        (),
        "claims_backed_by_calls",
    ),
    "a booking in Chinese": ("帮我预订酒店", "已为您预订成功。", (), "claims_backed_by_calls"),
    "a booking in Japanese": (
        "ホテルを予約して",
        "ホテルを予約しました。",
        (),
        "claims_backed_by_calls",
    ),
    "a deletion for a look": (
        "Show me invoice 42",
        "Done.",
        (call("delete_invoice", {"id": 42}),),
        "changes_asked_for",
    ),
    "a deletion for a look in German": (
        "Zeige mir Rechnung 42",
        "Bitte.",
        (call("deleteInvoice", {"id": 42}),),
        "changes_asked_for",
    ),
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
    "dots": ("What is the weather?", "...", (), "answer_present"),
    "a stack trace": (
        "What is the weather?",
        'Traceback (most recent call last):\n  File "a.py", line 1\nKeyError: 1',
        (),
        "answer_present",
    ),
    "a bare exception": ("What is the weather?", "ValueError: no city", (), "answer_present"),
    "an HTTP error": (
        "Weather?",
        "Error: Request failed with status code 500",
        (),
        "answer_present",
    ),
    "an error in JSON": ("Weather?", '{"error": "internal server error"}', (), "answer_present"),
    "a loop": ("Tell me of Rome", "Rome is old. " * 40, (), "answer_does_not_loop"),
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
        ("claims_backed_by_calls", {}, "not_applicable"),
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


def test_what_was_done_in_an_earlier_turn_may_be_claimed(make_trace):
    history = (PastMessage("user", "Book a table"), PastMessage("assistant", "Done."))
    trace = make_trace(
        user_input="Thanks!", final_output="I have booked it for 8.", tool_calls=(), history=history
    )
    assert findings("claims_backed_by_calls", trace) == ()


def test_a_deed_that_this_turn_asks_for_must_be_of_this_turn(make_trace):
    history = (PastMessage("user", "Is a table free?"), PastMessage("assistant", "Yes."))
    trace = make_trace(
        user_input="Then book it", final_output="I have booked it.", tool_calls=(), history=history
    )
    assert len(findings("claims_backed_by_calls", trace)) == 1


def test_a_change_that_the_user_wanted_earlier_is_asked_for(make_trace):
    history = (PastMessage("user", "I want to cancel order 7"),)
    trace = make_trace(
        user_input="Show me the result", tool_calls=(call("cancel_order"),), history=history
    )
    assert findings("changes_asked_for", trace) == ()


def test_where_a_user_wrote_more_than_can_be_looked_through_no_wish_is_judged(make_trace):
    history = tuple(PastMessage("user", "Which trains are late?" * 900) for _ in range(12))
    trace = make_trace(
        user_input="Show me the result", tool_calls=(call("cancel_order"),), history=history
    )
    found = outcome("changes_asked_for", trace)
    assert (type(found), "too long" in found.reason) == (Skip, True)


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


def test_what_a_model_wrote_on_the_way_is_no_claim_of_the_answer(make_trace):
    written = (ModelCall("s", None, "I have booked it."),)
    assert findings("claims_backed_by_calls", make_trace(model_calls=written, tool_calls=())) == ()


@pytest.mark.parametrize(
    "verb", ["thought about", "looked at", "written", "calculated", "not booked", "never sent"]
)
def test_what_needs_no_tool_is_no_claim(verb):
    assert claims(f"I have {verb} it.", "Do it") == []


@pytest.mark.slow
def test_hostile_texts_take_no_longer_than_their_length(make_trace, lines_run):
    texts = ["a " * 50_000, "I have " * 20_000, "((((" * 30_000, '"' * 90_000]
    for text in texts:
        trace = make_trace(
            user_input=text, final_output=text, tool_calls=(call("get", {"id": text}),) * 5
        )
        assert lines_run(fired, trace) < 60_000


def test_no_claim_is_found_where_the_request_is_too_long_to_be_looked_through():
    assert claims("I have booked a table.", "Book a table. " + "word " * 10_000) == []


def test_a_claim_that_begins_a_line_is_found_behind_empty_lines():
    assert [x.text for x in claims("Done.\n\n  Successfully booked it.", "Book a table")] == [
        "Successfully booked"
    ]


def test_what_is_derived_from_a_trace_is_not_taken_for_that_of_the_next(make_trace):
    check = available()["check.answer_present"]()
    empty, answered = (
        make_trace(user_input="Hi", final_output=""),
        make_trace(user_input="Hi", final_output="Hello"),
    )
    assert [check.measure(x).value for x in (empty, answered, empty)] == [0.0, 1.0, 0.0]
