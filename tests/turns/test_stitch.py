"""A turn that is spread over several traces is one agent trace: the same as if it were one trace."""

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turn_spans import ANSWER, ASK, agent, call, chat, text, told, tool

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
RAIN = call("weather", {"city": "Paris"}, "c1")
SUN = call("weather", {"city": "Berlin"}, "c2")


def recorded(case):
    return files.load([GOLDEN / case]).spans


def trace_of(span):
    """The trace id of a span that is to be a trace by itself."""
    return hashlib.md5(span.span_id.encode(), usedforsecurity=False).hexdigest()


def scattered(spans, *, linked=False, session=True):
    """Each span as a trace of its own; `linked` to what was its parent, with the `session` that its trace names."""
    known = {x.span_id: x for x in spans}
    named = ((x.trace_id, x.attributes.get("session.id", x.attributes.get("gen_ai.conversation.id"))) for x in spans)
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


def alone(number, span, *, after=None, **attributes):
    """A span as the trace `number`, `after` the span to which it is linked."""
    return replace(
        span,
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        parent_span_id="",
        links=() if after is None else (Link(after.trace_id, after.span_id),),
        attributes={**span.attributes, **{key.replace("__", "."): value for key, value in attributes.items()}},
    )


def asks(number, start, *calls, given=(ASK,), **attributes):
    """A model call that ends in tool calls, as a trace."""
    return alone(number, chat("x", start, [*given], [*calls]), **attributes)


def answers(number, start, *said, given=(ASK,), answer=ANSWER, **attributes):
    """A model call that was told what tools returned, and answers, as a trace."""
    return alone(number, chat("x", start, [*given, *said], [answer]), **attributes)


def parts(traces):
    """Which traces each agent trace is made of, by number."""
    return [[int(x, 16) for x in trace.trace_ids] for trace in traces]


def rebuilt(*spans):
    return parts(rebuild_all(spans))


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
    together = [replace(x, attributes={k: v for k, v in x.attributes.items() if k != "session.id"}) for x in models]
    found = rebuild_all(scattered(together, session=False))
    assert facts(found) == facts(rebuild_all(together))


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


def silent(number, start, *heard, said="", **attributes):
    """A model call that does not tell which tools it asked for, as a trace."""
    return alone(number, chat("x", start, [ASK, *heard], [text("assistant", said)]), **attributes)


@pytest.mark.parametrize("said", ["", "Plan: look up the rain."])
def test_a_model_call_that_does_not_tell_its_calls_is_found_by_all_that_was_said(said):
    plan = [text("assistant", said)] if said else []
    second = answers(2, 5, *plan, RAIN, told("15C", "c1"))
    (trace,) = rebuild_all([silent(1, 0, said=said), second])
    assert (len(trace.trace_ids), len(trace.tool_calls), trace.final_output) == (2, 1, "Paris, as ever.")


def test_a_turn_of_calls_that_are_not_told_goes_on_over_many_traces():
    known = [RAIN, told("15C", "c1")]
    last = answers(3, 9, *known, SUN, told("11C", "c2"))
    assert rebuilt(silent(1, 0), silent(2, 5, *known), last) == [[1, 2, 3]]


def test_a_finish_reason_says_that_calls_were_left_out():
    first = alone(1, chat("x", 0, [ASK], gen_ai__response__finish_reasons=["tool_calls"]))
    assert rebuilt(first, answers(2, 5, RAIN, told("15C", "c1"))) == [[1, 2]]


@pytest.mark.parametrize("said", ["Paris.", "Plan: look up the sun."])
def test_a_model_call_that_said_something_else_is_not_gone_on_with(said):
    second = answers(2, 5, text("assistant", "Plan: look up the rain."), RAIN, told("15C", "c1"))
    assert rebuilt(silent(1, 0, said=said), second) == [[1], [2]]


