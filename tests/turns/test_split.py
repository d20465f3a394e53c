"""One trace that holds several turns is several agent traces; the steps of a pipeline are one."""

import json
from dataclasses import replace

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, span, text, told

from spanscore.rebuild import rebuild

SYSTEM = text("system", "You are a travel agent.")
ROME = text("user", "How far is it to Rome?")
FAR = text("assistant", "Some fourteen hundred kilometres by road.")
ROOT = span("r", end=1000, http__route="/chat")


def questions(*spans):
    return [x.user_input for x in rebuild(spans)]


def asked(span_id, start, said, answer, *, parent="r", system=SYSTEM, **attributes):
    """A model call under a root that shows no GenAI."""
    given = [said] if system is None else [system, said]
    return chat(span_id, start, given, [answer], parent=parent, **attributes)


def run(span_id, start, said, answer, *, end=None, name="guide", **attributes):
    """An agent under the root, with its conversation on it."""
    return span(
        span_id,
        "r",
        start,
        start + 5 if end is None else end,
        gen_ai__operation__name="invoke_agent",
        gen_ai__agent__name=name,
        gen_ai__input__messages=json.dumps([said]),
        gen_ai__output__messages=json.dumps([answer]),
        **attributes,
    )


def test_questions_of_their_own_to_the_same_agent_are_turns():
    assert questions(ROOT, asked("1", 1, ASK, ANSWER), asked("2", 5, ROME, FAR)) == [
        "Paris or Berlin?",
        "How far is it to Rome?",
    ]


def test_an_agent_that_is_run_for_one_question_after_the_other_has_turns():
    assert len(questions(ROOT, run("1", 1, ASK, ANSWER), run("2", 10, ROME, FAR))) == 2


def test_a_turn_has_its_own_tool_calls():
    rain = call("weather", {"city": "Paris"}, "c1")
    first, second = rebuild(
        [
            ROOT,
            chat("1", 1, [SYSTEM, ASK], [rain], parent="r"),
            chat("2", 3, [SYSTEM, ASK, rain, told("15C", "c1")], [ANSWER], parent="r"),
            asked("3", 7, ROME, FAR),
        ]
    )
    assert ([x.result for x in first.tool_calls], second.tool_calls) == (["15C"], ())


def test_turns_that_run_side_by_side_are_told_apart():
    rain, sun = call("weather", {"city": "Paris"}, "c1"), call("distance", {"to": "Rome"}, "c2")
    first, second = rebuild(
        [
            ROOT,
            chat("1", 1, [SYSTEM, ASK], [rain], parent="r"),
            chat("2", 2, [SYSTEM, ROME], [sun], parent="r"),
            chat("3", 3, [SYSTEM, ASK, rain, told("15C", "c1")], [ANSWER], parent="r"),
            chat("4", 4, [SYSTEM, ROME, sun, told(1400, "c2")], [FAR], parent="r"),
        ]
    )
    assert [[x.span_id for x in trace.model_calls] for trace in (first, second)] == [
        ["1", "3"],
        ["2", "4"],
    ]


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (
            asked("2", 5, text("user", "Answer briefly: Paris or Berlin?"), FAR),
            "it repeats the question",
        ),
        (asked("2", 5, text("user", "Translate: Paris, as ever."), FAR), "it is given the answer"),
        (
            asked("2", 5, ROME, FAR, system=text("system", "You check facts.")),
            "another agent is asked",
        ),
        (asked("2", 5, ASK, FAR), "it is the same question"),
        (asked("2", 5, text("user", "Paris"), FAR), "it is part of the question"),
        (asked("2", 1, ROME, FAR, system=None), "it runs at the same time, and nobody is named"),
    ],
)
def test_a_step_of_a_pipeline_is_no_turn(later, why):
    first = asked("1", 1, ASK, ANSWER, system=None if "nobody" in why else SYSTEM)
    assert questions(ROOT, first, later) == ["Paris or Berlin?"], why


def test_the_same_question_asked_again_after_its_answer_is_a_turn_where_no_span_is_around_both():
    again = asked("2", 5, ASK, text("assistant", "Berlin, today."), parent="")
    assert questions(asked("1", 1, ASK, ANSWER, parent=""), again) == ["Paris or Berlin?"] * 2


