"""Every judged metric over recorded traces, staged and fused: how often a model is asked, and what
comes of it.
"""

import pytest
from judged_harness import STAGES, STAGEWISE, engine_for, evaluate, recorded
from obliging_model import ObligingModel, asked_for, listed_calls, question_of
from scripted_server import ScriptedServer

from spanscore.evaluation import Overrides

WRONG = {"verdict": "no"}
METADATA = {
    "task_completion": {"task", "outcome"},
    "tool_correctness": {"user_input", "tools_called", "available_tools"},
    "argument_correctness": {"user_input", "verdicts"},
    "step_efficiency": {"task"},
    "confidence": set(),
    "plan_adherence": {"task", "plan"},
    "plan_quality": {"task", "plan"},
}
plans = pytest.mark.parametrize("plan", ["staged", "fused"])


@pytest.mark.slow
@plans
@pytest.mark.parametrize(
    "model", ["openai/scripted", "openai/gpt-4o-mini"], ids=["schema in text", "response_format"]
)
@pytest.mark.parametrize("case", ["pydantic_ai/openai", "openinference/langgraph"])
def test_every_judged_metric_scores_every_recorded_trace(plan, model, case):
    with ScriptedServer(ObligingModel()) as server:
        engine = engine_for(server, plan, model=model)
        found = [x for trace in recorded(case) for x in evaluate(engine, trace).values()]

    assert [x for x in found if x.status != "scored"] == []
    assert len(found) == len(STAGES) * len(recorded(case))


@plans
def test_metadata_is_what_the_metric_says(plan):
    with ScriptedServer(ObligingModel()) as server:
        found = evaluate(engine_for(server, plan), recorded()[0])

    assert {name: set(x.outcome.metadata) for name, x in found.items()} == METADATA


@pytest.mark.slow
def test_both_plans_give_the_same_scores():
    with ScriptedServer(ObligingModel(**WRONG)) as server:
        staged, fused = (
            evaluate(engine_for(server, plan), recorded()[0]) for plan in ("staged", "fused")
        )

    assert {name: x.outcome for name, x in staged.items()} == {
        name: x.outcome for name, x in fused.items()
    }


@pytest.mark.parametrize(("name", "stages"), STAGES.items())
def test_staged_asks_once_a_stage(name, stages):
    with ScriptedServer(ObligingModel(**WRONG)) as server:
        evaluate(engine_for(server, metrics={name: {}}), recorded()[0])

    assert len(server.calls) == stages


def test_staged_asks_what_metrics_share_once():
    with ScriptedServer(ObligingModel(**WRONG)) as server:
        evaluate(engine_for(server), recorded()[0])

    assert (len(server.calls), [asked_for(x) for x in server.calls].count({"plan"})) == (
        sum(STAGES.values()) - 3,
        1,
    )


FIRST = {"task", "outcome", "plan", "verdicts", "tool_correctness", "confidence"}
RESTING = {
    "task_completion",
    "argument_correctness",
    "step_efficiency",
    "plan_adherence",
    "plan_quality",
}


@pytest.mark.parametrize(
    ("settings", "calls"), [({}, [FIRST | RESTING]), (STAGEWISE, [FIRST, RESTING])]
)
def test_fused_asks_for_all_metrics_at_once_or_stage_by_stage(settings, calls):
    with ScriptedServer(ObligingModel(**WRONG)) as server:
        evaluate(engine_for(server, "fused", **settings), recorded()[0])

    assert [asked_for(x) for x in server.calls] == calls


def test_a_plan_question_without_an_answer_is_asked_again_with_the_plan_quoted():
    answers = iter([None])
    model = ObligingModel(
        plan=["look it up", "report it"],
        plan_quality=lambda _: next(answers, {"reason": "fine", "score": 0.4}),
    )
    with ScriptedServer(model) as server:
        found = evaluate(engine_for(server, "fused"), recorded()[0])

    assert found["plan_quality"].value == 0.8
    assert "1. look it up" in question_of(server.calls[1])
    assert len(server.calls) == 2


def test_without_a_plan_one_call_is_all():
    with ScriptedServer(ObligingModel(plan=[], plan_quality=None)) as server:
        found = evaluate(engine_for(server, "fused"), recorded()[0])

    assert (found["plan_quality"].outcome.cause, len(server.calls)) == ("not_applicable", 1)


