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
    "instructions",
    [
        "You give information on trains.",
        "Answer in Markdown format.",
        "Give correct answers.",
        "Format the answer as a list.",
        "Format all final answers as Markdown.",
        "Correct the user politely.",
        "Do not translate names.",
        "Normally you are brief and clean.",
        "Never repeat the question.",
    ],
)
def test_words_on_the_form_of_answers_allow_no_echo(make_trace, instructions):
    question = "Which trains go to Rome?"
    trace = make_trace(user_input=question, final_output=question, system_instructions=instructions)
    assert len(findings("answer_is_no_echo", trace)) == 1


@pytest.mark.parametrize(
    "instructions",
    [
        "Translate into English.",
        "Format this as SQL.",
        "Reformat the code.",
        "Correct my sentences.",
        "Korrigiere die Texte.",
        "Traduis en anglais.",
        "You are a translator.",
        "You are a spell checker. Return the corrected text.",
        "把用户的话翻译成英文",
    ],
)
def test_an_agent_that_is_given_texts_to_work_on_may_give_one_back(make_trace, instructions):
    text = "Which trains go to Rome?"
    trace = make_trace(user_input=text, final_output=text, system_instructions=instructions)
    assert isinstance(outcome("answer_is_no_echo", trace), Skip)


@pytest.mark.parametrize("question", ["What did Ann order?", "What is the difference of A and B?"])
def test_an_echo_of_a_question_is_found_whatever_its_words_begin_with(make_trace, question):
    trace = make_trace(user_input=question, final_output=question)
    assert len(findings("answer_is_no_echo", trace)) == 1


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("What's your return policy?", "None"),
        ("When can I return my parcel?", "null"),
        ("What is my order code?", "null"),
        ("When is it due (roughly)?", "undefined"),
        ("Which item(s) are late?", "undefined"),
        ("What is open 24/7?", "NaN"),
        ("What is the status, id=5?", "null"),
        ("Print my ticket", "null"),
        ("How are my finances?", "NaN"),
        ("Evaluate my offer", "undefined"),
        ("My payment failed, can you retry it?", TRACEBACK),
        ("What happened to my order?", "Error: connect ECONNREFUSED status code 500"),
        ("I can't log in", TRACEBACK),
        ("What's wrong with my order?", "ValueError: no such order"),
        ("Mein Toaster ist kaputt", TRACEBACK),
        ("付款失败。请重试", TRACEBACK),
        ("Where is my order?", "<think>The user asks about the order.</think>"),
        ("Where is my order?", "<think>The user asks"),
        ("Where is my order?", "<|im_end|>"),
        ("Where is my order?", '<tool_call>{"name": "get_order"}</tool_call>'),
        ("Where is my order?", "undefined undefined"),
        ("Where is my order?", "`None`"),
        ("Where is my order?", "(no content)"),
        ("Where is my order?", "Exception: connection reset by peer"),
        ("Where is my order?", '{"status": "error", "message": "internal"}'),
        ("Where is my order?", "Agent stopped due to iteration limit or time limit."),
    ],
)
def test_a_printed_value_or_error_is_no_answer_to_a_common_question(make_trace, request_, answer):
    trace = make_trace(user_input=request_, final_output=answer)
    assert len(findings("answer_present", trace)) == 1


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("What does this function return?", "None"),
        ("What does f(3) return?", "None"),
        ("这个函数返回什么?", "null"),
        ("What is 5/0?", "undefined"),
        ("Why does the build fail?", "ImportError: no module named x"),
        ("What happened?", TRACEBACK),
        ("Show me the last log", TRACEBACK),
        ("Was ist schiefgelaufen?", TRACEBACK),
        ("What went wrong with job 5512?", TRACEBACK),
        ("Result of [].find(x => x)?", "undefined"),
        ("Is there a middle name?", "None"),
        ("Show all overdue invoices", "None"),
        ("What does the stack trace say?", "ValueError: bad input"),
        ("Why does my code crash? print(1/0)", "ZeroDivisionError: division by zero"),
        ("How should the API respond to a missing id?", '{"error": "missing id"}'),
        ("Thanks!", ":-)"),
        ("How many stars does it get?", "*****"),
        ("What is the default value of the timeout?", "null"),
        ("Which token ends a turn: <|im_end|> or </s>?", "<|im_end|>"),
        ("Where is my order?", "<think>I look it up.</think>In Cologne."),
    ],
)
def test_what_a_program_prints_answers_a_question_about_programs(make_trace, request_, answer):
    trace = make_trace(user_input=request_, final_output=answer)
    assert findings("answer_present", trace) == ()


