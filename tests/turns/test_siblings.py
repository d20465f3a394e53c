"""A call that a framework's callbacks and the SDK below them tell side by side, in one trace, is
one call.
"""

import json
from dataclasses import replace

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, text, told, tool

from spanscore import dialects
from spanscore.model.span import Scope
from spanscore.rebuild import rebuild
from spanscore.turns.basis.conversation import Tree
from spanscore.turns.dedup import reports

CHAIN, SDK = "framework", "sdk"
SECOND = 10**9
UNIQUE = "call_Qw3eRt7yUi0pAs4dFg6hJk"
RAIN = call("weather", {"city": "Paris"}, "c1")


def report(
    span_id, scope, start, end, *, given=(ASK,), said=ANSWER, parent="a", tokens=None, **attributes
):
    """What one instrumentation tells of a model call."""
    if tokens is not None:
        attributes |= {
            "gen_ai__usage__input_tokens": tokens[0],
            "gen_ai__usage__output_tokens": tokens[1],
        }
    produced = None if said is None else [said]
    return chat(
        span_id, start, given and [*given], produced, parent, end=end, scope=scope, **attributes
    )


def rebuilt(*calls):
    """The trace of a request, in which an agent's callbacks make spans that are not the current
    ones.
    """
    spans = [replace(agent("a", 1, 10_000), scope=Scope(CHAIN), parent_span_id="request"), *calls]
    request = replace(agent("request", 0, 10_001), attributes={}, name="POST /chat")
    (trace,) = rebuild([request, *spans])
    return trace


def counted(*calls):
    return len(rebuilt(*calls).model_calls)


def test_the_sdks_report_inside_the_frameworks_is_the_same_call():
    assert counted(report("f", CHAIN, 10, 90), report("s", SDK, 20, 80, parent="request")) == 1


def test_what_only_the_sdk_tells_is_added():
    trace = rebuilt(
        report("f", CHAIN, 10, 90), report("s", SDK, 20, 80, parent="request", tokens=(7, 3))
    )
    assert (trace.usage.input_tokens, trace.usage.output_tokens) == (7, 3)


def test_the_call_has_its_place_in_the_agent_also_where_the_sdks_clock_is_ahead():
    trace = rebuilt(report("f", CHAIN, 20, 90), report("s", SDK, 10, 80, parent="request"))
    assert [x.span_id for x in trace.model_calls] == ["f"]


def test_a_tool_call_that_both_reports_ask_for_is_one_and_keeps_its_id():
    first = [
        report("f1", CHAIN, 10, 90, said=RAIN),
        report("s1", SDK, 20, 80, said=RAIN, parent="request"),
    ]
    given = (ASK, RAIN, told("15C", "c1"))
    then = [
        report("f2", CHAIN, 110, 190, given=given),
        report("s2", SDK, 120, 180, given=given, parent="request"),
    ]
    trace = rebuilt(*first, tool("t", 95, "weather", call__id="c1", call__result="15C"), *then)
    assert [(x.call_id, x.result, x.span_id) for x in trace.tool_calls] == [("c1", "15C", "t")]


def test_parallel_calls_alike_of_one_instrumentation_are_as_many_as_they_are():
    samples = [report(f"f{x}", CHAIN, 10 + x, 90 - x, tokens=(7, 3)) for x in range(5)]
    assert counted(*samples) == 5


def test_parallel_calls_alike_that_both_report_are_each_counted_once():
    frameworks = [report(f"f{x}", CHAIN, 10 + x, 500 + x) for x in range(60)]
    sdks = [report(f"s{x}", SDK, 100 + x, 400 + x, parent="request") for x in range(60)]
    assert counted(*frameworks, *sdks) == 60


def instructed(words):
    return json.dumps([{"type": "text", "content": words}])


@pytest.mark.parametrize(
    "theirs",
    [
        {"said": text("assistant", "Berlin.")},
        {"given": (text("user", "Rome?"),)},
        {"gen_ai__system_instructions": instructed("Judge.")},
        {"tokens": (8, 4)},
        {"gen_ai__response__id": "another"},
    ],
    ids=["answer", "question", "system", "tokens", "id"],
)
def test_a_call_inside_the_time_of_another_that_says_something_else_is_another(theirs):
    alike = {"tokens": (7, 3), "gen_ai__system_instructions": instructed("Help.")}
    ours = report("f", CHAIN, 10, 90, gen_ai__response__id="one", **alike)
    assert counted(ours, report("s", SDK, 20, 80, parent="request", **alike | theirs)) == 2


@pytest.mark.parametrize(
    "other", [call("weather", {"city": "Rome"}, "c2"), call("taxi", {"city": "Paris"}, "c1")]
)
def test_a_call_inside_the_time_of_another_that_asks_for_other_tools_is_another(other):
    assert (
        counted(
            report("f", CHAIN, 10, 90, said=RAIN),
            report("s", SDK, 20, 80, said=other, parent="request"),
        )
        == 2
    )


