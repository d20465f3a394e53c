"""An agent in a trace of its own that a tool call asked is a step of the caller's turn, or is left
apart.
"""

import json
import random
import sys
from dataclasses import replace

import pytest
from turn_spans import ASK, call, chat, span, text, told, tool

from spanscore.rebuild import rebuild_all, rebuild_trace
from spanscore.turns import DelegationIndex
from spanscore.turns.stitch.reasons import delegation

MS = 10**6
SECOND = 1000 * MS
QUESTION, REPLY = "Which of the two is warmer today?", "Paris, by four degrees."
ANSWER = text("assistant", "Go to Paris.")


def at(trace_id, spans, start=0, **attributes):
    """Spans as a trace of their own, their times in milliseconds, from `start` on; ids are the
    trace's.
    """
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return [
        replace(
            x,
            trace_id=f"{trace_id:>032}",
            span_id=f"{trace_id}{x.span_id:>012}",
            parent_span_id=f"{trace_id}{x.parent_span_id:>012}" if x.parent_span_id else "",
            start_ns=(x.start_ns - 1000 + start) * MS + SECOND,
            end_ns=(x.end_ns - 1000 + start) * MS + SECOND,
            attributes={**x.attributes, **(named if not x.parent_span_id else {})},
        )
        for x in spans
    ]


def agent(span_id, name, end, parent=""):
    return span(
        span_id, parent, 0, end, gen_ai__operation__name="invoke_agent", gen_ai__agent__name=name
    )


def desk(trace_id="desk", *, arguments=None, result=REPLY, start=0, calls=1, **attributes):
    """A turn of an agent that asks another by a tool, from 20 to 80 ms; several calls are alike and
    at once.
    """
    arguments = {"request": QUESTION} if arguments is None else arguments
    asked = [call("ask_clerk", arguments, f"c{n}") for n in range(calls)]
    returned = [told(result, f"c{n}") for n in range(calls)]
    ran = [
        tool(
            f"t{n}",
            20 + n,
            "ask_clerk",
            end=80 + n,
            call__id=f"c{n}",
            call__arguments=json.dumps(arguments),
            call__result=result if isinstance(result, str) else json.dumps(result),
        )
        for n in range(calls)
    ]
    spans = [agent("a", "desk", 100), chat("1", 1, [ASK], asked), *ran]
    return at(
        trace_id, [*spans, chat("9", 90, [ASK, *asked, *returned], [ANSWER])], start, **attributes
    )


def clerk(trace_id="clerk", *, question=QUESTION, reply=REPLY, start=30, lasting=40, **attributes):
    """A turn of the agent that is asked, which looks something up."""
    looked = call("weather", {"city": "Paris"}, "w1")
    given = text("user", question)
    spans = [
        agent("a", "clerk", lasting),
        chat("1", 1, [given], [looked]),
        tool(
            "t",
            3,
            "weather",
            call__id="w1",
            call__arguments='{"city": "Paris"}',
            call__result="15C",
        ),
        chat("2", 5, [given, looked, told("15C", "w1")], [text("assistant", reply)]),
    ]
    return at(trace_id, spans, start, **attributes)


def parts(*spans):
    """Which traces each agent trace is made of."""
    shuffled = [x for each in spans for x in each]
    random.Random(3).shuffle(shuffled)
    return [[y.lstrip("0") for y in x.trace_ids] for x in rebuild_all(shuffled)]


TOGETHER, APART = [["desk", "clerk"]], [["desk"], ["clerk"]]


def test_what_a_tool_call_had_done_by_an_agent_elsewhere_is_part_of_the_turn():
    (trace,) = rebuild_all([*desk(), *clerk()])
    assert (trace.user_input, trace.final_output, trace.agent_name) == (
        "Paris or Berlin?",
        "Go to Paris.",
        "desk",
    )
    assert [(x.agent, x.name, x.result) for x in trace.tool_calls] == [
        ("desk", "ask_clerk", REPLY),
        ("clerk", "weather", "15C"),
    ]


def test_it_is_the_same_turn_as_if_the_context_had_been_passed_on():
    one = [*desk(), *clerk()]
    root = next(x for x in one if "clerk" in x.trace_id and not x.parent_span_id)
    by = next(x for x in one if x.span_id.endswith("t0"))
    passed = [replace(x, trace_id=by.trace_id) for x in one if x is not root]
    passed.append(replace(root, trace_id=by.trace_id, parent_span_id=by.span_id))
    (apart,), (expected,) = rebuild_all(one), rebuild_all(passed)
    assert replace(apart, trace_ids=expected.trace_ids) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {"agent": "clerk", "request": QUESTION},
        {"message": {"role": "user", "parts": [{"kind": "text", "text": f" {QUESTION}\n"}]}},
        [QUESTION],
        QUESTION,
    ],
)
def test_the_question_is_any_text_of_the_arguments(arguments):
    assert parts(desk(arguments=arguments), clerk()) == TOGETHER


