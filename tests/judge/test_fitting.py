"""What of a long transcript stays is chosen: what decides comes before what stands in the
middle.
"""

import re

import pytest
from hypothesis import given, settings, strategies as st
from judge_harness import trace

from spanscore.judge.omission import Place, elide
from spanscore.judge.transcript import estimate_tokens, render
from spanscore.model.tool_names import may_change
from spanscore.model.trace import ModelCall, PastMessage, Retrieval, Session, Tool, ToolCall

FILLER = "nothing of note happened here. " * 200


def reading(n, result="r" * 400, name="list_rows"):
    return ToolCall(None, name, {"page": n}, result)


def with_call(call, at=30, count=60):
    calls = [reading(n) for n in range(count)]
    calls[at] = call
    return trace(tool_calls=tuple(calls))


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (ToolCall(None, "get_rows", {"page": 5}, None, error="quota exceeded"), "quota exceeded"),
        (ToolCall(None, "delete_invoice", {"id": "I-77"}, "ok"), "delete_invoice"),
        (ToolCall(None, "notion__pageUpdate", {"id": "I-77"}, "ok"), "notion__pageUpdate"),
    ],
    ids=["an error", "a change", "a change in camel case"],
)
def test_what_decides_stays_though_it_stands_in_the_middle(call, shown):
    assert shown in render(with_call(call), max_tokens=2000).text


def test_a_result_that_a_later_call_rests_on_stays():
    calls = [reading(n) for n in range(60)]
    calls[30] = reading(30, {"rows": ["a" * 300, "order W2890441 of ada", "b" * 300]})
    calls.append(ToolCall(None, "refund", {"order": "W2890441"}, "ok"))
    assert "order W2890441 of ada" in render(trace(tool_calls=tuple(calls)), max_tokens=2000).text


def test_a_result_that_the_answer_cites_stays():
    given_trace = with_call(reading(30, "x" * 300 + " total 4,711.25 EUR " + "y" * 300))
    answered = type(given_trace)(**{**facts(given_trace), "final_output": "You owe 4,711.25 EUR."})
    assert "total 4,711.25 EUR" in render(answered, max_tokens=2000).text


def facts(agent_trace):
    return {x: getattr(agent_trace, x) for x in agent_trace.__dataclass_fields__ if x != "id"}


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_what_is_cited_of_one_long_result_stays_wherever_it_stands(at):
    where = int(len(FILLER) * at)
    call = ToolCall(None, "read", {}, f"{FILLER[:where]} seat 14C is free. {FILLER[where:]}")
    found = render(trace(tool_calls=(call,), final_output="Take seat 14C."), max_tokens=500)
    assert "seat 14C is free" in found.text


def test_japanese_that_is_cited_stays():
    text = "あいうえおかきくけこ" * 300
    call = ToolCall(None, "read", {}, f"{text}予約番号は桜木町駅前です。{text}")
    assert (
        "桜木町駅前"
        in render(trace(tool_calls=(call,), final_output="桜木町駅前"), max_tokens=700).text
    )


def test_the_first_and_the_last_step_stay():
    text = render(with_call(reading(30)), max_tokens=1000).text
    assert re.findall(r"^(\d+)\. the tool", text, re.MULTILINE)[
        :: len(re.findall(r"^\d+\. the", text, re.MULTILINE)) - 1
    ] == ["1", "60"]


def test_tools_that_were_called_stay_on_offer():
    tools = tuple(Tool(f"tool_{n}", "does " + "this and that " * 20) for n in range(200))
    called = ToolCall(None, "tool_99", {}, "ok")
    found = render(trace(available_tools=tools, tool_calls=(called,)), max_tokens=1500)
    assert "- tool_99: does" in found.text
    assert found.left_out["tools"] > 0


def test_the_older_messages_go_before_the_newer_ones():
    past = tuple(PastMessage("user", f"message {n} " + "y" * 90) for n in range(40))
    text = render(trace(history=past), max_tokens=700).text
    numbers = [int(x) for x in re.findall(r"message (\d+) ", text)]
    assert numbers == list(range(40 - len(numbers), 40))


def test_documents_are_counted_when_they_are_left_out():
    found = render(
        trace(retrieved=(Retrieval("d" * 16, "q", tuple("z" * 500 for _ in range(90))),)),
        max_tokens=600,
    )
    assert found.left_out["documents"] > 0


@pytest.mark.slow
def test_all_the_calls_of_a_batch_are_shown_with_whole_arguments():
    calls = tuple(
        ToolCall(None, "fill", {"n": n, "text": f"{n} " + "t" * 300}, "r" * 900) for n in range(300)
    )
    agent_trace = trace(tool_calls=calls)
    shown = set()
    for start in range(0, 300, 20):
        batch = range(start, start + 20)
        found = render(agent_trace, max_tokens=5000, focus=batch)
        assert set(batch) <= found.shown_calls
        shown |= found.shown_calls
    assert shown == set(range(300))


