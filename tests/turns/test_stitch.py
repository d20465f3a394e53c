"""A turn that is spread over several traces is one agent trace: the same as if it were one
trace.
"""

import hashlib
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from turn_spans import ANSWER, ASK, call, chat, text, told
from turn_traces import RAIN, SUN, alone, answers, asks, parts, rebuilt

from spanscore import dialects, turns
from spanscore.model.span import Link
from spanscore.model.trace import AgentTrace
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all

GOLDEN = Path(__file__).parent.parent / "golden"
RECORDINGS = [
    "semconv/message-attributes",
    "openinference/openai",
    "openllmetry/indexed-messages",
    "pydantic_ai/openai",
    "langfuse/decorators",
]


def recorded(case):
    return files.load([GOLDEN / case]).spans


def trace_of(span):
    """The trace id of a span that is to be a trace by itself."""
    return hashlib.md5(span.span_id.encode(), usedforsecurity=False).hexdigest()


def scattered(spans, *, linked=False, session=True):
    """Each span as a trace of its own; `linked` to what was its parent, with the `session` that its
    trace names.
    """
    known = {x.span_id: x for x in spans}
    named = (
        (x.trace_id, x.attributes.get("session.id", x.attributes.get("gen_ai.conversation.id")))
        for x in spans
    )
    sessions = {trace_id: name for trace_id, name in named if name} if session else {}
    for span in spans:
        above, session_id = known.get(span.parent_span_id), sessions.get(span.trace_id)
        yield replace(
            span,
            trace_id=trace_of(span),
            parent_span_id="",
            links=(Link(trace_of(above), above.span_id),) if linked and above is not None else (),
            attributes={**span.attributes, **({"session.id": session_id} if session_id else {})},
        )


def facts(traces):
    """All that is said of turns but for the ids and spans by which they are known."""
    left_out = {"id", "trace_ids", "root_span_id", "opening_span_id", "target"}
    return [{k: v for k, v in x.to_json().items() if k not in left_out} for x in traces]


@pytest.mark.parametrize("case", RECORDINGS)
def test_a_trace_for_each_span_joined_by_links_is_the_same_turn(case):
    spans = recorded(case)
    assert facts(rebuild_all(scattered(spans, linked=True))) == facts(rebuild_all(spans))


@pytest.mark.parametrize("case", RECORDINGS)
def test_a_trace_for_each_span_joined_by_the_session_is_the_same_turn(case):
    spans = recorded(case)
    assert facts(rebuild_all(scattered(spans))) == facts(rebuild_all(spans))


@pytest.mark.parametrize("case", RECORDINGS[:2])
def test_a_trace_for_each_model_call_without_a_session_is_the_turn_without_its_agent(case):
    models = [x for x in recorded(case) if x.name.startswith(("chat", "ChatCompletion"))]
    together = [
        replace(x, attributes={k: v for k, v in x.attributes.items() if k != "session.id"})
        for x in models
    ]
    found = facts(rebuild_all(scattered(together, session=False)))
    without_agent = facts(rebuild_all(together))
    for turn in (*found, *without_agent):  # the parent of those together did not arrive
        del turn["completeness"], turn["damaged"]
    assert found == without_agent


def test_a_model_call_that_was_told_the_results_goes_on_with_the_turn():
    first, second = asks(1, 0, RAIN), answers(2, 5, RAIN, told("15C", "c1"))
    (trace,) = rebuild_all([first, second])
    assert (trace.final_output, [(x.arguments, x.result) for x in trace.tool_calls]) == (
        "Paris, as ever.",
        [({"city": "Paris"}, "15C")],
    )


def test_a_turn_goes_on_over_many_traces():
    first, second = asks(1, 0, RAIN), asks(2, 5, SUN, given=(ASK, RAIN, told("15C", "c1")))
    third = answers(3, 9, RAIN, told("15C", "c1"), SUN, told("11C", "c2"))
    assert rebuilt(first, second, third) == [[1, 2, 3]]


def test_a_turn_is_stitched_though_the_trace_in_the_middle_is_lost():
    third = answers(3, 9, RAIN, told("15C", "c1"), SUN, told("11C", "c2"))
    assert rebuilt(asks(1, 0, RAIN), third) == [[1, 3]]


