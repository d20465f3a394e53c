"""Spans of which the configuration states that they are the agent's, or beside it."""

from turn_spans import ASK, agent, call, chat, span, text, told, tool

from spanscore import dialects
from spanscore.dialects import SpanNames
from spanscore.rebuild import rebuild

ANSWER = text("assistant", "It is 15 degrees in Paris.")
GUARD = text("user", "Is this allowed? Paris or Berlin?")
VERDICT = text("assistant", "allowed")
TITLED = text("assistant", "Weather in Paris")
ASKED = call("weather", {"city": "Paris"}, "c1")


def loop(first=1):
    return [
        chat("1", first, [ASK], [ASKED]),
        tool("2", first + 2, "weather", call__id="c1", call__result="15C"),
        chat("3", first + 4, [ASK, ASKED, told("15C", "c1")], [ANSWER]),
    ]


def only(*spans):
    (trace,) = rebuild(spans)
    return trace


def utilities(trace):
    return [x.span_id for x in trace.model_calls if x.utility]


def guarded():
    """A guard with tools of its own before the loop, and a memory after it."""
    return [
        agent(),
        span("g", "a", 1, 5, name="guard input"),
        chat("g1", 2, [GUARD], [VERDICT], parent="g"),
        *loop(10),
        chat("m", 30, [text("user", "Sum up.")], [text("assistant", "Asked.")], name="memory"),
    ]


def test_model_calls_in_spans_that_are_named_are_beside_the_loop():
    unnamed = only(*guarded())
    assert (unnamed.user_input, unnamed.final_output) == (GUARD["parts"][0]["content"], "Asked.")
    dialects.configure(SpanNames(utility_spans=("guard*", "memory")))
    trace = only(*guarded())
    assert utilities(trace) == ["g1", "m"]
    assert trace.user_input == "Paris or Berlin?"
    assert trace.final_output == "It is 15 degrees in Paris."


def test_a_model_call_that_is_named_as_the_agents_is_so_whatever_it_looks_like():
    title = chat(
        "t",
        30,
        [text("user", f"Name this: {ANSWER['parts'][0]['content']}")],
        [TITLED],
        name="chat title",
        gen_ai__system_instructions='[{"type": "text", "content": "Name conversations."}]',
    )
    assert utilities(only(agent(), *loop(), title)) == ["t"]
    dialects.configure(SpanNames(agent_spans=("chat*",)))
    trace = only(agent(), *loop(), title)
    assert (utilities(trace), trace.final_output) == ([], "Weather in Paris")


def test_a_guard_that_is_an_agent_gives_no_question():
    guard = span("b", "", 0, 5, name="guard", gen_ai__operation__name="invoke_agent")
    spans = [guard, chat("g1", 1, [GUARD], [VERDICT], parent="b"), agent(start=8), *loop(10)]
    assert only(*spans).user_input == GUARD["parts"][0]["content"]
    dialects.configure(SpanNames(utility_spans=("guard",)))
    trace = only(*spans)
    assert (trace.user_input, trace.final_output) == (
        "Paris or Berlin?",
        "It is 15 degrees in Paris.",
    )
    assert trace.target.span_id == "a"


def test_a_utility_opens_no_turn():
    given = [ASK, ANSWER, text("user", "Name this conversation.")]
    spans = [
        chat("1", 1, [ASK], [ANSWER], parent=""),
        chat("t", 5, given, [TITLED], parent="", name="title"),
    ]
    assert len(rebuild(spans)) == 2
    dialects.configure(SpanNames(utility_spans=("title",)))
    trace = only(*spans)
    assert (utilities(trace), trace.final_output) == (["t"], "It is 15 degrees in Paris.")


def test_a_trace_of_a_utility_alone_has_no_answer():
    dialects.configure(SpanNames(utility_spans=("title",)))
    trace = only(chat("t", 1, [ASK], [TITLED], parent="", name="title"))
    assert (trace.user_input, trace.final_output) == (None, None)
