"""What becomes of the steps of a trace: which facts win, what is counted once, where one turn
ends.
"""

import json

import pytest
from turn_spans import ASK, agent, call, chat, span, text, told, tool

from spanscore.model.span import STATUS_ERROR, Resource, Scope, Span
from spanscore.rebuild import rebuild


def only(*spans):
    (trace,) = rebuild(spans)
    return trace


def test_a_call_that_is_requested_run_and_told_is_one_call():
    asked = call("weather", {"city": "Paris"}, "c1")
    trace = only(
        agent(),
        chat("1", 1, [ASK], [asked]),
        tool(
            "2",
            3,
            "weather",
            call__id="c1",
            call__arguments='{"city": "Paris"}',
            call__result="15C",
        ),
        chat("3", 5, [ASK, asked, told("15C", "c1")], [text("assistant", "Paris.")]),
    )
    assert [(x.call_id, x.arguments, x.result, x.span_id) for x in trace.tool_calls] == [
        ("c1", {"city": "Paris"}, "15C", "2")
    ]


@pytest.mark.parametrize(
    ("reasons", "answer"),
    [(["tool_call"], None), (["stop"], "Paris."), (["tool_calls", "stop"], "Paris.")],
)
def test_what_a_model_says_before_tools_that_are_not_told_is_no_answer(reasons, answer):
    said = chat(
        "1",
        1,
        [ASK],
        [text("assistant", "Paris.")],
        parent="",
        gen_ai__response__finish_reasons=reasons,
    )
    assert only(said).final_output == answer


def test_identical_calls_made_twice_are_two():
    asked = call("weather", {"city": "Paris"})
    trace = only(
        agent(),
        chat("1", 1, [ASK], [asked]),
        tool("2", 3, "weather", call__arguments='{"city": "Paris"}', call__result="1"),
        chat("3", 5, [ASK, asked, told("1")], [asked]),
        tool("4", 7, "weather", call__arguments='{"city": "Paris"}', call__result="2"),
    )
    assert [(x.result, x.span_id) for x in trace.tool_calls] == [(1, "2"), (2, "4")]


def test_ids_that_repeat_identify_nothing():
    first, second = (
        call("weather", {"city": "Paris"}, "0"),
        call("weather", {"city": "Berlin"}, "0"),
    )
    trace = only(
        agent(),
        chat("1", 1, [ASK], [first]),
        chat("3", 5, [ASK, first, told("15C", "0")], [second]),
        chat(
            "5",
            9,
            [ASK, first, told("15C", "0"), second, told("11C", "0")],
            [text("assistant", "Paris.")],
        ),
    )
    assert [(x.arguments["city"], x.result) for x in trace.tool_calls] == [
        ("Paris", "15C"),
        ("Berlin", "11C"),
    ]


def test_arguments_come_from_the_request_and_the_result_from_the_next_input():
    asked = call("weather", {"city": "Paris"}, "c1")
    trace = only(
        agent(),
        chat("1", 1, [ASK], [asked]),
        tool("2", 3, "weather"),
        chat("3", 5, [ASK, asked, told("15C", "c1")], [text("assistant", "Paris.")]),
    )
    assert [(x.arguments, x.result, x.span_id) for x in trace.tool_calls] == [
        ({"city": "Paris"}, "15C", "2")
    ]


def test_a_result_is_found_by_its_id_where_the_input_holds_only_what_is_new():
    trace = only(
        agent(),
        chat("1", 1, [ASK], [call("weather", {}, "c1")]),
        chat("3", 5, [told("15C", "c1")], [text("assistant", "Paris.")]),
    )
    assert [x.result for x in trace.tool_calls] == ["15C"]


def test_a_call_whose_model_call_was_lost_is_found_in_the_next_input():
    asked = call("weather", {"city": "Paris"}, "c1")
    trace = only(
        agent(), chat("3", 5, [ASK, asked, told("15C", "c1")], [text("assistant", "Paris.")])
    )
    assert [(x.name, x.arguments, x.result) for x in trace.tool_calls] == [
        ("weather", {"city": "Paris"}, "15C")
    ]


def test_a_call_that_only_an_input_shows_keeps_its_place_in_the_conversation():
    given = [
        ASK,
        call("first", {}, "c1"),
        told("1", "c1"),
        call("second", {}, "c2"),
        told("2", "c2"),
    ]
    trace = only(
        agent(),
        chat("1", 1, given, [text("assistant", "Paris.")]),
        tool("2", 50, "first", call__id="c1", call__result="1"),
    )
    assert [x.name for x in trace.tool_calls] == ["first", "second"]


