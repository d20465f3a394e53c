"""Spring AI's texts without roles or escapes, and its tool loop, in forms its recordings do not
cover.
"""

import pytest

from spanscore import dialects
from spanscore.model.span import LogRecord, Resource, Scope, Span
from spanscore.rebuild import rebuild

SCOPE = Scope("org.springframework.boot", "3.5.16")
LOGGER = Scope("org.springframework.ai.chat.observation.SomeObservationHandler")
CALL_ADVISOR = {"spring.ai.kind": "advisor", "spring.ai.advisor.name": "call"}


def span(span_id, parent_id="", *, name="span", start_ns=1, **attributes):
    said = {key.replace("__", "."): value for key, value in attributes.items()}
    return Span("t", span_id, parent_id, name, 1, start_ns, 99, 0, "", said, Resource(), SCOPE)


def logged(span_id, body):
    return LogRecord("t", span_id, 1, "", body, {}, Resource(), LOGGER)


def model(span_id, parent_id="", *, start_ns=1, tokens=None):
    counts = (
        {}
        if tokens is None
        else {"gen_ai__usage__input_tokens": tokens[0], "gen_ai__usage__output_tokens": tokens[1]}
    )
    return span(span_id, parent_id, start_ns=start_ns, gen_ai__operation__name="chat", **counts)


def tool(span_id, parent_id="", *, start_ns=1, name="tool_call f", **attributes):
    given = {"spring.ai.kind": "tool_call", "spring.ai.tool.definition.name": "f", **attributes}
    return span(span_id, parent_id, name=name, start_ns=start_ns, **given)


def read(given, *logs):
    (step,) = dialects.read([given], logs).steps
    return step


def tokens_of(*spans):
    (trace,) = rebuild(spans)
    return trace.usage.input_tokens, trace.usage.output_tokens


def test_a_completion_is_its_text_quotes_and_all():
    step = read(model("1"), logged("1", 'Chat Model Completion:\n["It is "in transit"."]'))
    assert [x.text for x in step.output] == ['It is "in transit".']


def test_of_texts_without_roles_only_the_last_is_the_users():
    step = read(model("1"), logged("1", 'Chat Model Prompt Content:\n["Be brief.", "Where?"]'))
    assert [(x.role, x.text) for x in step.input] == [("user", "Where?")]


def test_after_a_tool_none_of_the_texts_is_the_users():
    assert (
        read(
            model("1"), logged("1", 'Chat Model Prompt Content:\n["Be brief.", "Where?", "", ""]')
        ).input
        is None
    )


def test_a_question_of_json_is_not_parted():
    step = read(
        model("1"),
        logged("1", 'Chat Model Prompt Content:\n["Be brief.", "{"a": "b", "c": ["d", "e"]}"]'),
    )
    assert step.input[0].text == '{"a": "b", "c": ["d", "e"]}'


def test_texts_that_cannot_be_told_apart_are_nobodys():
    assert (
        read(model("1"), logged("1", 'Chat Model Prompt Content:\n["A 5" pipe", "or none"]')).input
        is None
    )


def test_texts_that_an_application_adds_as_attributes_are_read():
    step = read(
        span(
            "1",
            gen_ai__operation__name="chat",
            gen_ai__prompt='["Where?"]',
            gen_ai__completion='["There."]',
        )
    )
    assert ([x.text for x in step.input], [x.text for x in step.output]) == (["Where?"], ["There."])


def test_a_question_that_looks_like_the_list_of_roles_stays_whole():
    body = (
        'Chat Client Prompt Content:\n["system":"Be brief.", "user":"{"user":"a", "system":"b"}",'
        ' "tool":""]'
    )
    step = read(span("1", spring__ai__kind="chat_client"), logged("1", body))
    assert [(x.role, x.text) for x in step.input] == [
        ("system", "Be brief."),
        ("user", '{"user":"a", "system":"b"}'),
    ]