def test_a_call_that_ends_long_after_another_is_another():
    assert (
        counted(
            report("f", CHAIN, 0, 2 * SECOND),
            report("s", SDK, SECOND, 3 * SECOND, parent="request"),
        )
        == 2
    )


def test_calls_one_after_the_other_are_two():
    assert counted(report("f", CHAIN, 10, 50), report("s", SDK, 50, 80, parent="request")) == 2


def test_calls_of_two_agents_beside_each_other_are_two():
    other = replace(agent("b", 2, 9_000), scope=Scope(SDK), parent_span_id="request")
    assert counted(report("f", CHAIN, 10, 90), other, report("s", SDK, 20, 80, parent="b")) == 2


def test_unique_ids_of_the_same_tool_calls_are_enough():
    said, given = call("weather", {"city": "Paris"}, UNIQUE), (text("user", "only what is new"),)
    late = report("s", SDK, SECOND, 3 * SECOND, said=said, given=given, parent="request")
    assert counted(report("f", CHAIN, 0, 2 * SECOND, said=said), late) == 1


def test_a_report_without_content_is_known_by_its_tokens():
    bare = report("s", SDK, 20, 80, given=None, said=None, tokens=(7, 3), parent="request")
    assert counted(report("f", CHAIN, 10, 90, tokens=(7, 3)), bare) == 1


def test_a_report_without_content_or_tokens_is_a_call_of_its_own():
    assert (
        counted(
            report("f", CHAIN, 10, 90, tokens=(7, 3)),
            report("s", SDK, 20, 80, given=None, said=None),
        )
        == 2
    )


def test_a_report_without_content_of_another_model_is_a_call_of_its_own():
    ours = report("f", CHAIN, 10, 90, tokens=(7, 3), gen_ai__request__model="large")
    theirs = report(
        "s", SDK, 20, 80, given=None, said=None, tokens=(7, 3), gen_ai__request__model="small"
    )
    assert counted(ours, theirs) == 2


def test_a_call_that_failed_is_counted_once():
    ours, theirs = (
        report("f", CHAIN, 10, 90, said=None, status=2),
        report("s", SDK, 20, 80, said=None, status=2),
    )
    assert counted(ours, replace(theirs, parent_span_id="request")) == 1


def test_three_instrumentations_of_one_call_are_one_call():
    ours = report("f", CHAIN, 10, 90, tokens=(0, 3))
    theirs = report("s", SDK, 20, 60, said=None, parent="request")
    third = report("n", "native", 30, 80, given=None, said=None, tokens=(7, 3), parent="request")
    trace = rebuilt(ours, theirs, third)
    assert (len(trace.model_calls), trace.usage.input_tokens) == (1, 7)


def test_a_tool_that_two_instrumentations_report_side_by_side_ran_once():
    ours = tool(
        "t", 10, "weather", call__arguments='{"city": "Paris"}', scope=CHAIN, end=90, call__id="c1"
    )
    theirs = tool(
        "m", 20, "weather", "request", call__arguments='{"city": "Paris"}', scope="mcp", end=80
    )
    assert [x.call_id for x in rebuilt(ours, theirs).tool_calls] == ["c1"]


def test_a_tool_that_ran_twice_at_the_same_time_ran_twice():
    runs = [
        tool(f"t{x}", 10, "weather", call__arguments="{}", scope=CHAIN, end=90) for x in range(2)
    ]
    inner = [
        tool(f"m{x}", 20, "weather", "request", call__arguments="{}", scope="mcp", end=80)
        for x in range(2)
    ]
    assert len(rebuilt(*runs, *inner).tool_calls) == 2


def test_the_order_of_the_spans_changes_nothing():
    calls = [report("f", CHAIN, 10, 90, tokens=(7, 3)), report("s", SDK, 20, 80, parent="request")]
    assert rebuilt(*calls) == rebuilt(*reversed(calls))


@pytest.mark.slow
@pytest.mark.parametrize(
    "shared", [{"gen_ai__response__id": "r"}, {"tokens": (7, 3)}], ids=["response id", "tokens"]
)
def test_calls_at_once_are_not_each_held_against_all(shared, lines_run):
    def calls(count):
        said = (text("assistant", f"{x}") for x in range(count))
        spans = [
            report(f"{x}", f"{x % 2}", x, SECOND, said=each, **shared)
            for x, each in enumerate(said)
        ]
        reading = dialects.read(spans)
        return reading.steps, Tree(reading)

    few, many = (lines_run(reports.model_calls, *calls(count)) for count in (100, 400))
    assert many < 6 * few