def test_parallel_calls_without_ids_keep_their_results():
    both = {
        "role": "assistant",
        "parts": [*call("w", {"c": 1})["parts"], *call("w", {"c": 2})["parts"]],
    }
    trace = only(
        agent(),
        chat("1", 1, [ASK], [both]),
        tool("2", 3, "w", call__arguments='{"c": 2}', call__result="two"),
        tool("3", 4, "w", call__arguments='{"c": 1}', call__result="one"),
    )
    assert [(x.arguments["c"], x.result) for x in trace.tool_calls] == [(1, "one"), (2, "two")]


def with_defaults(number, start, city, **attributes):
    """A tool's span whose arguments have the default of what the model left out."""
    return tool(
        number,
        start,
        "book",
        call__arguments=json.dumps({"city": city, "time": "19:00"}),
        **attributes,
    )


def test_a_span_with_defaults_filled_in_and_the_call_in_the_next_input_are_one_call():
    trace = only(
        agent(),
        with_defaults("2", 3, "Paris"),
        chat(
            "3",
            5,
            [ASK, call("book", {"city": "Paris"}), told("R-1")],
            [text("assistant", "Booked.")],
        ),
    )
    assert [(x.arguments, x.result, x.span_id) for x in trace.tool_calls] == [
        ({"city": "Paris", "time": "19:00"}, "R-1", "2")
    ]


def test_identical_calls_with_defaults_filled_in_are_two():
    asked = call("book", {"city": "Paris"})
    trace = only(
        agent(),
        with_defaults("2", 3, "Paris"),
        with_defaults("3", 4, "Paris"),
        chat("4", 6, [ASK, asked, told("R-1"), asked, told("R-2")], [text("assistant", "Booked.")]),
    )
    assert [(x.result, x.span_id) for x in trace.tool_calls] == [("R-1", "2"), ("R-2", "3")]


@pytest.mark.parametrize(
    "asked",
    [
        call("book", {"city": "Berlin"}),
        call("book", {"city": "Paris", "day": 1}),
        call("book", {}),
        call("find", {"city": "Paris"}),
        call("book", {"city": "Paris"}, "another"),
    ],
)
def test_a_span_with_other_arguments_or_another_id_is_another_call(asked):
    trace = only(
        agent(),
        with_defaults("2", 3, "Paris", call__id="one"),
        chat("3", 5, [ASK, asked], [text("assistant", "Booked.")]),
    )
    assert len(trace.tool_calls) == 2


def test_calls_of_the_history_are_not_calls_of_the_turn():
    old = [
        text("user", "Hi"),
        call("weather", {"city": "Rome"}, "c0"),
        told("20C", "c0"),
        text("assistant", "20C."),
    ]
    trace = only(agent(), chat("1", 1, [*old, ASK], [text("assistant", "Paris.")]))
    assert (trace.tool_calls, [x.role for x in trace.history]) == (
        (),
        ["user", "assistant", "tool", "assistant"],
    )


def test_a_question_that_was_asked_before_opens_the_turn_at_its_last_place():
    old = [
        ASK,
        call("weather", {"city": "Paris"}, "c0"),
        told("15C", "c0"),
        text("assistant", "Paris."),
    ]
    asked = call("weather", {"city": "Paris"}, "c1")
    trace = only(
        agent(),
        chat("1", 1, [*old, ASK], [asked]),
        chat("3", 5, [*old, ASK, asked, told("16C", "c1")], [text("assistant", "Still Paris.")]),
    )
    assert ([x.call_id for x in trace.tool_calls], len(trace.history)) == (["c1"], 4)


def test_a_question_that_is_json_stays_text():
    question = '{"city": "Paris", "days": [1, 2]}'
    assert only(agent(), chat("1", 1, [text("user", question)], [])).user_input == question


@pytest.mark.parametrize(
    "result", [0, False, None, "", [], {}, {"result": 1}, {"content": "x", "error": None}]
)
def test_a_tools_own_result_is_kept_as_it_is(result):
    printed = result if result == "" else json.dumps(result)
    trace = only(agent(), tool("2", 3, "f", call__arguments="{}", call__result=printed))
    assert (trace.tool_calls[0].result, trace.tool_calls[0].error) == (result, None)


def test_a_null_result_on_the_span_is_not_looked_for_elsewhere():
    asked = call("f", {}, "c1")
    trace = only(
        agent(),
        chat("1", 1, [ASK], [asked]),
        tool("2", 3, "f", call__id="c1", call__result="null"),
        chat("3", 5, [ASK, asked, told("None", "c1")], []),
    )
    assert trace.tool_calls[0].result is None