@plans
def test_every_call_begins_with_the_same_words(plan):
    with ScriptedServer(ObligingModel()) as server:
        evaluate(engine_for(server, plan), recorded()[0])

    begins = {call["messages"][0]["content"] for call in server.calls}
    transcripts = {
        call["messages"][1]["content"].partition("</untrusted-data")[0] for call in server.calls
    }
    assert (len(begins), len(transcripts)) == (1, 1)


@plans
def test_a_metrics_own_model_is_asked_for_that_metric(plan):
    metrics = {**dict.fromkeys(STAGES), "confidence": {"model": "openai/big"}}
    with ScriptedServer(ObligingModel()) as server:
        found = evaluate(engine_for(server, plan, metrics=metrics), recorded()[0])

    assert [asked_for(x) for x in server.calls if x["model"] == "big"] == [{"reason", "score"}]
    assert [name for name, x in found.items() if x.evaluator.model == "openai/big"] == [
        "confidence"
    ]


def test_fused_asks_once_a_model():
    metrics = {name: {"model": f"openai/{'ab'[place % 2]}"} for place, name in enumerate(STAGES)}
    with ScriptedServer(ObligingModel(**WRONG)) as server:
        evaluate(engine_for(server, "fused", metrics=metrics), recorded()[0])

    assert sorted(x["model"] for x in server.calls) == ["a", "b"]


@plans
def test_the_model_of_a_run_judges_every_metric(plan):
    with ScriptedServer(ObligingModel()) as server:
        found = evaluate(engine_for(server, plan), recorded()[0], Overrides(model="openai/other"))

    assert {x["model"] for x in server.calls} == {"other"}
    assert {x.evaluator.model for x in found.values()} == {"openai/other"}


@pytest.mark.slow
@plans
def test_a_threshold_changes_labels_and_neither_scores_nor_questions(plan):
    with ScriptedServer(ObligingModel()) as server:
        low, high = (
            evaluate(engine_for(server, plan), recorded()[0], Overrides(threshold=threshold))
            for threshold in (0.1, 1)
        )

    assert {name: x.outcome for name, x in low.items()} == {
        name: x.outcome for name, x in high.items()
    }
    assert (low["confidence"].label, high["confidence"].label) == ("pass", "fail")
    half = len(server.calls) // 2
    assert sorted(map(str, server.calls[:half])) == sorted(map(str, server.calls[half:]))


@plans
@pytest.mark.parametrize("announced", [[], ["look it up"]], ids=["nothing", "one step"])
def test_without_a_plan_of_two_steps_what_judges_plans_does_not_apply(plan, announced):
    with ScriptedServer(ObligingModel(plan=announced)) as server:
        found = evaluate(
            engine_for(server, plan, metrics={"plan_adherence": {}, "plan_quality": {}}),
            recorded()[0],
        )

    assert {x.outcome.cause for x in found.values()} == {"not_applicable"}


@plans
def test_the_score_of_arguments_is_the_share_of_right_calls(plan):
    said = [
        {"reason": "given by the user", "verdict": "yes"},
        {"reason": "made up", "verdict": "no"},
    ]

    def verdicts(request):
        return [{"call": call, **x} for call, x in zip(listed_calls(request), said, strict=False)]

    with ScriptedServer(ObligingModel(verdicts=verdicts)) as server:
        found = evaluate(
            engine_for(server, plan, metrics={"argument_correctness": {}}), recorded()[0]
        )

    score = found["argument_correctness"].outcome
    assert (score.value, [x["verdict"] for x in score.metadata["verdicts"]]) == (0.5, ["yes", "no"])


@plans
def test_a_verdict_names_its_call_as_the_transcript_does(plan):
    with ScriptedServer(ObligingModel()) as server:
        found = evaluate(
            engine_for(server, plan, metrics={"argument_correctness": {}}), recorded()[0]
        )

    transcript = question_of(server.calls[0]).partition("</untrusted-data")[0]
    named = [f"\n{x['call']}. the tool {x['tool']} " in transcript for x in verdicts_of(found)]
    assert named == [True, True]


def verdicts_of(found):
    return found["argument_correctness"].outcome.metadata["verdicts"]
