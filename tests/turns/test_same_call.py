"""A model call that an application and its gateway report in traces of their own is counted
once.
"""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from turn_spans import ANSWER, ASK, agent, call, chat, span, text, told, tool

from spanscore import dialects
from spanscore.model.span import Resource, Scope
from spanscore.otlp import files
from spanscore.rebuild import explain_all, rebuild_all
from spanscore.turns.basis.conversation import Tree
from spanscore.turns.stitch import gateway as gateways

MS = 10**6
SECOND = 10**9
UNIQUE = "chatcmpl-CkL3uQmXo0uZr2sVb8Yt1wE5aHdNf"
RAIN = call("weather", {"city": "Paris"}, "call_Qw3eRt7yUi0pAs4dFg6hJk")
RESULT = told("15C", "call_Qw3eRt7yUi0pAs4dFg6hJk")
RECORDED = Path(__file__).parent.parent / "golden" / "litellm" / "shop-gateway"


def trace(number, *spans, service="shop", scope="sdk"):
    """Spans as the trace `number`."""
    return [
        replace(
            x,
            trace_id=f"{number:032x}",
            span_id=f"{number}{x.span_id}".rjust(16, "0"),
            parent_span_id=x.parent_span_id and f"{number}{x.parent_span_id}".rjust(16, "0"),
            resource=Resource({"service.name": service}),
            scope=Scope(scope),
        )
        for x in spans
    ]


def asked(
    start=0, end=SECOND, given=(ASK,), answer=ANSWER, response=UNIQUE, parent="", **attributes
):
    """A model call."""
    more = {"gen_ai__response__id": response} if response is not None else {}
    produced = None if answer is None else [answer]
    return chat("m", start, [*given], produced, parent=parent, end=end, **more, **attributes)


def application(*calls, number=1, end=2 * SECOND, **attributes):
    """An agent's trace with its model calls."""
    inside = [
        replace(x, span_id=f"m{at}", parent_span_id="a") for at, x in enumerate(calls or [asked()])
    ]
    return trace(number, agent(start=-MS, end=end, **attributes), *inside)


def gateway(one=None, *, number=2, service="models", scope="litellm"):
    """A gateway's trace of one model call, in the request that it served."""
    one = one or asked(MS, SECOND - MS)
    top = span(
        "g", start=one.start_ns - 1_000, end=one.end_ns - 1_000, name="POST /chat/completions"
    )
    return trace(number, top, replace(one, parent_span_id="g"), service=service, scope=scope)


def rebuilt(*traces):
    """Of which traces each agent trace is made, by number."""
    return [
        [int(x, 16) for x in each.trace_ids]
        for each in rebuild_all([x for spans in traces for x in spans])
    ]


def test_a_gateways_trace_of_an_applications_call_is_no_agent_trace():
    assert rebuilt(application(), gateway()) == [[1]]


def test_the_applications_trace_is_as_if_there_were_no_gateway():
    alone = rebuild_all(application())
    assert rebuild_all([*gateway(), *application()]) == alone


def test_each_call_of_an_agent_is_counted_once():
    first = asked(answer=RAIN, response=UNIQUE + "1", gen_ai__usage__input_tokens=5)
    given = (ASK, RAIN, RESULT)
    second = asked(
        2 * SECOND, 3 * SECOND, given, response=UNIQUE + "2", gen_ai__usage__input_tokens=7
    )
    app = application(first, second, end=4 * SECOND)
    (found,) = rebuild_all([*gateway(second, number=3), *app, *gateway(first)])
    assert (found.usage.input_tokens, len(found.model_calls), len(found.tool_calls)) == (12, 2, 1)


def test_what_the_application_does_not_say_of_a_call_is_the_gateways():
    mine = asked()
    theirs = asked(
        MS, gen_ai__usage__input_tokens=5, gen_ai__usage__output_tokens=3, user__id="ann"
    )
    (found,) = rebuild_all([*application(mine), *gateway(theirs)])
    assert (found.usage.input_tokens, found.usage.output_tokens, found.user_id) == (5, 3, "ann")
    assert [int(x, 16) for x in found.trace_ids] == [1, 2]


def test_what_the_application_says_is_not_the_gateways():
    mine = asked(gen_ai__usage__input_tokens=5, user__id="ann")
    theirs = asked(MS, gen_ai__usage__input_tokens=6, user__id="key-7")
    (found,) = rebuild_all([*application(mine), *gateway(theirs)])
    assert (found.usage.input_tokens, found.user_id, len(found.trace_ids)) == (5, "ann", 1)


def test_the_content_that_only_a_gateway_records_is_the_turns():
    mine = chat("m", 0, parent="", end=SECOND, gen_ai__response__id=UNIQUE)
    (found,) = rebuild_all([*application(mine), *gateway()])
    assert (found.user_input, found.final_output) == ("Paris or Berlin?", "Paris, as ever.")