def test_a_null_result_is_told_from_one_that_was_not_recorded():
    null = {"call__result": "null"}
    trace = only(
        agent(),
        tool("2", 1, "log", **null),
        tool("3", 3, "log"),
        tool("4", 5, "log", call__result="0"),
    )
    assert [(x.result, x.returned) for x in trace.tool_calls] == [
        (None, True),
        (None, False),
        (0, True),
    ]


def test_a_null_that_the_next_model_call_was_told_is_a_result():
    asked = call("log", {"city": "Paris"}, "c1")
    trace = only(
        agent(),
        chat("1", 1, [ASK], [asked]),
        chat("3", 5, [ASK, asked, told(None, "c1")], [text("assistant", "!")]),
    )
    assert [(x.result, x.returned) for x in trace.tool_calls] == [(None, True)]


def test_a_failed_span_states_its_error():
    trace = only(agent(), tool("2", 3, "f", status=STATUS_ERROR, message="refused"))
    assert (trace.tool_calls[0].error, trace.tool_calls[0].error_inferred) == ("refused", False)


def test_an_error_that_is_only_returned_is_inferred():
    trace = only(agent(), tool("2", 3, "f", call__result="ERROR: upstream timeout"))
    assert (trace.tool_calls[0].error, trace.tool_calls[0].error_inferred) == (
        "ERROR: upstream timeout",
        True,
    )


def test_values_without_names_get_the_names_of_the_tools_schema():
    schema = [{"name": "f", "parameters": {"properties": {"city": {}, "days": {}}}}]
    trace = only(
        agent(gen_ai__tool__definitions=json.dumps(schema)),
        span(
            "2",
            "a",
            3,
            traceloop__span__kind="tool",
            traceloop__entity__name="f",
            traceloop__entity__input='{"args": ["Paris"], "kwargs": {"days": 2}}',
        ),
    )
    assert trace.tool_calls[0].arguments == {"city": "Paris", "days": 2}


@pytest.mark.parametrize(("kind", "value"), [("string", "7"), ("integer", 7)])
def test_a_value_that_was_recorded_alone_is_text_where_the_schema_asks_for_text(kind, value):
    schema = [{"name": "f", "parameters": {"properties": {"card": {"type": kind}}}}]
    attributes = {"openinference__span__kind": "TOOL", "tool__name": "f", "input__value": "7"}
    lang_chain = "openinference.instrumentation.langchain"
    trace = only(
        agent(gen_ai__tool__definitions=json.dumps(schema)),
        span("2", "a", 3, scope=lang_chain, **attributes),
    )
    assert trace.tool_calls[0].arguments == {"card": value}


def test_values_without_names_and_schema_stay_values():
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "f", "input.value": "Paris"}
    ran = span("2", "a", 3, **{key.replace(".", "__"): value for key, value in attributes.items()})
    assert only(agent(), ran).tool_calls[0].arguments == "Paris"


def test_a_model_call_reported_inside_another_is_one_call():
    trace = only(
        agent(),
        chat("1", 1, [ASK], [text("assistant", "Paris.")], gen_ai__usage__input_tokens=10),
        chat("2", 1, parent="1", gen_ai__usage__input_tokens=10, gen_ai__response__id="r1"),
    )
    assert (len(trace.model_calls), trace.usage.input_tokens) == (1, 10)


def test_a_model_span_around_several_calls_only_sums_them_up():
    trace = only(
        agent(),
        chat("0", 1, gen_ai__usage__input_tokens=30),
        chat("1", 1, parent="0", gen_ai__usage__input_tokens=10, gen_ai__usage__output_tokens=1),
        chat("2", 3, parent="0", gen_ai__usage__input_tokens=20, gen_ai__usage__output_tokens=1),
    )
    assert ([x.span_id for x in trace.model_calls], trace.usage.input_tokens) == (["1", "2"], 30)


def test_reports_side_by_side_of_one_response_are_one_call():
    both = {"gen_ai__response__id": "r1", "gen_ai__usage__input_tokens": 10}
    trace = only(agent(), chat("1", 1, **both), chat("2", 1, **both))
    assert trace.usage.input_tokens == 10


def test_an_agents_sum_is_not_added_to_its_model_calls():
    trace = only(
        agent(gen_ai__usage__input_tokens=10), chat("1", 1, gen_ai__usage__input_tokens=10)
    )
    assert trace.usage.input_tokens == 10