def test_a_proxy_may_have_changed_the_instructions_and_shortened_the_history():
    old = [text("system", "Be brief."), text("user", "Hi"), text("assistant", "Hello")]
    first = asks(1, 0, RAIN, given=(*old, ASK))
    assert rebuilt(first, answers(2, 5, RAIN, told("15C", "c1"))) == [[1, 2]]


def test_calls_without_ids_are_known_by_the_whole_conversation():
    asked = call("weather", {"city": "Paris"})
    assert rebuilt(asks(1, 0, asked), answers(2, 5, asked, told("15C"))) == [[1, 2]]


def test_without_ids_another_history_is_another_conversation():
    asked = call("weather", {"city": "Paris"})
    first = asks(1, 0, asked, given=(text("user", "Hi"), text("assistant", "Hello"), ASK))
    assert rebuilt(first, answers(2, 5, asked, told("15C"))) == [[1], [2]]


def test_a_new_question_is_a_new_turn_though_the_old_one_was_never_answered():
    new = text("user", "And Rome?")
    assert rebuilt(asks(1, 0, RAIN), answers(2, 5, RAIN, told("15C", "c1"), new)) == [[1], [2]]


def test_a_turn_that_was_answered_is_never_joined_to_the_next():
    first = answers(1, 0)
    assert rebuilt(first, answers(2, 5, ANSWER, text("user", "Sure?"), after=first)) == [[1], [2]]


def test_the_same_turn_twice_is_two():
    found = rebuilt(
        asks(1, 0, RAIN),
        answers(2, 5, RAIN, told("15C", "c1")),
        asks(3, 10, RAIN),
        answers(4, 15, RAIN, told("15C", "c1")),
    )
    assert found == [[1, 2], [3, 4]]


def test_the_same_question_at_the_same_time_is_kept_apart_by_the_ids():
    one, other = call("weather", {}, "a1"), call("weather", {}, "b1")
    found = rebuilt(
        asks(1, 0, one),
        asks(2, 1, other),
        answers(3, 5, other, told("15C", "b1")),
        answers(4, 6, one, told("15C", "a1")),
    )
    assert found == [[1, 4], [2, 3]]


def test_the_same_question_at_the_same_time_is_kept_apart_by_the_user():
    asked = call("weather", {})
    found = rebuilt(
        asks(1, 0, asked, user__id="ann"),
        asks(2, 1, asked, user__id="bob"),
        answers(3, 5, asked, told("15C"), user__id="bob"),
        answers(4, 6, asked, told("15C"), user__id="ann"),
    )
    assert found == [[1, 4], [2, 3]]


def test_what_could_be_either_of_two_turns_is_joined_to_none():
    asked = call("weather", {})
    found = rebuilt(asks(1, 0, asked), asks(2, 1, asked), answers(3, 5, asked, told("15C")))
    assert found == [[1], [2], [3]]


def test_one_id_for_other_arguments_is_another_call():
    other = call("weather", {"city": "Rome"}, "c1")
    assert rebuilt(asks(1, 0, RAIN), answers(2, 5, other, told("20C", "c1"))) == [[1], [2]]


def test_one_session_is_not_another():
    second = answers(2, 5, RAIN, told("15C", "c1"), session__id="s2")
    assert rebuilt(asks(1, 0, RAIN, session__id="s1"), second) == [[1], [2]]


def test_an_input_that_holds_only_what_is_new_is_known_by_the_ids():
    second = alone(2, chat("x", 5, [told("15C", "c1")], [ANSWER]))
    assert rebuilt(asks(1, 0, RAIN), second) == [[1, 2]]


def test_a_clock_that_is_ahead_does_not_keep_the_parts_of_a_turn_apart():
    assert rebuilt(asks(1, 500, RAIN), answers(2, 0, RAIN, told("15C", "c1"))) == [[2, 1]]


def test_what_starts_in_the_same_moment_is_in_the_order_of_the_messages():
    second = asks(1, 0, SUN, given=(ASK, RAIN, told("15C", "c1")))
    third = answers(2, 0, RAIN, told("15C", "c1"), SUN, told("11C", "c2"))
    (trace,) = rebuild_all([third, second, asks(3, 0, RAIN)])
    assert [x.arguments["city"] for x in trace.tool_calls] == ["Paris", "Berlin"]
    assert (trace.final_output, parts([trace])) == ("Paris, as ever.", [[3, 1, 2]])