def test_an_answer_is_not_gone_on_with_by_the_next_question():
    first = silent(1, 0, said="Paris.")
    second = answers(2, 5, text("assistant", "Paris."), text("user", "Why?"), RAIN, told("15C", "c1"))
    assert rebuilt(first, second) == [[1], [2]]


def test_two_that_do_not_tell_their_calls_at_the_same_time_are_joined_to_none():
    last = [answers(3, 5, RAIN, told("15C", "c1")), answers(4, 5, RAIN, told("15C", "c1"))]
    assert rebuilt(silent(1, 0), silent(2, 0), *last) == [[1], [2], [3], [4]]


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


def test_a_tools_trace_is_found_by_the_id_of_its_call():
    ran = alone(3, tool("x", 2, "weather", call__id="c1", call__result="15C"))
    (trace,) = rebuild_all([asks(1, 0, RAIN), ran])
    assert [(x.result, x.span_id) for x in trace.tool_calls] == [("15C", ran.span_id)]


def test_a_tools_trace_without_an_id_is_found_within_its_session():
    ran = alone(3, tool("x", 2, "weather"), session__id="s")
    second = answers(2, 5, RAIN, told("15C", "c1"), session__id="s")
    assert rebuilt(asks(1, 0, RAIN, session__id="s"), ran, second) == [[1, 3, 2]]


@pytest.mark.parametrize("start", [-5, 9])
def test_a_tool_that_ran_at_another_time_is_not_the_turns(start):
    ran = alone(3, tool("x", start, "weather"), session__id="s")
    second = answers(2, 5, RAIN, told("15C", "c1"), session__id="s")
    assert rebuilt(asks(1, 0, RAIN, session__id="s"), ran, second) == [[1, 2]]


def test_a_tools_trace_alone_is_no_agent_trace():
    assert rebuilt(alone(3, tool("x", 2, "weather", call__id="c1"), session__id="s")) == []


def test_a_tools_trace_that_two_turns_may_have_asked_for_is_neithers():
    one, other = (asks(x, 0, call("weather", {}), session__id="s") for x in (1, 2))
    assert rebuilt(one, other, alone(3, tool("x", 2, "weather"), session__id="s")) == [[1], [2]]


def test_an_answer_that_is_fetched_later_belongs_to_what_was_asked():
    asked = alone(1, chat("x", 0, [ASK], gen_ai__response__id="r1"))
    fetched = alone(2, chat("x", 9, None, [ANSWER], gen_ai__response__id="r1"))
    (trace,) = rebuild_all([asked, fetched])
    assert (trace.user_input, trace.final_output, len(trace.model_calls)) == ("Paris or Berlin?", "Paris, as ever.", 1)


def test_work_that_a_running_agent_has_done_by_another_is_a_step_of_its_turn():
    boss = alone(1, agent(end=50, gen_ai__agent__name="boss", gen_ai__output__messages='[{"role": "assistant"}]'))
    expert = alone(2, agent(start=10, end=20, gen_ai__agent__name="expert"), after=boss)
    ran = alone(3, tool("x", 12, "weather"), after=expert)
    (trace,) = rebuild_all([boss, expert, ran])
    assert (trace.agent_name, [(x.name, x.agent) for x in trace.tool_calls]) == ("boss", [("weather", "expert")])


def test_an_answer_delivered_to_the_next_agent_is_the_same_turn():
    writer = answers(1, 0, answer=text("assistant", "A draft of the letter."))
    given = [text("user", "Improve this:\nA draft of the letter.")]
    (trace,) = rebuild_all([writer, answers(2, 9, given=given, after=writer)])
    assert (trace.user_input, trace.final_output) == ("Paris or Berlin?", "Paris, as ever.")


def test_an_answer_to_no_question_of_its_own_belongs_to_the_turn_it_links_to():
    summed_up = alone(2, chat("x", 9, None, [text("assistant", "In short: Paris.")]))
    first = answers(1, 0)
    assert rebuilt(first, replace(summed_up, links=(Link(first.trace_id, first.span_id),))) == [[1, 2]]