@pytest.mark.parametrize(
    "request_",
    [
        "Book a table tonight",
        "What's on my list?",
        "Book a single room",
        "Is it normal?",
        "I can't log in",
        "You lied to me",
    ],
)
def test_a_loop_is_found_where_no_data_are_wanted(make_trace, request_):
    trace = make_trace(user_input=request_, final_output="It is old and grey. " * 40)
    assert len(findings("answer_does_not_loop", trace)) == 1


@pytest.mark.parametrize(
    "request_",
    [
        "Print a table of zeros",
        "List the results of tests",
        "Write a short song",
        "Give me the CSV",
        "Print hello forever",
        "Give me a long laugh",
    ],
)
def test_data_and_songs_may_repeat_a_passage(make_trace, request_):
    trace = make_trace(user_input=request_, final_output="test passed ok\n" * 40)
    assert isinstance(outcome("answer_does_not_loop", trace), Skip)


def test_laughter_in_chinese_is_no_loop_and_a_long_row_of_it_is(make_trace):
    answers = ["哈" * 70, "哈" * 149, "哈" * 150]
    found = [
        len(findings("answer_does_not_loop", make_trace(user_input="讲个笑话", final_output=x)))
        for x in answers
    ]
    assert found == [0, 0, 1]


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
        "order_total",
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
    ("value", "argument"),
    [("a1b2c3d4-1111-4222", "client_order_id"), ("20260520", "date_code")],
)
def test_what_the_caller_chooses_or_computes_is_not_looked_at(make_trace, value, argument):
    trace = make_trace(tool_calls=order(value, argument))
    assert isinstance(outcome("arguments_grounded", trace), Skip)


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("Zeig meine Rechnungen", "remove_invoice"),
        ("Muestra mis pedidos", "remove_order"),
        ("显示我的订单", "remove_order"),
        ("List the users", "drop_database"),
        ("Show my companies", "remove_company"),
        ("Show my data", "erase_disk"),
        ("Show my contacts", "remove_duplicate_contacts"),
        ("Show my cards", "remove_expired_card"),
        ("Show my files", "remove"),
        ("I want to see my bookings", "cancel_booking"),
        ("Could you please give me the details of contract 7?", "terminate_contract"),
        ("How is my account doing?", "close_account"),
        ("Let me see my portfolio", "buy_shares"),
        ("Get the customer record of Ann", "delete_customer"),
    ],
)
def test_what_is_taken_away_unasked_is_found_in_any_language(make_trace, request_, name):
    trace = make_trace(user_input=request_, tool_calls=(call(name),))
    assert len(findings("changes_asked_for", trace)) == 1


@pytest.mark.parametrize(
    "name",
    [
        "drop_na",
        "removeBackground",
        "remove_duplicates",
        "drop_columns",
        "remove_stop_words",
        "erase_image_background",
        "drop_duplicate_rows",
        "drop_temp_views",
        "purge_cache",
    ],
)
def test_what_is_taken_away_to_show_the_rest_is_no_finding(make_trace, name):
    trace = make_trace(user_input="Show the picture", tool_calls=(call(name),))
    assert findings("changes_asked_for", trace) == ()


@pytest.mark.parametrize(
    "sql",
    ["DELETE FROM invoices WHERE id = 42", "select 1; drop table invoices", "TRUNCATE TABLE a"],
)
def test_sql_that_deletes_where_the_user_asks_to_see_is_found(make_trace, sql):
    trace = make_trace(user_input="Show invoice 42", tool_calls=(call("run_sql", {"query": sql}),))
    assert len(findings("changes_asked_for", trace)) == 1


@pytest.mark.parametrize(
    ("name", "sql"),
    [
        ("run_sql", "SELECT * FROM invoices WHERE note = 'delete from'"),
        ("run_sql", "DROP TABLE IF EXISTS shown"),
        ("run_sql", "DELETE FROM tmp_invoices"),
        ("run_sql", "CREATE VIEW v AS SELECT 1; SELECT * FROM v; DROP TABLE v"),
        ("search_docs", "delete from table syntax"),
    ],
)
def test_sql_that_deletes_nothing_of_the_users_is_no_finding(make_trace, name, sql):
    trace = make_trace(user_input="Show invoice 42", tool_calls=(call(name, {"query": sql}),))
    assert findings("changes_asked_for", trace) == ()


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
    texts = [
        "x as in ",
        "x-ray ",
        "double ",
        "3 a ",
        "三",
        "a_" * 50,
        "correct the ",
        "list table ",
    ]
    for text in texts:
        hostile = text * (100_000 // len(text))
        trace = make_trace(
            user_input=hostile,
            final_output=hostile,
            history=(PastMessage("user", hostile),),
            system_instructions=hostile,
            tool_calls=order(hostile) * 3 + order() * 3,
        )
        for name in ("repeated_calls", "arguments_grounded", "answer_is_no_echo"):
            assert lines_run(findings, name, trace) < 60_000
