"""One turn of several agents: whose question, whose answer, whose calls."""

from turn_spans import ANSWER, ASK, agent, call, chat, span, text, told, tool

from spanscore.rebuild import rebuild


def only(*spans):
    (trace,) = rebuild(spans)
    return trace


def sub_agent(span_id, parent, start, end, name):
    return span(
        span_id,
        parent,
        start,
        end,
        gen_ai__operation__name="invoke_agent",
        gen_ai__agent__name=name,
    )


HAND_OVER = call("transfer_to_clerk", {}, "c1")
DELEGATED = text("user", "Which is warmer?")


def test_after_a_hand_over_the_last_agent_answers():
    trace = only(
        agent("a", gen_ai__agent__name="desk"),
        chat("1", 1, [ASK], [HAND_OVER]),
        sub_agent("b", "a", 10, 90, "clerk"),
        chat("2", 11, [ASK, HAND_OVER, told("ok", "c1")], [ANSWER], parent="b"),
    )
    assert (trace.agent_name, trace.user_input, trace.final_output) == (
        "desk",
        "Paris or Berlin?",
        "Paris, as ever.",
    )


def test_the_call_that_hands_over_is_one_call_of_the_agent_that_made_it():
    trace = only(
        agent("a", gen_ai__agent__name="desk"),
        chat("1", 1, [ASK], [HAND_OVER]),
        sub_agent("b", "a", 10, 90, "clerk"),
        chat("2", 11, [ASK, HAND_OVER, told("ok", "c1")], [ANSWER], parent="b"),
    )
    assert [(x.agent, x.name, x.result) for x in trace.tool_calls] == [
        ("desk", "transfer_to_clerk", "ok")
    ]


def test_a_delegates_answer_is_not_the_users():
    asked = call("ask_clerk", {"q": "warmer?"}, "c1")
    trace = only(
        agent("a", gen_ai__agent__name="desk"),
        chat("1", 1, [ASK], [asked]),
        tool("2", 3, "ask_clerk", end=50, call__id="c1"),
        sub_agent("b", "2", 4, 49, "clerk"),
        chat("3", 5, [DELEGATED], [text("assistant", "It is Paris.")], parent="b"),
    )
    assert (trace.user_input, trace.final_output) == ("Paris or Berlin?", None)


def test_a_sub_agents_calls_have_its_name_and_its_tools_are_on_offer():
    asked = call("ask_clerk", {"q": "warmer?"}, "c1")
    trace = only(
        agent("a", gen_ai__agent__name="desk"),
        chat("1", 1, [ASK], [asked], gen_ai__tool__definitions='[{"name": "ask_clerk"}]'),
        tool("2", 3, "ask_clerk", end=50, call__id="c1"),
        sub_agent("b", "2", 4, 49, "clerk"),
        chat(
            "3",
            5,
            [DELEGATED],
            [call("weather", {}, "c2")],
            parent="b",
            gen_ai__tool__definitions='[{"name": "weather"}]',
        ),
        tool("4", 7, "weather", parent="b", call__id="c2"),
        chat("5", 60, [ASK, asked, told("Paris", "c1")], [ANSWER]),
    )
    assert [(x.agent, x.name) for x in trace.tool_calls] == [
        ("desk", "ask_clerk"),
        ("clerk", "weather"),
    ]
    assert [x.name for x in trace.available_tools] == ["ask_clerk", "weather"]


def test_calls_of_an_unnamed_agent_in_a_tool_are_not_its_callers():
    trace = only(
        agent("a", gen_ai__agent__name="desk"),
        chat("1", 1, [ASK], [call("ask_clerk", {}, "c1")]),
        tool("2", 3, "ask_clerk", end=50, call__id="c1"),
        chat("3", 5, [DELEGATED], [call("weather", {}, "c2")], parent="2"),
        chat("4", 60, [ASK], [ANSWER]),
    )
    assert [(x.agent, x.name) for x in trace.tool_calls] == [
        ("desk", "ask_clerk"),
        (None, "weather"),
    ]


def test_an_agent_that_only_a_tool_runs_is_not_the_one_the_user_talks_to():
    asked = call("ask_clerk", {}, "c1")
    trace = only(
        span("r", end=100),
        chat("1", 1, [ASK], [asked], parent="r"),
        tool("2", 3, "ask_clerk", parent="r", end=50, call__id="c1"),
        sub_agent("b", "2", 4, 49, "clerk"),
        chat("3", 5, [DELEGATED], [text("assistant", "It is Paris.")], parent="b"),
        chat("4", 60, [ASK, asked, told("Paris", "c1")], [ANSWER], parent="r"),
    )
    assert (trace.agent_name, trace.user_input, trace.final_output) == (
        None,
        "Paris or Berlin?",
        "Paris, as ever.",
    )


def test_calls_stand_in_the_order_they_were_asked_for_though_a_models_span_holds_what_follows():
    trace = only(
        agent("a"),
        chat("1", 1, [ASK], [call("ask_clerk", {}, "c1")], end=80),
        tool("2", 3, "ask_clerk", parent="1", end=50, call__id="c1"),
        sub_agent("b", "2", 4, 49, "clerk"),
        chat("3", 5, [DELEGATED], [call("weather", {}, "c2")], parent="b"),
    )
    assert [x.name for x in trace.tool_calls] == ["ask_clerk", "weather"]