def test_a_link_to_an_answered_turn_that_tells_no_more_joins_nothing():
    first = answers(1, 0)
    assert rebuilt(first, answers(2, 9, given=[text("user", "And Rome?")], after=first)) == [[1], [2]]


def test_what_links_to_several_turns_belongs_to_none():
    first, second = answers(1, 0), answers(2, 0, given=[text("user", "And Rome?")])
    links = tuple(Link(x.trace_id, x.span_id) for x in (first, second))
    gathering = replace(alone(3, tool("x", 1, "store")), links=links)
    assert rebuilt(first, second, gathering) == [[1], [2]]


def wrapped(number, start, end, *, answer="Paris, as ever.", session="s"):
    """An agent that tells what it was asked and answered, and shows no model call, as a trace."""
    said = {"gen_ai.input.messages": [ASK], "gen_ai.output.messages": [text("assistant", answer)]}
    return alone(
        number,
        agent(span_id="x", start=start, end=end),
        gen_ai__conversation__id=session,
        **{key: json.dumps(value) for key, value in said.items()},
    )


def hooked(number, start, end, *, session="s"):
    """An agent that tells nothing itself, around a model call, as a trace."""
    top = alone(number, agent(span_id="x", start=start, end=end), gen_ai__conversation__id=session)
    model = chat("m", start + 1, [ASK], [ANSWER], parent=top.span_id)
    return [top, replace(model, trace_id=top.trace_id, span_id=f"{number + 100:016x}")]


def test_a_run_that_is_reported_by_what_wraps_it_and_again_inside_is_one_turn():
    assert rebuilt(wrapped(1, 0, 100), *hooked(2, 1, 90)) == [[1, 2]]


@pytest.mark.parametrize(
    "other",
    [
        wrapped(1, 0, 100, answer="Berlin."),
        wrapped(1, 0, 100, session="another"),
        wrapped(1, 0, 50),
        wrapped(1, 2, 100),
    ],
)
def test_a_run_with_another_answer_session_or_time_is_another_turn(other):
    assert len(rebuilt(other, *hooked(2, 1, 90))) == 2


def test_two_equal_runs_inside_one_are_not_joined_to_it():
    assert len(rebuilt(wrapped(1, 0, 100), *hooked(2, 1, 40), *hooked(3, 50, 90))) == 3


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


@settings(max_examples=15)
@given(st.randoms(use_true_random=False))
def test_any_order_gives_the_same_turns(chance):
    spans = [*scattered(recorded(RECORDINGS[0])), asks(1, 0, RAIN), answers(2, 5, RAIN, told("15C", "c1"))]
    expected = facts(rebuild_all(spans))
    chance.shuffle(spans)
    assert facts(rebuild_all(spans)) == expected


def test_the_work_grows_with_the_traces_and_not_with_their_square():
    def compared(count):
        spans = [asks(i, i, RAIN, session__id="s") for i in range(count)]
        spans += [answers(count + i, i, RAIN, told("15C", "c1"), session__id="s") for i in range(count)]
        return turns_compared(spans)

    assert compared(400) < 6 * compared(100)


def test_a_trace_that_names_very_many_sessions_is_looked_for_by_none_of_them():
    call_of_each = [call(f"f{x}", {}, f"c{x}") for x in range(50)]
    trace = asks(1, 0, *call_of_each)
    named = [replace(trace, span_id=f"{x:x}", attributes={"session.id": f"s{x}"}) for x in range(100, 200)]
    reading = dialects.read([trace, *named])
    ends = turns.ends(reading, turns.build(reading))
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
        ends = turns.ends(reading, turns.build(reading))
        found.append(replace(ends, sessions=Counting(ends.sessions)))
    random.Random(1).shuffle(found)  # an order, no secret
    turns.group(found)
    return asked
