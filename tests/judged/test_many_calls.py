"""Traces of one to thousands of tool calls before a model that keeps its limits: each verdict is of
a call it saw.
"""

import re

import pytest
from judge_harness import trace
from judged_harness import STAGES, engine_for, evaluate, spent
from limited_model import LimitedModel
from obliging_model import asked_for, listed_calls, question_of
from scripted_server import ScriptedServer

from spanscore.model.trace import ToolCall

CONTEXT = 24_000
LONGEST_SENTENCE = (
    "The city is taken from the user's list, where it is the one that comes next after it. "
)


def calls(count):
    """Of every ten calls one has the wrong city."""
    return tuple(
        ToolCall(f"c{n}", "get_weather", {"city": f"city {n}"}, f"sunny in city {n}")
        for n in range(count)
    )


def verdicts(request):
    """A verdict of about forty tokens on each listed call, by the arguments that the transcript
    shows of it.
    """
    shown = {int(step): int(city) for step, city in SHOWN.findall(question_of(request))}
    return [
        {
            "call": step,
            "reason": LONGEST_SENTENCE,
            "verdict": "no" if shown[step] % 10 == 0 else "yes",
        }
        for step in listed_calls(request)
    ]


SHOWN = re.compile(
    r"^(\d+)\. the tool get_weather was called.*?\n   arguments: \{\"city\":\"city (\d+)\"\}$",
    re.MULTILINE,
)


def judged(
    make_trace, count, *, plan="fused", metrics=("argument_correctness",), context=CONTEXT, **judge
):
    """The evaluations of a trace of `count` calls, and the server that was asked."""
    with ScriptedServer(LimitedModel(context, verdicts=verdicts)) as server:
        engine = engine_for(server, plan, metrics=dict.fromkeys(metrics), **judge)
        return evaluate(engine, make_trace(tool_calls=calls(count))), server