@pytest.mark.parametrize(
    "result",
    [
        {"result": REPLY},
        {"kind": "task", "id": "1", "artifacts": [{"parts": [{"kind": "text", "text": REPLY}]}]},
        [{"type": "text", "text": REPLY}],
    ],
)
def test_the_answer_is_any_text_of_the_result(result):
    assert parts(desk(result=result), clerk()) == TOGETHER


def test_an_answer_that_is_an_object_is_the_value_of_the_result():
    value = {"warmer": "Paris", "by": 4}
    assert parts(desk(result=value), clerk(reply='{"by": 4, "warmer": "Paris"}')) == TOGETHER


@pytest.mark.parametrize(
    "other",
    [
        {"question": "Which of the two is warmer tomorrow?"},
        {"reply": "Paris, by five degrees."},
        {"start": 3000},
        {"start": -3000},
        {"lasting": 61},
    ],
)
def test_another_question_answer_or_time_leaves_it_apart(other):
    assert sorted(parts(desk(), clerk(**other))) == sorted(APART)


def test_the_same_question_asked_by_the_user_later_is_his_own():
    assert parts(desk(), clerk(), clerk("later", start=3000)) == [["desk", "clerk"], ["later"]]


def test_the_same_question_answered_otherwise_at_the_time_is_no_other_turn_that_fits():
    other = clerk("other", start=31, reply="Berlin, by two degrees.")
    assert parts(desk(), clerk(), other) == [["desk", "clerk"], ["other"]]


def test_one_of_two_that_work_at_the_time_cannot_be_told_from_the_other():
    assert parts(desk(), clerk(), clerk("other", start=31)) == [["desk"], ["clerk"], ["other"]]


def test_two_turns_that_ask_the_same_at_once_are_joined_to_nothing():
    found = parts(desk(), desk("two", start=2), clerk(), clerk("other", start=31))
    assert found == [["desk"], ["two"], ["clerk"], ["other"]]


def test_of_two_calls_alike_that_one_turn_made_at_once_neither_is_known_to_have_asked():
    found = parts(desk(calls=2), clerk(), clerk("other", start=31))
    assert found == [["desk"], ["clerk"], ["other"]]


def test_of_two_tries_that_came_to_the_same_neither_is_joined():
    first = at(
        "desk",
        [
            tool(
                "t5",
                5,
                "ask_clerk",
                end=19,
                call__arguments=json.dumps({"request": QUESTION}),
                status=2,
            )
        ],
    )
    found = parts([*desk(), *first], clerk(), clerk("lost", start=6, lasting=9))
    assert sorted(found) == [["clerk"], ["desk"], ["lost"]]


def test_a_tool_that_only_gives_back_what_it_was_given_asked_nobody():
    assert parts(desk(result=QUESTION), clerk(reply=QUESTION)) == APART


def test_a_call_in_which_an_agent_shows_asked_no_other():
    inside = at("desk", [span("b", "t0", 25, 70, gen_ai__operation__name="invoke_agent")])
    assert parts([*desk(), *inside], clerk()) == APART


def test_a_trace_of_several_turns_is_not_one_calls_work():
    first, second = (
        clerk(lasting=18),
        clerk(start=50, lasting=18, question="And the day after, please?"),
    )
    both = [
        *first,
        *(
            replace(
                x,
                span_id=f"2{x.span_id}",
                parent_span_id=x.parent_span_id and f"2{x.parent_span_id}",
            )
            for x in second
        ),
    ]
    assert len(rebuild_all([*desk(), *both])) == 3


def test_another_users_turn_is_his_own():
    assert parts(desk(user__id="ada"), clerk(user__id="ben")) == APART


def test_an_agent_elsewhere_may_have_a_session_of_its_own():
    (trace,) = rebuild_all([*desk(session__id="s1"), *clerk(session__id="ctx-7")])
    assert trace.session_id == "s1"


def test_the_session_of_an_agent_elsewhere_is_not_the_turns():
    (trace,) = rebuild_all([*desk(), *clerk(session__id="ctx-7")])
    assert trace.session_id is None