def test_what_was_cut_in_the_applications_trace_is_taken_from_the_gateways():
    cut = asked()
    broken = cut.attributes["gen_ai.output.messages"][:-20]
    cut = replace(cut, attributes={**cut.attributes, "gen_ai.output.messages": broken})
    (found,) = rebuild_all([*application(cut), *gateway()])
    assert (found.final_output, found.damaged) == ("Paris, as ever.", ())


def test_where_a_fact_of_the_gateways_came_from_is_explained():
    theirs = asked(MS, gen_ai__usage__input_tokens=5)
    ((_, explanation),) = explain_all([*application(asked()), *gateway(theirs)])
    (origin,) = explanation.tokens
    assert (int(origin.step.span.trace_id, 16), origin.attributes) == (
        2,
        ("gen_ai.usage.input_tokens",),
    )


def test_a_call_without_a_response_id_is_known_by_the_tool_call_it_requested_and_all_its_input():
    mine, theirs = asked(answer=RAIN, response=None), asked(MS, answer=RAIN)
    assert rebuilt(application(mine), gateway(theirs)) == [[1]]


def test_a_call_that_asked_for_the_same_but_was_given_something_else_is_another():
    mine, theirs = (
        asked(answer=RAIN, response=None),
        asked(MS, given=(text("user", "Rain?"),), answer=RAIN),
    )
    assert len(rebuilt(application(mine), gateway(theirs))) == 2


@pytest.mark.parametrize(
    "theirs",
    [
        asked(MS, answer=text("assistant", "Berlin.")),
        asked(MS, answer=RAIN, response=UNIQUE),
        asked(MS, response="chatcmpl-another-0uZr2sVb8Yt1"),
        asked(9 * SECOND, 10 * SECOND),
    ],
    ids=["answer", "call", "id", "time"],
)
def test_a_call_with_another_answer_id_or_time_is_another(theirs):
    mine = (
        asked(answer=call("weather", {}, "c1"))
        if theirs.attributes["gen_ai.output.messages"].count("call")
        else None
    )
    assert len(rebuilt(application(*filter(None, [mine])), gateway(theirs))) == 2


def test_an_empty_id_shows_nothing():
    assert rebuilt(application(asked(response="")), gateway(asked(MS, response=""))) == [[1], [2]]


def test_an_id_that_repeats_shows_a_call_only_with_the_same_answer_inside_the_same_time():
    mine, theirs = asked(response="chatcmpl-123"), asked(MS, SECOND - MS, response="chatcmpl-123")
    assert rebuilt(application(mine), gateway(theirs)) == [[1]]


@pytest.mark.parametrize(
    "theirs",
    [
        asked(MS, answer=None, response="chatcmpl-123"),
        asked(MS, given=(text("user", "Rome?"),), response="chatcmpl-123"),
        asked(
            SECOND // 2,
            3 * SECOND // 2,
            given=(text("user", "Hello"), ASK),
            response="chatcmpl-123",
        ),
        asked(4 * SECOND, 5 * SECOND, response="chatcmpl-123"),
    ],
    ids=["no answer", "question", "outside", "later"],
)
def test_an_id_that_repeats_does_not_make_one_of_two_calls(theirs):
    assert len(rebuilt(application(asked(response="chatcmpl-123")), gateway(theirs))) == 2


def test_an_id_that_repeats_shows_a_call_with_the_same_input_and_answer_though_clocks_differ():
    mine, theirs = (
        asked(response="chatcmpl-123"),
        asked(SECOND, 2 * SECOND, response="chatcmpl-123"),
    )
    assert rebuilt(application(mine), gateway(theirs)) == [[1]]


def test_a_chain_around_a_gateways_call_does_not_keep_its_trace():
    top = span("g", end=SECOND, name="POST /v1/messages", gen_ai__operation__name="invoke_workflow")
    served = trace(2, top, replace(asked(MS), parent_span_id="g"), service="models")
    assert rebuilt(application(), served) == [[1]]


def test_an_agent_that_runs_many_times_at_once_against_a_server_with_one_id_is_as_many_turns():
    runs = [application(asked(response="chatcmpl-123"), number=x) for x in range(1, 9)]
    assert len(rebuilt(*runs)) == 8


def test_each_of_many_calls_with_one_id_has_the_gateways_that_is_nearest():
    runs = [
        application(asked(x * MS, SECOND + x * MS, response="chatcmpl-123"), number=x)
        for x in range(1, 6)
    ]
    served = [
        gateway(asked(x * MS, SECOND - x * MS, response="chatcmpl-123"), number=x + 10)
        for x in range(1, 6)
    ]
    assert rebuilt(*runs, *served) == [[1], [2], [3], [4], [5]]


def test_what_one_application_repeats_itself_is_two_turns():
    assert rebuilt(application(), gateway(service="shop", scope="sdk")) == [[1], [2]]


def test_two_traces_that_both_show_an_agent_are_two():
    other = trace(2, agent(start=MS, end=SECOND), asked(MS, parent="a"), service="models")
    assert rebuilt(application(), other) == [[1], [2]]