def test_an_agents_sum_counts_where_its_model_calls_have_none():
    assert only(agent(gen_ai__usage__input_tokens=10), chat("1", 1)).usage.input_tokens == 10


def test_a_tool_reported_by_the_client_and_the_server_of_mcp_is_one_call():
    trace = only(
        agent(),
        tool("2", 3, "f", call__arguments='{"x": 1}'),
        tool("3", 3, "f", parent="2", mcp__method__name="tools/call", call__result="1"),
        span("4", "2", 3, mcp__method__name="initialize"),
    )
    assert [(x.span_id, x.arguments, x.result) for x in trace.tool_calls] == [("2", {"x": 1}, 1)]


def test_without_content_and_tool_spans_nothing_is_known_of_calls():
    assert only(agent(), chat("1", 1)).tool_calls is None


def test_with_content_that_shows_no_call_there_was_none():
    assert only(agent(), chat("1", 1, [ASK], [text("assistant", "Paris.")])).tool_calls == ()


UNKNOWN = [
    {"role": "assistant", "parts": [{"type": "tool_call"}]},
    {"role": "assistant", "parts": [{"type": "thinking_aloud", "of": 9}]},
    {"role": "assistant", "parts": [{"type": "image", "content": "…"}]},
    {"role": "user", "parts": 5},
]


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_a_last_message_of_which_nothing_is_known_does_not_hide_the_answer(unknown):
    trace = only(chat("1", 1, [ASK], [text("assistant", "Paris."), unknown], parent=""))
    assert (trace.final_output, trace.damaged) == ("Paris.", ())


def test_text_before_a_last_message_that_was_redacted_is_no_answer():
    trace = only(
        chat(
            "1",
            1,
            [ASK],
            [text("assistant", "Let me see."), text("assistant", "[REDACTED]")],
            parent="",
        )
    )
    assert (trace.final_output, "final_output" in trace.damaged) == (None, True)


def test_the_plan_is_the_text_beside_the_first_calls():
    plan = "Plan: 1. look up the city 2. ask for its weather"
    asked = call("f", {}, "c1", said=plan)
    assert only(agent(), chat("1", 1, [ASK], [asked])).plan == plan


def test_an_answer_is_no_plan():
    assert only(agent(), chat("1", 1, [ASK], [text("assistant", "Paris.")])).plan is None


def test_a_model_call_beside_the_agent_neither_asks_nor_answers():
    trace = only(
        span("r", end=100, http__route="/chat"),
        chat("0", 1, [text("user", "Find a title")], [text("assistant", "Cities")], parent="r"),
        span("a", "r", 3, 50, gen_ai__operation__name="invoke_agent"),
        chat("1", 4, [ASK], [text("assistant", "Paris.")]),
        chat("2", 60, [text("user", "Suggest more")], [text("assistant", "Rome?")], parent="r"),
    )
    assert (trace.user_input, trace.final_output) == ("Paris or Berlin?", "Paris.")


def test_a_sub_agents_calls_are_named_after_it():
    trace = only(
        agent(gen_ai__agent__name="boss"),
        chat("1", 1, [ASK], [call("ask_expert", {}, "c1")]),
        tool("2", 3, "ask_expert", call__id="c1", call__result="15C"),
        span("b", "2", 4, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="expert"),
        chat("3", 5, [text("user", "Paris?")], [call("weather", {}, "c2")], parent="b"),
        tool("4", 6, "weather", parent="b", call__id="c2"),
        chat("5", 8, [ASK], [text("assistant", "Paris.")]),
    )
    assert [(x.name, x.agent) for x in trace.tool_calls] == [
        ("ask_expert", "boss"),
        ("weather", "expert"),
    ]
    assert (trace.user_input, trace.agent_name) == ("Paris or Berlin?", "boss")


def test_agents_in_a_row_are_one_turn():
    trace = only(
        span("r", end=100),
        span("a", "r", 1, 10, gen_ai__operation__name="invoke_agent"),
        chat("1", 2, [ASK], [text("assistant", "Draft")]),
        span("b", "r", 20, 30, gen_ai__operation__name="invoke_agent"),
        chat("2", 21, [text("user", "Improve: Draft")], [text("assistant", "Better")], parent="b"),
    )
    assert (trace.user_input, trace.final_output, trace.target.span_id) == (
        "Paris or Berlin?",
        "Better",
        "r",
    )


