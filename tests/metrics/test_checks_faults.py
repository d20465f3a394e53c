"""Plain faults beside words that, elsewhere, account for what looks like one."""

import pytest
from check_harness import call, findings, outcome, tool

from spanscore.model.score import Skip
from spanscore.model.trace import PastMessage

PAID = (call("create_payment", {"amount": 250}, "paid"),) * 6
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1\nKeyError: 1'


@pytest.mark.parametrize(
    "request_",
    [
        "Pay invoice 3",
        "pay some invoice",
        "Send the mail to 12 High Street",
        "Send it to 12 Baker Street",
        "Pay all of it, every detail please",
        "Keep it short and pay",
        "Put it on my watch list",
        "Zahle bis Freitag",
        "Zahle jeden Betrag",
        "Pay again",
        "每个都要付",
        "付第三次",
        "付款。今天回答我",
        "It is open at all times",
        "Pay within 3 days",
        "Pay 250 dollars",
        "Pay for 4 guests",
        "Pay 3 invoices",
        "Pay three times",
    ],
)
def test_a_payment_made_six_times_is_found(make_trace, request_):
    trace = make_trace(user_input=request_, tool_calls=PAID)
    assert len(findings("repeated_calls", trace)) == 1


@pytest.mark.parametrize("result", ["已处理", "处理完毕", "处理成功", "无需保留"])
def test_work_that_is_done_is_not_under_way(make_trace, result):
    calls = (call("query_task", {"id": 1}, result),) * 4
    trace = make_trace(user_input="查询任务", tool_calls=calls)
    assert len(findings("repeated_calls", trace)) == 1


@pytest.mark.parametrize(
    ("request_", "calls"),
    [
        ("Send three friendly reminders", (call("send_reminder"),) * 3),
        ("Sende vier Erinnerungen", (call("send_reminder"),) * 4),
        ("Envía cinco recordatorios", (call("send_reminder"),) * 5),
        ("发四条提醒", (call("send_reminder"),) * 4),
        ("Look it up 4 times", (call("get_shop"),) * 4),
        ("Sieh viermal nach", (call("get_shop"),) * 4),
        ("Look until it is open", (call("get_shop"),) * 9),
        ("Keep checking", (call("get_shop"),) * 9),
        ("查四次", (call("get_shop"),) * 4),
    ],
)
def test_as_many_calls_as_the_user_wants_are_no_finding(make_trace, request_, calls):
    trace = make_trace(user_input=request_, tool_calls=calls)
    assert findings("repeated_calls", trace) == ()


def test_a_number_of_things_is_no_reason_to_look_something_up_again(make_trace):
    calls = (call("search_flights", {"to": "Rome"}, []),) * 4
    trace = make_trace(user_input="Compare 4 flights to Rome", tool_calls=calls)
    assert len(findings("repeated_calls", trace)) == 1


def test_a_number_that_a_call_contains_is_no_number_of_calls(make_trace):
    calls = (call("book_table", {"plates": 6}),) * 5
    trace = make_trace(user_input="Book a table with 6 plates", tool_calls=calls)
    assert len(findings("repeated_calls", trace)) == 1


@pytest.mark.parametrize(
    "answer",
    [
        *("None", "null", "undefined", "nil", "NaN", "`None`", '"null"', "[object Object]", " \n"),
        TRACEBACK,
        "panic: index out of range",
        "TypeError: x is undefined\n    at f (a.js:1:2)",
    ],
)
def test_a_value_that_is_not_there_or_a_stack_trace_is_no_answer(make_trace, answer):
    assert len(findings("answer_present", make_trace(final_output=answer))) == 1


@pytest.mark.parametrize(
    "answer",
    ["No", "0", ":-)", "[]", "None of them.", "ValueError: no city", f"It printed:\n{TRACEBACK}"],
)
def test_anything_else_is_an_answer(make_trace, answer):
    assert findings("answer_present", make_trace(final_output=answer)) == ()


def order(value="ORD998877", argument="order_id"):
    return (call("get_order", {argument: value}),)


@pytest.mark.parametrize(
    "request_",
    [
        "Plan B, for me",
        "vitamin C for my order",
        "el plan B de mi pedido",
        "My order for the Delta Hotel",
        "Options a, b, c, d and e",
        "二〇二六年的订单",
        "one two three, where is my order",
        "India or Quebec, Lima?",
        "In 2026, 12 of 31",
    ],
)
def test_an_invented_identifier_is_found_beside_letters_and_numbers(make_trace, request_):
    trace = make_trace(user_input=request_, tool_calls=order())
    assert len(findings("arguments_grounded", trace)) == 1


@pytest.mark.parametrize(
    ("request_", "value"),
    [
        ("It is X, E, H, M, four, B", "XEHM4B"),
        ("X as in X-ray, E like Emil, H for Hans, M, 4 and B as in Bob", "XEHM4B"),
        ("X wie Xaver, E wie Emil, H, M, vier, B", "XEHM4B"),
        ("order oh nine double seven one two", "097712"),
        ("It's A, B, C, one, two, three", "ORD-ABC123"),
        ("ORD dash nine nine eight eight seven seven", "ORD-998877"),
        ("订单二〇二六七七八八", "20267788"),
    ],
)
def test_a_spelled_code_is_no_finding_and_the_reason_says_so(make_trace, request_, value):
    found = outcome("arguments_grounded", make_trace(user_input=request_, tool_calls=order(value)))
    assert isinstance(found, Skip)
    assert (found.cause, "spells" in found.reason) == ("not_applicable", True)


