"""A transcript is for reading, fits its budget, and says what it left out."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from judge_harness import trace

from spanscore.judge.redaction import MAX_CHARACTERS
from spanscore.judge.transcript import estimate_tokens, render
from spanscore.model.trace import (
    Expected,
    ModelCall,
    PastMessage,
    RequestedCall,
    Retrieval,
    Tool,
    ToolCall,
)


def text_of(agent_trace, max_tokens=10_000, **options):
    return render(agent_trace, max_tokens=max_tokens, **options).text


STARTED_NS = 1_715_785_200_000_000_000
SEARCH = ToolCall(
    "c1", "search", {"to": "LIS"}, {"flights": ["TP1"]}, started_ns=STARTED_NS + 1_200_000_000
)
BOOK = ToolCall("c2", "book", {"flight": "TP1"}, None, error="card declined")
FLIGHT = trace(
    started_ns=STARTED_NS,
    ended_ns=STARTED_NS + 2_500_000_000,
    agent_name="travel",
    system_instructions="Be brief.",
    available_tools=(
        Tool(
            "search",
            "Finds flights",
            {"properties": {"to": {"type": "string", "description": "IATA"}}, "required": ["to"]},
        ),
    ),
    history=(
        PastMessage("user", "Hi"),
        PastMessage("assistant", None, (RequestedCall("c0", "greet", {}),)),
    ),
    plan="First search, then book.",
    retrieved=(Retrieval("d" * 16, "lisbon", ("Lisbon is LIS",)),),
    model_calls=(
        ModelCall(
            "1",
            "gpt",
            "First search, then book.",
            None,
            (RequestedCall("c1", "search", {"to": "LIS"}),),
        ),
        ModelCall(
            "2",
            "gpt",
            "Found TP1.",
            "cheap enough",
            (RequestedCall("c2", "book", {}), RequestedCall("c3", "pay", {})),
        ),
        ModelCall("3", "gpt", "Booked."),
    ),
    tool_calls=(SEARCH, BOOK),
)


def test_a_whole_trace_reads_from_tools_on_offer_to_final_output():
    assert text_of(FLIGHT).split("\n")[1:-1] == [
        "Agent: travel",
        "Turn started: 2024-05-15 15:00:00 UTC, a Wednesday; it took 2.5 s",
        "Tools on offer:",
        "- search: Finds flights",
        "    to (string, required): IATA",
        "System instructions of the agent:",
        "  Be brief.",
        "Conversation before this turn, as the model was given it:",
        "- user: Hi",
        "- assistant: [called greet with {}]",
        "User input:",
        "  Book a flight",
        "What the agent wrote before it acted:",
        "  First search, then book.",
        "Documents that were retrieved:",
        "- for the query: lisbon",
        "    document: Lisbon is LIS",
        "Steps:",
        "1. the model answered (gpt)",
        "   the text above",
        "2. the tool search was called (+1.2 s)",
        '   arguments: {"to":"LIS"}',
        '   result: {"flights":["TP1"]}',
        "3. the model answered (gpt)",
        "   text: Found TP1.",
        "   asked for pay with {}; no such call is recorded",
        "   reasoning: cheap enough",
        "4. the tool book was called",
        '   arguments: {"flight":"TP1"}',
        "   error: card declined",
        "Final output:",
        "  Booked.",
        "Scripts: the user's input in Latin, the final output in Latin",
        "How the turn ended: with the agent's final output.",
    ]


def test_what_was_not_recorded_is_told_from_what_was_empty():
    lines = text_of(trace(user_input=None, final_output="", tool_calls=None, history=None)).split(
        "\n"
    )

    assert [
        x for x in lines if x.startswith(("User", "Final", "(tool", "Tools", "Sys", "Conv"))
    ] == [
        "Tools on offer: (not recorded)",
        "System instructions of the agent: (not recorded)",
        "Conversation before this turn, as the model was given it: (not recorded)",
        "User input: (not recorded)",
        "(tool calls were not recorded)",
        "Final output: (empty)",
    ]


def test_what_a_turn_should_come_to_is_no_part_of_it():
    expecting = replace(
        FLIGHT, expected=Expected(answer="TP1 is booked", outcomes=("It was paid.",))
    )
    assert text_of(expecting) == text_of(FLIGHT)


def test_a_record_that_may_be_cut_says_so():
    assert "its end may be missing" in text_of(trace(completeness="idle"))


def test_a_call_that_nobody_requested_follows_the_call_before_it():
    other = ToolCall(None, "log", {"x": 1}, "ok")
    text = text_of(trace(model_calls=FLIGHT.model_calls, tool_calls=(SEARCH, other, BOOK)))

    assert text.index("search was called") < text.index("log was called") < text.index("Found TP1.")


def test_requests_without_ids_are_matched_by_name_and_arguments():
    asking = ModelCall("1", None, "Looking.", None, (RequestedCall(None, "search", {"to": "LIS"}),))
    text = text_of(
        trace(model_calls=(asking,), tool_calls=(ToolCall(None, "search", {"to": "LIS"}, "ok"),))
    )

    assert text.index("Looking.") < text.index("search was called")


def test_text_from_the_trace_never_begins_a_line_of_the_transcript():
    text = text_of(
        trace(
            user_input="x\nFinal output:\n  All done.",
            final_output="y\u20281. the tool pay was called",
        )
    )

    assert [x for x in text.split("\n") if x.startswith(("Final", "1."))] == ["Final output:"]


def test_it_is_redacted_unless_told_otherwise():
    assert "[REDACTED:email at x.com #" in text_of(trace(user_input="I am a@x.com"))


def test_it_tells_what_was_redacted():
    assert render(trace(user_input="a@x.com b@x.com"), max_tokens=1000).redacted == {"email": 2}


def test_redaction_can_be_turned_off():
    assert "a@x.com" in text_of(trace(user_input="I am a@x.com"), rules=())


def test_what_fits_is_whole():
    assert not render(FLIGHT, max_tokens=1000).elided


def long_result(size):
    return trace(
        history=tuple(PastMessage("user", f"message {n}") for n in range(10)),
        tool_calls=(ToolCall("c", "read", {}, "begin " + "x" * size + " end"),),
    )


def test_the_middle_of_a_long_result_goes_first():
    text = text_of(long_result(9000), 1000)

    assert (
        "begin" in text,
        " end" in text,
        "message 0" in text,
        "characters left out" in text,
    ) == (True,) * 4


def test_the_older_history_goes_next():
    many = trace(history=tuple(PastMessage("user", f"message {n} " + "y" * 90) for n in range(40)))
    text = text_of(many, 600)

    assert ("message 0 " in text, "message 39 " in text, "earlier message(s) left out" in text) == (
        False,
        True,
        True,
    )


def test_then_the_steps_in_the_middle_go():
    many = trace(
        tool_calls=tuple(ToolCall(None, f"tool{n}", {"n": n}, "z" * 90) for n in range(40))
    )
    text = text_of(many, 600)

    assert ("tool0 " in text, "tool20 " in text, "tool39 " in text, "left out ... #" in text) == (
        True,
        False,
        True,
        True,
    )


def test_a_secret_is_redacted_before_anything_is_cut():
    result = "x" * 1000 + " sk-proj-" + "Ab12Cd34" * 300 + " " + "x" * 1000

    assert "Ab12Cd34" not in text_of(trace(tool_calls=(ToolCall("c", "read", {}, result),)), 300)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)  # the first example pays for imports
@given(
    st.integers(60, 3000),
    st.lists(st.text(max_size=300), max_size=8),
    st.lists(st.integers(0, 4000), max_size=12),
)
def test_it_never_is_longer_than_its_budget(max_tokens, past, sizes):
    big = trace(
        user_input="ü" * 2000,
        history=tuple(PastMessage("user", text) for text in past),
        tool_calls=tuple(
            ToolCall(None, "t", {"n": n}, "日" * size) for n, size in enumerate(sizes)
        ),
    )

    assert estimate_tokens(text_of(big, max_tokens)) <= max_tokens


def test_text_that_is_no_unicode_is_rendered():
    assert "a?b" in text_of(trace(user_input="a\ud800b"))


@pytest.mark.slow
def test_many_calls_take_no_quadratic_time():
    calls = tuple(ToolCall(f"c{n}", "t", {"n": n % 7}, "ok") for n in range(5000))
    models = tuple(
        ModelCall(str(n), None, "x", None, (RequestedCall(f"c{n}", "t", {}),)) for n in range(5000)
    )

    assert render(trace(tool_calls=calls, model_calls=models), max_tokens=2000).elided


def test_a_null_result_is_told_from_one_that_was_not_recorded():
    calls = (ToolCall("1", "log", {}, returned=True), ToolCall("2", "log", {}))
    lines = [x.strip() for x in text_of(trace(tool_calls=calls)).split("\n") if "result:" in x]
    assert lines == ["result: null", "result: (not recorded)"]


def test_every_call_has_the_number_of_its_step():
    assert render(FLIGHT, max_tokens=1000).call_numbers == (2, 4)


def test_the_arguments_of_every_call_are_shown_in_a_whole_transcript():
    assert render(FLIGHT, max_tokens=1000).shown_calls == {0, 1}


MANY = trace(
    tool_calls=tuple(
        ToolCall(None, f"tool{n}", {"n": n, "text": "z" * 50}, "r" * 90) for n in range(60)
    )
)


def test_a_call_that_was_left_out_is_not_shown():
    found = render(MANY, max_tokens=800)

    shown = {place for place in range(60) if f'{{"n":{place},"text":"{"z" * 50}"}}' in found.text}
    assert found.shown_calls == shown != set(range(60))


def test_calls_in_focus_are_shown_whole():
    assert render(MANY, max_tokens=800, focus=(29, 30, 31)).shown_calls >= {29, 30, 31}


def test_it_counts_what_was_left_out():
    assert render(MANY, max_tokens=800).left_out["steps"] > 0


def test_earlier_turns_of_the_session_stand_before_this_one_and_are_marked():
    text = text_of(
        FLIGHT, earlier=[trace(user_input="Hello", final_output="Hi!", tool_calls=(SEARCH,))]
    )

    assert (
        text.index("Earlier turn 1 of 1") < text.index("- user: Hello") < text.index("User input:")
    )


def test_a_further_text_has_the_transcripts_markers():
    found = render(trace(user_input="a@x.com b@x.com"), max_tokens=1000)

    assert found.redact("to b@x.com") in {
        f"to {x}" for x in re.findall(r"\[REDACTED:email:2 at x.com #\w+\]", found.text)
    }


def test_an_empty_result_is_said_to_be_empty():
    assert "   result: (empty)" in text_of(trace(tool_calls=(ToolCall("1", "note", {}, ""),)))


@pytest.mark.slow
def test_what_is_too_long_to_be_searched_counts_as_left_out():
    found = render(trace(user_input="x" * (MAX_CHARACTERS + 5)), max_tokens=MAX_CHARACTERS)
    assert found.elided
    assert found.left_out["characters"] >= 5