def test_short_texts_may_be_alike_by_chance():
    asked = desk(arguments={"request": "Warmer?"}, result="Paris")
    assert parts(asked, clerk(question="Warmer?", reply="Paris")) == APART


@pytest.mark.parametrize("start", [-1500, 1500])
def test_a_clock_that_is_off_does_not_keep_them_apart(start):
    assert parts(desk(), clerk(start=start)) == TOGETHER


def test_different_sessions_are_not_joined_where_the_clocks_differ():
    assert parts(desk(session__id="s1"), clerk(start=1500, session__id="s2")) == APART


def test_an_agent_that_hands_on_what_it_was_asked_word_for_word_leaves_all_apart():
    def between(start):
        asked = call("look_up", {"q": QUESTION}, "l1")
        given = text("user", QUESTION)
        ran = tool(
            "t",
            5,
            "look_up",
            end=45,
            call__id="l1",
            call__arguments=json.dumps({"q": QUESTION}),
            call__result=REPLY,
        )
        spans = [agent("a", "middle", 50), chat("1", 1, [given], [asked]), ran]
        return at(
            "mid",
            [*spans, chat("2", 46, [given, asked, told(REPLY, "l1")], [text("assistant", REPLY)])],
            start,
        )

    found = parts(desk(), between(25), clerk(start=32, lasting=30))
    assert sorted(found) == [["clerk"], ["desk"], ["mid"]]


def test_agents_that_ask_another_by_other_words_are_each_in_the_call_that_asked():
    wanted = "How warm is Paris, and how warm Berlin?"
    asked = call("look_up", {"q": wanted}, "l1")
    given = text("user", QUESTION)
    ran = tool("t", 5, "look_up", end=45, call__arguments=json.dumps({"q": wanted}), call__id="l1")
    ran = replace(
        ran, attributes={**ran.attributes, "gen_ai.tool.call.result": "Paris 15, Berlin 11"}
    )
    last = chat(
        "2", 46, [given, asked, told("Paris 15, Berlin 11", "l1")], [text("assistant", REPLY)]
    )
    middle = at("mid", [agent("a", "middle", 50), chat("1", 1, [given], [asked]), ran, last], 25)
    inner = clerk(start=32, lasting=30, question=wanted, reply="Paris 15, Berlin 11")
    (trace,) = rebuild_all([*desk(), *middle, *inner])
    assert [(x.agent, x.name) for x in trace.tool_calls] == [
        ("desk", "ask_clerk"),
        ("middle", "look_up"),
        ("clerk", "weather"),
    ]


def test_an_agent_elsewhere_may_itself_be_a_trace_for_each_model_call():
    looked = call("weather", {"city": "Paris"}, "w1")
    given = text("user", QUESTION)
    first = at("m1", [chat("1", 0, [given], [looked], parent="")], 30)
    second = at(
        "m2",
        [chat("1", 0, [given, looked, told("15C", "w1")], [text("assistant", REPLY)], parent="")],
        40,
    )
    assert parts(desk(), first, second) == [["desk", "m1", "m2"]]


@pytest.mark.parametrize(("bound", "found"), [(4, 2), (3, 4)])
def test_of_more_calls_than_can_be_looked_at_none_has_a_turn_joined_to_it(
    monkeypatch, bound, found
):
    monkeypatch.setattr(delegation, "_MAX_PAIRS", bound)
    assert len(parts(desk(), clerk(), desk("d2", start=5000), clerk("c2", start=5030))) == found


@pytest.mark.slow
def test_beyond_the_bound_the_work_grows_with_the_calls_and_not_with_their_square(monkeypatch):
    monkeypatch.setattr(delegation, "_MAX_PAIRS", 1000)
    texts = [f"{QUESTION} And of the {n} others?" for n in range(20)]
    asked = {"call__arguments": json.dumps(texts), "call__result": REPLY}

    def made(count):
        calls = [
            tool(f"t{n}", 20, "ask_clerk", end=80, call__id=f"c{n}", **asked) for n in range(count)
        ]
        turns = [
            at(
                f"c{n}",
                [chat("1", 40, [text("user", texts[n % 20])], [text("assistant", REPLY)], "")],
            )
            for n in range(count)
        ]
        return functions_called(
            [
                *at("desk", [agent("a", "desk", 100), chat("1", 1, [ASK]), *calls]),
                *(x for each in turns for x in each),
            ]
        )

    assert made(200) < 2.5 * made(100)