def test_what_a_call_in_focus_rests_on_stays():
    calls = [reading(n, f"row {n} has the code QX{n:04} " + "r" * 600) for n in range(200)]
    calls.append(ToolCall(None, "fill", {"code": "QX0090"}, "ok"))
    calls += [reading(n) for n in range(200)]
    assert (
        "code QX0090" in render(trace(tool_calls=tuple(calls)), max_tokens=4000, focus=(200,)).text
    )


def test_an_error_that_is_the_result_is_not_repeated():
    call = ToolCall(
        None, "read", {}, "Error: no such file", error="Error: no such file", error_inferred=True
    )
    assert render(trace(tool_calls=(call,)), max_tokens=500).text.count("no such file") == 1


@pytest.mark.parametrize(
    "name", ["book", "cancel_order", "sendEmail", "fs.write", "execute_sql", "予約する"]
)
def test_a_tool_that_does_not_say_that_it_reads_may_change_something(name):
    assert may_change(name)


@pytest.mark.parametrize(
    "name", ["get_user", "listFiles", "web-search", "db.query", "calculate", "user_lookup"]
)
def test_a_tool_that_reads_changes_nothing(name):
    assert not may_change(name)


TEXTS = st.text(max_size=40) | st.sampled_from(
    ["a@x.com", "TP1 4711", "[REDACTED:email]", FILLER, "日本語" * 300, "\n"]
)
CALLS = st.builds(
    lambda name, given_text, result, error: ToolCall(
        None, name, {"x": given_text}, result, error=error
    ),
    st.sampled_from(["read", "book", "x"]),
    TEXTS,
    TEXTS,
    st.none() | TEXTS,
)
TRACES = st.builds(
    lambda calls, said, past, offer, answer: trace(
        tool_calls=tuple(calls),
        model_calls=tuple(ModelCall("1", None, x, x) for x in said),
        history=tuple(PastMessage("user", x) for x in past),
        available_tools=tuple(Tool(x, x) for x in offer),
        final_output=answer,
    ),
    st.lists(CALLS, max_size=12),
    st.lists(TEXTS, max_size=3),
    st.lists(TEXTS, max_size=5),
    st.lists(TEXTS, max_size=5),
    TEXTS,
)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(TRACES, st.integers(150, 3000), st.sets(st.integers(0, 11)))
def test_it_fits_any_budget(agent_trace, max_tokens, focus):
    assert (
        estimate_tokens(render(agent_trace, max_tokens=max_tokens, focus=focus).text) <= max_tokens
    )


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(TRACES, st.integers(150, 3000))
def test_every_mark_in_a_fitted_transcript_is_whole_and_genuine(agent_trace, max_tokens):
    text = render(agent_trace, max_tokens=max_tokens).text
    word = re.match(r"<untrusted-data (\w+)>", text)[1]
    opened = re.findall(r"\[(?=REDACTED:|\.\.\. )[^\[\]]*\]?", text)
    assert [x for x in opened if not x.endswith(f" #{word}]")] == []


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(TRACES, st.integers(150, 3000))
def test_a_call_that_counts_as_shown_has_its_number_and_its_arguments_there(
    agent_trace, max_tokens
):
    found = render(agent_trace, max_tokens=max_tokens, rules=())
    heads = re.findall(r"^(\d+)\. the tool .*\n   arguments: ", found.text, re.MULTILINE)
    assert {str(found.call_numbers[place]) for place in found.shown_calls} <= set(heads)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(TRACES, min_size=1, max_size=4), st.integers(150, 3000))
def test_a_session_fits_any_budget(traces, max_tokens):
    assert (
        estimate_tokens(render(Session("s", tuple(traces)), max_tokens=max_tokens).text)
        <= max_tokens
    )


@given(st.text(max_size=600), st.integers(60, 400), st.lists(st.integers(0, 590), max_size=5))
def test_an_elided_text_has_no_more_bytes_than_it_may(text, max_bytes, starts):
    places = [Place(x, x + 3, 1.0) for x in starts if x + 3 <= len(text)]
    assert (
        len(elide(text, max_bytes, " #bcdfghjklmnp", places).encode("utf-8", "replace"))
        <= max_bytes
    )


@pytest.mark.slow
def test_many_marks_in_a_long_text_take_no_quadratic_time():
    text = "a@x.com [... left out ...] " * 40_000
    assert render(trace(tool_calls=(ToolCall(None, "read", {}, text),)), max_tokens=1000).elided


def test_fitting_again_gives_what_rendering_anew_gives():
    agent_trace = trace(user_input="a@x.com", tool_calls=tuple(reading(n) for n in range(60)))
    again = render(agent_trace, max_tokens=2000).again(max_tokens=1500, focus=(30,))
    assert again == render(agent_trace, max_tokens=1500, focus=(30,))


def test_fitting_again_keeps_the_length_unless_told_otherwise():
    agent_trace = trace(tool_calls=tuple(reading(n) for n in range(60)))
    found = render(agent_trace, max_tokens=1500)
    assert found.again() == found