def answered(server):
    """The numbers of the calls that were asked about, over all requests that the model did not
    refuse.
    """
    return [call for request in server.calls for call in listed_calls(request)]


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["staged", "fused"])
@pytest.mark.parametrize("count", [1, 150, 300])
def test_every_call_has_a_verdict_of_its_own(make_trace, plan, count):
    found, _ = judged(make_trace, count, plan=plan)
    score = found["argument_correctness"].outcome

    assert [x["call"] for x in score.metadata["verdicts"]] == list(range(1, count + 1))
    assert score.value == round(1 - -(-count // 10) / count, 4)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 150, 300])
def test_no_metric_fails_however_many_calls_there_are(make_trace, count):
    found, _ = judged(make_trace, count, metrics=STAGES)

    assert {name: x.status for name, x in found.items()} == dict.fromkeys(STAGES, "scored")


@pytest.fixture(scope="module")
def thousands():
    """What is judged of 5,000 calls."""
    found, _ = judged(trace, 5000)
    return found["argument_correctness"].outcome


@pytest.mark.slow
def test_of_thousands_of_calls_a_sample_is_judged(thousands):
    facts = {name: thousands.metadata[name] for name in ("calls", "judged", "share_judged")}
    assert facts == {"calls": 5000, "judged": 300, "share_judged": 0.06}


@pytest.mark.slow
def test_the_reason_says_that_a_sample_was_judged(thousands):
    assert (
        "300 of 300 drawn at random of 5000 calls were judged. Of all calls 8" in thousands.reason
    )


@pytest.mark.slow
def test_the_interval_of_a_sample_holds_the_share_of_right_calls(thousands):
    low, high = thousands.metadata["interval"]

    assert low < 0.9 < high
    assert high - low < 0.1


@pytest.mark.slow
def test_the_same_sample_is_drawn_at_every_run(make_trace):
    one, other = (
        judged(make_trace, 1000, max_verdicts=20)[0]["argument_correctness"].outcome
        for _ in range(2)
    )

    assert one == other


@pytest.mark.slow
def test_another_trace_has_another_sample(make_trace):
    with ScriptedServer(LimitedModel(CONTEXT, verdicts=verdicts)) as server:
        engine = engine_for(server, metrics={"argument_correctness": {}}, max_verdicts=20)
        one, other = (
            evaluate(engine, make_trace(number, tool_calls=calls(1000)))[
                "argument_correctness"
            ].outcome.metadata
            for number in (1, 2)
        )

    assert [x["call"] for x in one["verdicts"]] != [x["call"] for x in other["verdicts"]]


def test_as_many_calls_as_may_be_judged_are_all_judged(make_trace):
    found, _ = judged(make_trace, 20, max_verdicts=20)

    assert "interval" not in found["argument_correctness"].outcome.metadata


@pytest.mark.slow
@pytest.mark.parametrize("count", [150, 1000])
def test_verdicts_are_asked_only_of_calls_whose_arguments_are_there_whole(make_trace, count):
    _, server = judged(make_trace, count, max_transcript_tokens=3000)

    for request in server.calls:
        shown = {int(step) for step, _ in SHOWN.findall(question_of(request))}
        assert shown.issuperset(listed_calls(request))


@pytest.mark.slow
def test_an_answer_that_breaks_off_is_taken_as_far_as_it_goes(make_trace):
    found, server = judged(make_trace, 150, max_output_tokens=2000)

    assert found["argument_correctness"].status == "scored"
    assert len(answered(server)) < 2 * 150


@pytest.mark.slow
def test_a_model_with_little_room_for_answers_is_asked_for_one_thing_at_a_time(make_trace):
    found, server = judged(make_trace, 4, max_output_tokens=64, metrics=STAGES)

    assert {name: x.status for name, x in found.items()} == dict.fromkeys(STAGES, "scored")
    assert max(len(asked_for(request)) for request in server.calls) <= 2


@pytest.mark.slow
def test_a_transcript_too_long_for_the_model_is_shortened(make_trace):
    found, _ = judged(make_trace, 1000, context=9000, max_verdicts=60, metrics=STAGES)

    assert {name: x.status for name, x in found.items()} == dict.fromkeys(STAGES, "scored")
    assert found["confidence"].outcome.metadata["transcript_elided"] is True


@pytest.mark.slow
def test_a_model_that_can_read_nothing_is_a_failure_that_says_so(make_trace):
    found, server = judged(make_trace, 300, context=100)

    assert found["argument_correctness"].outcome.type == "JudgeTooLongError"
    assert len(server.calls) < 20


@pytest.mark.slow
def test_a_model_that_can_write_nothing_is_a_failure_after_few_calls(make_trace):
    with ScriptedServer(
        LimitedModel(CONTEXT, verdicts=lambda _: [{"reason": "x" * 100_000}])
    ) as server:
        found = evaluate(
            engine_for(server, "fused", metrics={"argument_correctness": {}}),
            make_trace(tool_calls=calls(300)),
        )

    assert found["argument_correctness"].outcome.type == "JudgeAnswerError"
    assert len(server.calls) < 20


def test_calls_too_long_to_be_shown_are_not_judged_and_widen_the_interval(make_trace):
    short, long = calls(8), (ToolCall("x", "send", {"text": "word " * 20_000}, "sent"),) * 2
    with ScriptedServer(LimitedModel(CONTEXT, verdicts=verdicts)) as server:
        engine = engine_for(
            server, metrics={"argument_correctness": {}}, max_transcript_tokens=2000
        )
        score = evaluate(engine, make_trace(tool_calls=short + long))[
            "argument_correctness"
        ].outcome

    assert (score.metadata["judged"], score.metadata["interval"]) == (8, [0.7, 0.9])
    assert "2 are too long to be shown whole to the judge" in score.reason


@pytest.mark.slow
def test_what_all_batches_cost_is_on_the_scores(make_trace):
    found, server = judged(make_trace, 300, metrics=STAGES)

    assert spent(found).calls == len(server.calls)