def functions_called(spans):
    """How many functions it takes to rebuild the traces of spans."""
    called = 0

    def count(_frame, event, _what):
        nonlocal called
        called += event == "call"

    sys.setprofile(count)
    try:
        rebuild_all(spans)
    finally:
        sys.setprofile(None)
    return called


ASKED = call("ask_clerk", {"request": QUESTION}, "c1")


def test_a_call_without_a_span_ran_between_the_model_calls_around_it():
    models = [
        chat("1", 1, [ASK], [ASKED], end=20),
        chat("2", 90, [ASK, ASKED, told(REPLY, "c1")], [ANSWER]),
    ]
    (trace,) = rebuild_all([*at("desk", [agent("a", "desk", 100), *models]), *clerk()])
    assert (trace.user_input, trace.final_output, trace.agent_name) == (
        "Paris or Berlin?",
        "Go to Paris.",
        "desk",
    )
    assert [(x.agent, x.name, x.result, bool(x.span_id)) for x in trace.tool_calls] == [
        ("desk", "ask_clerk", REPLY, False),
        ("clerk", "weather", "15C", True),
    ]


@pytest.mark.parametrize("start", [-30, 70])
def test_an_agent_that_worked_before_or_after_a_call_without_a_span_is_not_the_one_it_asked(start):
    models = [
        chat("1", 1, [ASK], [ASKED], end=20),
        chat("2", 80, [ASK, ASKED, told(REPLY, "c1")], [ANSWER]),
    ]
    short = clerk(start=start, question="Warmer?", reply="Paris")
    assert len(rebuild_all([*at("desk", [agent("a", "desk", 100), *models]), *short])) == 2


def test_a_trace_for_each_model_call_may_have_asked_an_agent_in_another_one():
    first = at("d1", [chat("1", 1, [ASK], [ASKED], parent="", end=20)])
    second = at("d2", [chat("1", 90, [ASK, ASKED, told(REPLY, "c1")], [ANSWER], parent="")])
    (trace,) = rebuild_all([*first, *second, *clerk()])
    assert (trace.user_input, trace.final_output, trace.agent_name) == (
        "Paris or Berlin?",
        "Go to Paris.",
        None,
    )
    assert [(x.agent, x.name) for x in trace.tool_calls] == [
        (None, "ask_clerk"),
        ("clerk", "weather"),
    ]


def test_bare_model_calls_at_both_ends_are_one_turn():
    first = at("d1", [chat("1", 1, [ASK], [ASKED], parent="", end=20)])
    second = at("d2", [chat("1", 90, [ASK, ASKED, told(REPLY, "c1")], [ANSWER], parent="")])
    looked, given = call("weather", {"city": "Paris"}, "w1"), text("user", QUESTION)
    third = at("m1", [chat("1", 0, [given], [looked], parent="")], 30)
    fourth = at(
        "m2",
        [chat("1", 0, [given, looked, told("15C", "w1")], [text("assistant", REPLY)], parent="")],
        40,
    )
    (trace,) = rebuild_all([*first, *second, *third, *fourth])
    assert (trace.user_input, trace.final_output) == ("Paris or Berlin?", "Go to Paris.")
    assert [(x.name, x.result) for x in trace.tool_calls] == [
        ("ask_clerk", REPLY),
        ("weather", "15C"),
    ]


def said(spans):
    """What a trace says that another may say too."""
    return rebuild_trace(spans).hints()


@pytest.mark.parametrize("known", ["desk", "clerk"])
def test_whichever_is_known_first_is_found_by_the_other(known):
    both = {"desk": said(desk()), "clerk": said(clerk())}
    talks = DelegationIndex(max_texts=100, keep_ns=10)
    talks.add(known, both.pop(known), 1)
    assert [talks.of(*x) for x in both.items()] == [[known]]


def test_what_a_trace_says_itself_is_not_anothers():
    talks = DelegationIndex(max_texts=100, keep_ns=10)
    talks.add("desk", said(desk()), 1)
    assert talks.of("desk", said(desk())) == []


def test_what_was_said_too_long_ago_is_forgotten():
    talks = DelegationIndex(max_texts=100, keep_ns=10)
    talks.add("clerk", said(clerk()), 5)
    talks.add("late", said(clerk()), 15)
    assert talks.of("desk", said(desk())) == ["late"]


def test_of_too_many_texts_the_oldest_are_forgotten():
    talks = DelegationIndex(max_texts=4, keep_ns=10)
    for n in range(5):
        talks.add(f"c{n}", said(clerk()), n)
    assert talks.of("desk", said(desk())) == ["c4", "c3"]