def test_an_agent_that_is_asked_the_same_again_has_two_turns():
    first, second = (
        replace(run(x, start, ASK, ANSWER), parent_span_id="") for x, start in (("1", 1), ("2", 10))
    )
    assert questions(first, second) == ["Paris or Berlin?"] * 2


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({}, {"gen_ai__request__model": "another"}, "two models are compared"),
        ({"answer": call("weather", {})}, {}, "the first one gave no answer"),
        (
            {},
            {"given": (ASK, call("weather", {}, "c"), told("15C", "c"))},
            "the second one goes on",
        ),
        ({}, {"start": 1}, "both run at the same time"),
        ({"parent": "lost"}, {"parent": "lost"}, "a span around both was not received"),
    ],
)
def test_the_same_question_asked_otherwise_again_is_one_turn(first, second, why):
    usual = {"start": 1, "parent": "", "given": (ASK,), "answer": ANSWER}
    one, other = usual | first, usual | {"start": 5} | second
    spans = [
        chat(x, produced=[more.pop("answer")], **more) for x, more in (("1", one), ("2", other))
    ]
    assert questions(*spans) == ["Paris or Berlin?"], why


def test_what_is_put_together_in_the_end_is_one_turn():
    both = text(
        "user",
        "Put together: Some fourteen hundred kilometres by road. The train takes eleven hours"
        " then.",
    )
    train = text("assistant", "The train takes eleven hours then.")
    steps = [
        asked("1", 1, ROME, FAR),
        asked("2", 5, text("user", "By train?"), train),
        asked("3", 9, both, ANSWER),
    ]
    assert questions(ROOT, *steps) == ["How far is it to Rome?"]


def test_where_a_workflow_tells_what_it_was_given_that_is_the_question():
    given = json.dumps([text("user", "Plan a trip.")])
    flow = span(
        "r", end=1000, gen_ai__operation__name="invoke_workflow", gen_ai__input__messages=given
    )
    assert len(questions(flow, asked("1", 1, ASK, ANSWER), asked("2", 5, ROME, FAR))) == 1


def test_a_model_call_beside_the_agents_is_no_turn():
    title = asked("3", 20, text("user", "Find a title for it."), text("assistant", "Cities"))
    assert len(questions(ROOT, run("1", 1, ASK, ANSWER), run("2", 10, ROME, FAR), title)) == 2


def test_the_steps_of_a_running_agent_are_no_turns():
    boss = agent("a", end=100)
    steps = [
        asked(x, start, said, FAR, parent="a") for x, start, said in (("1", 1, ASK), ("2", 5, ROME))
    ]
    assert len(questions(boss, *steps)) == 1


def test_another_session_is_another_turn():
    first, second = (
        asked(x, int(x), ASK, ANSWER, gen_ai__conversation__id=f"s{x}") for x in ("1", "5")
    )
    assert len(questions(ROOT, first, second)) == 2


def test_sessions_below_a_step_that_names_one_for_all_are_one_turn():
    root = span("r", end=1000, session__id="s")
    first, second = (
        asked(x, int(x), ASK, ANSWER, gen_ai__conversation__id=f"run-{x}") for x in ("1", "5")
    )
    assert len(questions(root, first, second)) == 1


def test_the_turns_of_one_trace_have_ids_of_their_own():
    first, second = rebuild([ROOT, asked("1", 1, ASK, ANSWER), asked("2", 5, ROME, FAR)])
    assert (first.opening_span_id, second.opening_span_id, first.id != second.id) == (
        "r",
        "2",
        True,
    )


def test_a_session_is_that_of_the_span_around_the_turn_though_it_begins_before_the_turn_shows():
    around = [span(f"w{n}", "r", n * 100, n * 100 + 90, session__id=f"s{n}") for n in (1, 2)]
    turns = [asked("1", 110, ASK, ANSWER, parent="w1"), asked("2", 210, ROME, FAR, parent="w2")]
    assert [x.session_id for x in rebuild([ROOT, *around, *turns])] == ["s1", "s2"]