def test_a_failed_call_that_was_tried_again_belongs_to_the_turn():
    failed = alone(2, chat("x", 5, [ASK, RAIN, told("15C", "c1")]))
    assert rebuilt(asks(1, 0, RAIN), failed, answers(3, 9, RAIN, told("15C", "c1"))) == [[1, 2, 3]]


def test_a_call_whose_item_has_an_id_of_its_own_is_told_by_that_of_its_result():
    item = call("weather", {"city": "Paris"}, "fc_1")
    parts = [
        asks(1, 10, call("weather", {"city": "Paris"}, "call_1")),
        alone(2, chat("x", 50, [ASK, item, told("15C", "call_1")], [ANSWER])),
    ]
    assert [x.final_output for x in rebuild_all(parts)] == ["Paris, as ever."]


def test_an_id_that_two_traces_use_for_their_spans_keeps_them_apart():
    second = replace(answers(2, 5, RAIN, told("15C", "c1")), span_id=f"{1:016x}")
    assert rebuilt(asks(1, 0, RAIN), second) == [[1], [2]]


def test_later_parts_do_not_change_the_id():
    first, second = asks(1, 0, RAIN), answers(2, 5, RAIN, told("15C", "c1"))
    assert [x.id for x in rebuild_all([first])] == [x.id for x in rebuild_all([first, second])]


def test_a_turn_over_several_traces_survives_being_written_and_read():
    (trace,) = rebuild_all([asks(1, 0, RAIN), answers(2, 5, RAIN, told("15C", "c1"))])
    assert AgentTrace.from_json(trace.to_json()).id == trace.id


def test_a_trace_of_two_turns_goes_on_with_the_second():
    said = [ASK, ANSWER, text("user", "Sure?")]
    whole = alone(1, chat("x", 0, [ASK], [ANSWER]))
    half = replace(asks(1, 5, RAIN, given=said), span_id="f" * 16)
    third = answers(2, 9, RAIN, told("15C", "c1"), given=said)
    assert rebuilt(whole, half, third) == [[1], [1, 2]]


@pytest.mark.slow
@settings(max_examples=15)
@given(st.randoms(use_true_random=False))
def test_any_order_gives_the_same_turns(chance):
    spans = [
        *scattered(recorded(RECORDINGS[0])),
        asks(1, 0, RAIN),
        answers(2, 5, RAIN, told("15C", "c1")),
    ]
    expected = facts(rebuild_all(spans))
    chance.shuffle(spans)
    assert facts(rebuild_all(spans)) == expected


@pytest.mark.slow
def test_the_work_grows_with_the_traces_and_not_with_their_square():
    def compared(count):
        spans = [asks(i, i, RAIN, session__id="s") for i in range(count)]
        spans += [
            answers(count + i, i, RAIN, told("15C", "c1"), session__id="s") for i in range(count)
        ]
        return turns_compared(spans)

    assert compared(400) < 6 * compared(100)


def test_a_trace_that_names_very_many_sessions_is_looked_for_by_none_of_them():
    call_of_each = [call(f"f{x}", {}, f"c{x}") for x in range(50)]
    trace = asks(1, 0, *call_of_each)
    named = [
        replace(trace, span_id=f"{x:x}", attributes={"session.id": f"s{x}"})
        for x in range(100, 200)
    ]
    reading = dialects.read([trace, *named])
    ends = turns.Stitching().fragment_of(reading, turns.build(reading))
    assert not [x for x in ends.offers if x.startswith(("tool ", "holder "))]


def turns_compared(spans):
    """How often two traces are asked whether they agree."""
    asked = 0

    class Counting(frozenset):
        def isdisjoint(self, other):
            nonlocal asked
            asked += 1
            return super().isdisjoint(other)

    found = []
    for span in spans:
        reading = dialects.read([span])
        ends = turns.Stitching().fragment_of(reading, turns.build(reading))
        found.append(replace(ends, sessions=Counting(ends.sessions)))
    random.Random(1).shuffle(found)  # an order, no secret
    turns.Stitching().group(found)
    return asked