def test_a_gateways_trace_with_a_call_that_nobody_else_reports_stays():
    more = replace(asked(3 * SECOND, 4 * SECOND, response=UNIQUE + "2"), span_id="n")
    served = trace(2, asked(MS), more, service="models")
    assert rebuilt(application(), served) == [[1], [2], [2]]


def test_a_try_that_failed_at_the_gateway_does_not_keep_its_trace():
    failed = replace(asked(MS, 2 * MS, answer=None, response=None, status=2), span_id="n")
    assert rebuilt(application(), trace(2, failed, asked(3 * MS), service="models")) == [[1]]


def test_a_gateway_behind_a_gateway_repeats_the_same_call():
    second = gateway(asked(2 * MS, SECOND - 2 * MS), number=3, service="vendor")
    assert rebuilt(application(), gateway(), second) == [[1]]


def test_bare_calls_of_an_application_are_joined_as_if_there_were_no_gateway():
    first = asked(answer=RAIN, response=UNIQUE + "1")
    second = asked(2 * SECOND, 3 * SECOND, (ASK, RAIN, RESULT), response=UNIQUE + "2")
    bare = [trace(1, first), trace(2, second)]
    served = [
        gateway(replace(x, start_ns=x.start_ns + MS, end_ns=x.end_ns - MS), number=n)
        for n, x in ((3, first), (4, second))
    ]
    assert rebuilt(*served, *bare) == [[1, 2]]


def test_of_two_bare_calls_the_one_that_lasts_longer_is_the_applications():
    one, other = asked(MS, SECOND - MS), asked()
    assert rebuilt(trace(1, one, service="models"), trace(2, other)) == [[2]]


def test_an_applications_trace_of_several_turns_has_none_more_for_its_gateway():
    said = (ASK, ANSWER, text("user", "Sure?"))
    first, second = (
        asked(response=UNIQUE + "1"),
        asked(2 * SECOND, 3 * SECOND, said, text("assistant", "Yes."), UNIQUE),
    )
    app = trace(1, *(replace(x, span_id=f"m{at}") for at, x in enumerate([first, second])))
    assert rebuilt(app, gateway(first), gateway(second, number=3)) == [[1], [1]]


def test_a_tool_call_of_the_gateway_is_not_one_more():
    first = asked(answer=RAIN)
    app = [
        *application(first),
        *trace(1, tool("t", SECOND, "weather", call__id="call_Qw3eRt7yUi0pAs4dFg6hJk")),
    ]
    (found,) = rebuild_all([*app, *gateway(first)])
    assert len(found.tool_calls) == 1


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(ASK, text("assistant", "Berlin.")), (text("user", "Rome?"), ANSWER)],
    ids=["answer", "question"],
)
def test_calls_side_by_side_that_a_server_gave_one_id_are_two_where_they_differ(asked, answer):
    both = {"gen_ai__response__id": "chatcmpl-123", "end": 9, "parent": "a"}
    (found,) = rebuild_all(
        [agent(), chat("1", 1, [ASK], [ANSWER], **both), chat("2", 2, [asked], [answer], **both)]
    )
    assert len(found.model_calls) == 2


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_order_of_a_recording_gives_the_applications_turns(chance):
    telemetry = files.load([RECORDED])
    expected = json.loads((RECORDED / "expected.json").read_text(encoding="utf-8"))
    spans = [*telemetry.spans]
    chance.shuffle(spans)
    assert [x.to_json() for x in rebuild_all(spans, telemetry.logs)] == expected


def test_a_recorded_gateway_adds_nothing_that_the_application_says():
    telemetry = files.load([RECORDED])
    alone = [x for x in telemetry.spans if x.resource.service_name == "shop"]
    assert rebuild_all(alone) == rebuild_all(telemetry.spans, telemetry.logs)


@pytest.mark.slow
def test_the_work_grows_with_the_calls_that_have_one_id_and_not_with_their_square(monkeypatch):
    def compared(count):
        asked_for = 0
        original = gateways._is_same

        def counting(one, other):
            nonlocal asked_for
            asked_for += 1
            return original(one, other)

        monkeypatch.setattr(gateways, "_is_same", counting)
        calls = [asked(x * MS, response="chatcmpl-123") for x in range(count)]
        traces = [gateway(x, number=at + 1, service=f"s{at % 2}") for at, x in enumerate(calls)]
        random.Random(1).shuffle(traces)  # an order, no secret
        rebuilt(*traces)
        monkeypatch.undo()
        return asked_for

    assert compared(800) < 4 * compared(400)


@pytest.mark.slow
def test_traces_that_repeat_each_other_in_a_chain_are_not_followed_one_by_one(lines_run):
    def reports(count):
        traces = (
            trace(number, asked(number), scope=f"{number % 2}") for number in range(1, count + 1)
        )
        readings = [dialects.read(x) for x in traces]
        return [gateways.reports(x, Tree(x)) for x in readings]

    few, many = (lines_run(gateways.repeated, reports(count)) for count in (100, 400))
    assert many < 6 * few