def test_an_invented_identifier_is_found_beside_a_spelled_one(make_trace):
    calls = order("XEHM4B") + order("ORD998877")
    trace = make_trace(user_input="It is X, E, H, M, four, B", tool_calls=calls)
    assert [x["call"] for x in findings("arguments_grounded", trace)] == [2]


@pytest.mark.parametrize(
    "argument",
    [
        "tracking_status_code",
        "state_id",
        "country_account_id",
        "account_value",
        "total_invoice_number",
        "airport_user_id",
        "date_order_id",
    ],
)
def test_a_known_word_within_a_name_excuses_no_invented_identifier(make_trace, argument):
    trace = make_trace(tool_calls=order("AC99887766", argument))
    assert len(findings("arguments_grounded", trace)) == 1


@pytest.mark.parametrize("argument", ["order_id", "order_number", "booking_code", "order"])
def test_digits_that_look_like_a_date_identify_an_order(make_trace, argument):
    trace = make_trace(tool_calls=order("20260503", argument))
    assert len(findings("arguments_grounded", trace)) == 1


@pytest.mark.parametrize(
    "argument",
    [
        "zip_code",
        "isbn_number",
        "gene_id",
        "cve_id",
        "imdb_id",
        "icd10_code",
        "color_code",
        "user_count",
    ],
)
def test_public_codes_and_measures_are_not_looked_at(make_trace, argument):
    trace = make_trace(tool_calls=order("99887766", argument))
    assert isinstance(outcome("arguments_grounded", trace), Skip)


@pytest.mark.parametrize(
    ("request_", "value"),
    [
        ("Look up customer 12", "CUST-0012"),
        ("How much is the iPhone 15 Pro Max with 256 GB?", "iphone-15-pro-max-256"),
    ],
)
def test_what_is_made_of_the_users_words_is_grounded(make_trace, request_, value):
    trace = make_trace(user_input=request_, tool_calls=order(value, "order_id"))
    assert findings("arguments_grounded", trace) == ()


@pytest.mark.parametrize(
    ("value", "argument"), [("a1b2c3d4-1111-4222", "client_order_id"), ("20260520", "date_code")]
)
def test_what_the_caller_chooses_or_computes_is_not_looked_at(make_trace, value, argument):
    trace = make_trace(tool_calls=order(value, argument))
    assert isinstance(outcome("arguments_grounded", trace), Skip)


def test_what_is_wanted_every_minute_is_repeated_for_good_reason(make_trace):
    trace = make_trace(user_input="Take a picture every minute", tool_calls=(call("take"),) * 5)
    assert findings("repeated_calls", trace) == ()


@pytest.mark.parametrize("times", [6, 9])
def test_very_many_calls_alike_are_found_where_no_result_was_recorded(make_trace, times):
    calls = (call("get_weather", {"city": "Oslo"}, result=None),) * times
    trace = make_trace(user_input="What is the weather?", tool_calls=calls)
    assert len(findings("repeated_calls", trace)) == 1


def test_a_few_calls_alike_without_results_are_no_pass(make_trace):
    calls = (call("get_weather", {"city": "Oslo"}, result=None),) * 3
    trace = make_trace(user_input="What is the weather?", tool_calls=calls)
    skipped = outcome("repeated_calls", trace)
    assert isinstance(skipped, Skip)
    assert skipped.cause == "not_recorded"


@pytest.mark.parametrize("name", ["zoom_in", "undo", "increase_brightness", "skip_track"])
def test_a_step_may_be_taken_several_times(make_trace, name):
    trace = make_trace(user_input="A bit more", tool_calls=(call(name),) * 4)
    assert findings("repeated_calls", trace) == ()


def offered_and_called(make_trace, offered, called):
    return make_trace(
        available_tools=tuple(tool(x) for x in offered),
        tool_calls=(call(called, error="unknown tool"),),
    )


OFFERED = ("read_file", "read_mail", "get_user", "get_order", "send_email", "send_sms", "users")


@pytest.mark.parametrize(
    "called", ["file", "mail", "user", "email", "order", "delete_all_users", "my_read_file"]
)
def test_a_made_up_tool_that_ends_or_begins_like_another_is_found(make_trace, called):
    trace = offered_and_called(make_trace, OFFERED, called)
    assert len(findings("tools_on_offer", trace)) == 1


@pytest.mark.parametrize(
    ("offered", "called"),
    [
        (("files_read", "files_write"), "read"),
        (("gh-issues-list", "gh-issues-get"), "issues-list"),
        (("files_read", "files_write", "copy"), "files_copy"),
        (("read_file",), "files-server_read_file"),
        (("mcp_files_read_file",), "read_file"),
    ],
)
def test_a_server_before_a_name_makes_no_other_tool(make_trace, offered, called):
    assert findings("tools_on_offer", offered_and_called(make_trace, offered, called)) == ()


@pytest.mark.slow
def test_checks_of_hostile_texts_run_few_lines(make_trace, lines_run):
    texts = ["x as in ", "x-ray ", "double ", "3 a ", "三", "a_" * 50]
    for text in texts:
        hostile = text * (100_000 // len(text))
        trace = make_trace(
            user_input=hostile,
            final_output=hostile,
            history=(PastMessage("user", hostile),),
            system_instructions=hostile,
            tool_calls=order(hostile) * 3 + order() * 3,
        )
        for name in ("repeated_calls", "arguments_grounded"):
            assert lines_run(findings, name, trace) < 60_000