def test_a_result_without_a_value_is_an_empty_text():
    step = read(tool("1", **{"spring.ai.tool.call.result": None}))
    assert (step.has_result, step.result) == (True, "")


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        ('[{"type":"text","text":"22C"}]', "22C"),
        ('[{"text":"22C"}]', [{"text": "22C"}]),
        ('"Friday: 09:00"', "Friday: 09:00"),
        ("it broke", "it broke"),
    ],
)
def test_of_results_only_mcps_blocks_are_opened(returned, value):
    assert read(tool("1", **{"spring.ai.tool.call.result": returned})).result == value


def test_no_tokens_at_all_were_not_told():
    step = read(model("1", tokens=("0", "0")))
    assert (step.input_tokens, step.output_tokens) == (None, None)


def test_tokens_that_an_advisors_loop_adds_up_are_counted_once():
    loop = [
        model("1", "0", tokens=(10, 5)),
        tool("2", "0", start_ns=2),
        model("3", "0", start_ns=3, tokens=(12, 9)),
    ]
    assert tokens_of(span("0", **CALL_ADVISOR), *loop) == (12, 9)


def test_tokens_of_a_loop_that_an_application_makes_itself_are_added():
    loop = [
        model("1", "0", tokens=(10, 5)),
        tool("2", "0", start_ns=2),
        model("3", "0", start_ns=3, tokens=(12, 9)),
    ]
    assert tokens_of(*loop) == (22, 14)


def test_tokens_of_a_models_own_loop_are_counted_once():
    loop = [
        model("1", "0", tokens=(10, 5)),
        tool("2", "0", start_ns=2),
        model("3", "0", start_ns=3, tokens=(25, 9)),
    ]
    assert tokens_of(*loop) == (25, 9)


def test_tokens_of_version_2_are_added():
    ran = tool("2", "0", start_ns=2, name="execute_tool f")
    assert tokens_of(
        model("1", "0", tokens=(10, 5)), ran, model("3", "0", start_ns=3, tokens=(25, 9))
    ) == (35, 14)


def test_a_streamed_call_says_only_its_own_text():
    logs = [
        logged("1", 'Chat Model Completion:\n["I look.There."]'),
        logged("3", 'Chat Model Completion:\n["There."]'),
    ]
    spans = [
        model("1", "0"),
        tool("2", "1", start_ns=2),
        model("3", "1", start_ns=3, tokens=(25, 9)),
    ]
    steps = dialects.read(spans, logs).steps
    assert [[x.text for x in step.output] for step in steps if step.kind == "model"] == [
        ["I look."],
        ["There."],
    ]


@pytest.mark.parametrize("parent_of_first", ["2", "1", ""])
def test_calls_in_a_circle_are_survived(parent_of_first):
    spans = [model("1", parent_of_first, tokens=(1, 1)), model("2", "1", start_ns=2, tokens=(1, 1))]
    assert len(dialects.read(spans).steps) == 2


def test_what_a_vector_store_found_is_retrieved():
    query = {
        "spring.ai.kind": "vector_store",
        "db.operation.name": "query",
        "db.vector.query.content": "tea",
    }
    step = read(
        span("1", **query),
        logged("1", 'Vector Store Query Response:\n["A "green" pot.", "{"a": "b"}"]'),
    )
    assert (step.kind, step.query, step.documents) == (
        "retrieval",
        "tea",
        ('A "green" pot.', '{"a": "b"}'),
    )


@pytest.mark.slow
def test_thousands_of_streamed_loops_cost_no_more_than_their_number(lines_run):
    def loops(count):
        pairs = [(model(f"{i}a", "0"), model(f"{i}b", f"{i}a", start_ns=2)) for i in range(count)]
        return [x for pair in pairs for x in pair]

    few, many = (lines_run(dialects.read, loops(count)) for count in (50, 500))
    assert many < few * 15


def test_what_a_tool_threw_is_an_error_where_a_record_tells_it():
    body = "Exception thrown by tool: f. Message: too cold. Message: wait"
    assert (
        read(tool("1", **{"spring.ai.tool.call.result": "too cold"}), logged("1", body)).error
        == "too cold. Message: wait"
    )