def test_a_conversation_that_goes_on_in_the_same_trace_is_a_second_turn():
    said = [ASK, text("assistant", "Paris.")]
    first, second = rebuild(
        [
            span("r", end=100),
            span("a", "r", 1, 10, gen_ai__operation__name="invoke_agent"),
            chat("1", 2, [ASK], said[1:], gen_ai__usage__input_tokens=1),
            span("b", "r", 20, 30, gen_ai__operation__name="invoke_agent"),
            chat(
                "2",
                21,
                [*said, text("user", "Sure?")],
                [text("assistant", "Yes.")],
                "b",
                gen_ai__usage__input_tokens=2,
            ),
        ]
    )
    assert [
        (x.user_input, x.final_output, x.usage.input_tokens, x.target.span_id)
        for x in (first, second)
    ] == [("Paris or Berlin?", "Paris.", 1, "a"), ("Sure?", "Yes.", 2, "b")]
    assert first.id != second.id


def test_the_first_turn_keeps_its_id_when_a_second_one_arrives():
    said = [ASK, text("assistant", "Paris.")]
    early = [span("r", end=100), chat("1", 2, [ASK], said[1:], parent="r")]
    late = [
        *early,
        chat("2", 21, [*said, text("user", "Sure?")], [text("assistant", "Yes.")], parent="r"),
    ]
    assert rebuild(early)[0].id == rebuild(late)[0].id


def test_an_agent_trace_keeps_its_id_when_the_root_comes_last():
    spans = [chat("1", 2, [ASK], [], parent="r"), span("r", end=100)]
    assert rebuild(spans[:1])[0].id == rebuild(spans)[0].id


def test_scores_go_to_the_agent_below_a_servers_root():
    trace = only(
        span("r", http__route="/chat"), span("a", "r", 1, gen_ai__operation__name="invoke_agent")
    )
    assert (trace.target.span_id, trace.root_span_id) == ("a", "r")


def test_without_a_root_scores_go_to_the_topmost_span():
    trace = only(chat("1", 2, [ASK], [], parent="r"))
    assert (trace.target.span_id, trace.root_span_id) == ("1", None)


@pytest.mark.parametrize(
    "spans",
    [
        [span("1", gen_ai__operation__name="create_agent")],
        [span("1", gen_ai__tool__name="(merged tools)", scope="gcp.vertex.agent")],
        [span("1", mcp__method__name="tools/list")],
        [span("1", gen_ai__operation__name="embeddings")],
        [span("1", http__route="/")],
        [span("1", gen_ai__operation__name="evaluation")],
        [span("1", openinference__span__kind="EVALUATOR")],
        [span("1", gen_ai__operation__name="chat", spanscore__emitted=True)],
        [span("1", gen_ai__operation__name="chat", scope="spanscore")],
        [],
    ],
)
def test_bookkeeping_and_evaluations_are_no_agent_traces(spans):
    assert rebuild(spans) == []


def test_spans_that_nobody_reads_are_counted():
    assert (
        only(agent(), span("2", "a", http__route="/"), span("3", "2", db__system="x")).unread_spans
        == 2
    )


def test_an_unread_root_names_session_and_user():
    trace = only(span("r", session__id="s1", user__id="u1"), chat("1", 2, [ASK], [], parent="r"))
    assert (trace.session_id, trace.user_id) == ("s1", "u1")


def test_cut_messages_are_kept_as_far_as_they_are_whole():
    given = json.dumps([text("system", "Be brief."), ASK, text("user", "and Rome")])[:-20]
    trace = only(
        agent(), span("1", "a", 2, gen_ai__operation__name="chat", gen_ai__input__messages=given)
    )
    assert ([x.text for x in trace.history], trace.damaged) == (
        ["Paris or Berlin?"],
        ("history", "user_input"),
    )


def test_a_question_is_not_taken_from_a_list_whose_end_was_cut():
    given = json.dumps([ASK, text("assistant", "Berlin."), text("user", "and Rome")])[:-20]
    trace = only(
        agent(), span("1", "a", 2, gen_ai__operation__name="chat", gen_ai__input__messages=given)
    )
    assert trace.user_input is None


def test_redacted_text_is_not_taken_for_what_was_said():
    trace = only(
        agent(), chat("1", 2, [text("user", "__REDACTED__")], [text("assistant", "Paris.")])
    )
    assert (trace.user_input, "user_input" in trace.damaged) == (None, True)


def test_the_more_complete_version_of_a_span_counts():
    pending = Span(
        "t1",
        "1",
        "",
        "chat",
        1,
        5,
        0,
        0,
        "",
        {"gen_ai.operation.name": "chat"},
        Resource(),
        Scope(),
    )
    final = chat("1", 2, [ASK], [], parent="")
    assert only(pending, final) == only(final, pending) == only(final)
