"""A judge that is slow, refuses, is gone or talks nonsense: what becomes of the scores."""

import itertools
import json
from dataclasses import replace

import pytest
from judge_harness import World
from judged_harness import PRICES, STAGES, STAGEWISE, engine_for, evaluate, recorded, spent
from obliging_model import ObligingModel, asked_for, listed_calls, question_of
from scripted_server import HANGING, ScriptedServer, answer, refusal

NOWHERE = "http://127.0.0.1:9/v1"
WRONG = answer(
    {"score": 7, "reason": "too much", "task": 1, "plan": "none", "outcome": [], "verdicts": {}}
)
plans = pytest.mark.parametrize("plan", ["staged", "fused"])


def in_turn(*replies):
    """A script for the requests that a test picks: each reply once, the last for ever; and how
    often it was asked.
    """
    left = itertools.chain(replies, itertools.repeat(replies[-1]))
    return lambda request: (reply := next(left)) and (reply(request) if callable(reply) else reply)


def told(found):
    return {(x.status, x.outcome.type) for x in found.values()}


@pytest.mark.slow
@plans
def test_a_429_is_waited_out_as_long_as_it_says(plan):
    world = World()
    with ScriptedServer(refusal(429, retry_after="7"), ObligingModel()) as server:
        found = evaluate(engine_for(server, plan, world=world), recorded()[0])

    assert world.sleeps[0] == 7.0
    assert {x.status for x in found.values()} == {"scored"}


@plans
def test_a_model_that_never_answers_is_a_failure_and_no_score(plan):
    with ScriptedServer(HANGING) as server:
        found = evaluate(engine_for(server, plan, timeout="50ms", max_retries=0), recorded()[0])

    assert told(found) == {("failed", "JudgeTimeoutError")}


@plans
def test_a_failure_is_written_down_with_its_error_and_without_a_value(plan):
    with ScriptedServer(HANGING) as server:
        engine = engine_for(server, plan, metrics={"confidence": {}}, timeout="50ms", max_retries=0)
        line = evaluate(engine, recorded()[0])["confidence"].to_json()

    assert {key: line[key] for key in ("status", "value", "label", "metadata", "error")} == {
        "status": "failed",
        "value": None,
        "label": None,
        "metadata": {},
        "error": {
            "type": "JudgeTimeoutError",
            "message": "openai/scripted: no answer within 0.05 s (calls made: 1)",
        },
    }


@pytest.mark.slow
@plans
def test_a_server_that_is_gone_is_a_failure(plan):
    assert told(evaluate(engine_for(NOWHERE, plan, max_retries=1), recorded()[0])) == {
        ("failed", "JudgeUnavailableError")
    }


@pytest.mark.slow
@plans
@pytest.mark.parametrize("text", ['{"score": 0.', "", "I would rather not.", '"yes"'])
def test_broken_json_is_repaired_once(plan, text):
    with ScriptedServer(answer(text), ObligingModel()) as server:
        found = evaluate(engine_for(server, plan), recorded()[0])

    assert {x.status for x in found.values()} == {"scored"}
    assert [len(call["messages"]) for call in server.calls].count(4) == 1


@plans
def test_an_answer_that_breaks_the_schema_twice_is_a_failure(plan):
    with ScriptedServer(WRONG) as server:
        found = evaluate(engine_for(server, plan), recorded()[0])

    assert told(found) == {("failed", "JudgeAnswerError")}


@plans
def test_an_answer_that_breaks_the_schema_twice_is_paid_for(plan):
    with ScriptedServer(WRONG) as server:
        found = evaluate(engine_for(server, plan), recorded()[0])

    assert (spent(found).calls, spent(found).input_tokens) == (
        len(server.calls),
        100 * len(server.calls),
    )


def test_staged_a_metric_whose_answer_is_invalid_fails_alone():
    model = ObligingModel()

    def reply(request):
        return (
            WRONG if "How sure of its way was the agent" in question_of(request) else model(request)
        )

    with ScriptedServer(reply) as server:
        found = evaluate(engine_for(server), recorded()[0])

    assert [name for name, x in found.items() if x.status == "failed"] == ["confidence"]


def test_fused_a_failing_second_call_leaves_the_scores_of_the_first():
    model = ObligingModel()
    with ScriptedServer(
        lambda request: model(request) if "task" in asked_for(request) else refusal(400)
    ) as server:
        found = evaluate(engine_for(server, "fused", **STAGEWISE), recorded()[0])

    assert {name for name, x in found.items() if x.status == "scored"} == {
        "tool_correctness",
        "argument_correctness",
        "confidence",
    }


def breaking_off(reply, after):
    """The same completion, at the limit of its length somewhere behind a text."""
    completion = json.loads(reply.body)
    choice = completion["choices"][0]
    before, found, _ = choice["message"]["content"].partition(after)
    choice["message"]["content"] = before + found
    choice["finish_reason"] = "length"
    return replace(reply, body=json.dumps(completion))


def test_a_plan_that_breaks_off_is_asked_for_again():
    model = ObligingModel(plan=["look it up", "report it"])
    script = in_turn(lambda request: breaking_off(model(request), '"plan": ["look it up", '), model)
    with ScriptedServer(script) as server:
        found = evaluate(engine_for(server, "fused"), recorded()[0])

    assert found["plan_quality"].outcome.metadata["plan"] == ["look it up", "report it"]
    assert "plan" in asked_for(server.calls[1])


def verdict(call):
    return {"call": call, "reason": "given", "verdict": "yes"}


@plans
def test_only_the_calls_without_a_verdict_are_asked_about_once_more(plan):
    verdicts = in_turn(
        lambda request: [verdict(listed_calls(request)[0])],
        lambda r: list(map(verdict, listed_calls(r))),
    )
    with ScriptedServer(ObligingModel(verdicts=verdicts)) as server:
        found = evaluate(engine_for(server, plan), recorded()[0])

    assert found["argument_correctness"].value == 1.0
    assert [len(listed_calls(call)) for call in server.calls if listed_calls(call)] == [2, 1]


@plans
def test_a_verdict_on_a_call_that_was_not_listed_is_left_out(plan):
    def verdicts(request):
        return [verdict(call) for call in [*listed_calls(request), 4711]]

    with ScriptedServer(ObligingModel(verdicts=verdicts)) as server:
        found = evaluate(engine_for(server, plan), recorded()[0])

    assert len(found["argument_correctness"].outcome.metadata["verdicts"]) == 2


@pytest.mark.slow
@plans
def test_two_verdicts_on_one_call_are_asked_for_once_more(plan):
    verdicts = in_turn(
        lambda request: [verdict(call) for call in listed_calls(request) * 2],
        lambda request: [verdict(call) for call in listed_calls(request)],
    )
    with ScriptedServer(ObligingModel(verdicts=verdicts)) as server:
        found = evaluate(engine_for(server, plan), recorded()[0])

    assert found["argument_correctness"].value == 1.0
    assert sum(bool(listed_calls(call)) for call in server.calls) == 2


@plans
def test_a_verdict_that_is_invalid_is_asked_for_once_more_and_the_others_stay(plan):
    def first(request):
        one, *rest = map(verdict, listed_calls(request))
        return [{**one, "verdict": True}, *rest]

    verdicts = in_turn(first, lambda request: list(map(verdict, listed_calls(request))))
    with ScriptedServer(ObligingModel(verdicts=verdicts)) as server:
        found = evaluate(engine_for(server, plan), recorded()[0])

    assert found["argument_correctness"].value == 1.0
    assert [len(listed_calls(call)) for call in server.calls if listed_calls(call)] == [2, 1]


@plans
def test_missing_verdicts_twice_fail_that_metric_alone(plan):
    with ScriptedServer(ObligingModel(verdicts=[])) as server:
        found = evaluate(engine_for(server, plan), recorded()[0])

    assert [(name, x.outcome.type) for name, x in found.items() if x.status == "failed"] == [
        ("argument_correctness", "JudgeAnswerError")
    ]


def test_a_score_names_each_model_that_answered_one_of_its_questions():
    model = ObligingModel()
    # the first model declines after one question
    answered = itertools.chain([True], itertools.repeat(False))

    def responding(request):
        declines = request["model"] == "scripted" and not next(answered)
        return refusal(404) if declines else model(request)

    with ScriptedServer(responding) as server:
        metrics = {"task_completion": {}}
        engine = engine_for(server, "staged", metrics=metrics, fallback_models=["openai/second"])
        found = evaluate(engine, recorded()[0])
    assert found["task_completion"].evaluator.model == "openai/scripted, openai/second"


@pytest.mark.slow
@plans
def test_the_next_model_judges_where_the_first_refuses(plan):
    model = ObligingModel()
    with ScriptedServer(
        lambda request: refusal(404) if request["model"] == "scripted" else model(request)
    ) as server:
        found = evaluate(engine_for(server, plan, fallback_models=["openai/second"]), recorded()[0])

    assert {(x.status, x.evaluator.model) for x in found.values()} == {("scored", "openai/second")}
    assert spent(found).calls == len(server.calls)


@plans
def test_a_spent_budget_is_a_skip_and_asks_nobody(plan):
    with ScriptedServer(ObligingModel()) as server:
        found = evaluate(engine_for(server, plan, budget={"max_tokens": 100}), recorded()[0])

    assert ({x.status for x in found.values()}, server.calls) == ({"skipped"}, [])


def test_a_budget_that_runs_out_skips_what_is_left():
    budget = {"budget": {"max_tokens": 9000}, "max_concurrent": 1}
    with ScriptedServer(ObligingModel(input_tokens=1000)) as server:
        found = evaluate(engine_for(server, **budget), recorded()[0])

    assert {x.status for x in found.values()} == {"scored", "skipped"}
    assert sum(x.usage.calls for x in found.values()) == len(server.calls)


@plans
def test_a_provider_that_litellm_does_not_know_is_a_failure_that_says_so(plan):
    found = evaluate(engine_for(NOWHERE, plan, model="nosuch/model"), recorded()[0])

    assert {(x.usage.calls, x.reason.partition(";")[0]) for x in found.values()} == {
        (0, "nosuch/model: there is no such provider")
    }


def test_a_provider_may_be_named_apart_from_the_model():
    extra = {"custom_llm_provider": "openai"}
    with ScriptedServer(ObligingModel()) as server:
        found = evaluate(
            engine_for(server, model="scripted", extra=extra, metrics={"confidence": {}}),
            recorded()[0],
        )

    assert found["confidence"].value == 0.8


def test_an_answer_far_beyond_its_bound_is_none():
    with ScriptedServer(ObligingModel(reason="x" * 1_000_000)) as server:
        found = evaluate(engine_for(server, metrics={"confidence": {}}), recorded()[0])

    assert told(found) == {("failed", "JudgeAnswerError")}


def test_a_provider_that_counts_fewer_than_no_tokens_is_not_believed():
    with ScriptedServer(ObligingModel(input_tokens=-100, output_tokens=-20)) as server:
        usage = evaluate(
            engine_for(server, metrics={"confidence": {}}, prices=PRICES), recorded()[0]
        )["confidence"].usage

    assert min(usage.input_tokens, usage.output_tokens, usage.cost_usd) > 0


def test_a_missing_key_is_told_without_trying_again():
    world = World()
    found = evaluate(
        engine_for(NOWHERE, api_key=None, world=world, metrics={"confidence": {}}), recorded()[0]
    )

    assert (world.sleeps, "OPENAI_API_KEY" in found["confidence"].reason) == ([], True)


@plans
def test_a_turn_without_tool_calls_needs_no_judge_for_arguments(plan, make_trace):
    with ScriptedServer(ObligingModel()) as server:
        found = evaluate(
            engine_for(server, plan, metrics={"argument_correctness": {}}),
            make_trace(tool_calls=()),
        )

    assert (found["argument_correctness"].outcome.cause, server.calls) == ("not_applicable", [])


@plans
def test_what_was_not_recorded_is_skipped_and_asks_nobody(plan, make_trace):
    nothing = dict.fromkeys(("user_input", "final_output", "tool_calls"))
    with ScriptedServer(ObligingModel()) as server:
        found = evaluate(engine_for(server, plan), make_trace(**nothing))

    assert ({x.status for x in found.values()}, len(found), server.calls) == (
        {"skipped"},
        len(STAGES),
        [],
    )


def test_every_line_is_json():
    found = evaluate(engine_for(NOWHERE, max_retries=0), recorded()[0])

    assert all(json.loads(json.dumps(x.to_json()))["value"] is None for x in found.values())


BAD_FIELDS = {
    "task_completion": {"reason": "fine", "score": 7},
    "tool_correctness": {"reason": "fine", "score": True},
    "confidence": {"reason": "fine", "score": "0.8"},
    "plan_quality": {"score": 0.8},
    "step_efficiency": "well",
}


@pytest.mark.parametrize(("name", "bad"), BAD_FIELDS.items())
def test_fused_a_bad_part_is_asked_for_once_more_and_alone(name, bad):
    said = in_turn(bad, {"reason": "fine", "score": 0.4})
    with ScriptedServer(ObligingModel(verdict="no", **{name: said})) as server:
        found = evaluate(engine_for(server, "fused"), recorded()[0])

    assert ({x.status for x in found.values()}, len(server.calls)) == ({"scored"}, 2)
    assert found["plan_adherence"].value == 0.8


@pytest.mark.parametrize(("name", "bad"), BAD_FIELDS.items())
def test_fused_a_part_that_stays_bad_fails_its_metric_alone(name, bad):
    model, alone = (
        ObligingModel(**{name: bad}),
        answer(bad if isinstance(bad, dict) else {"x": bad}),
    )

    def reply(request):
        return alone if asked_for(request) == {"reason", "score"} else model(request)

    with ScriptedServer(reply) as server:
        found = evaluate(engine_for(server, "fused"), recorded()[0])

    assert [(x, found[x].outcome.type) for x in found if found[x].status != "scored"] == [
        (name, "JudgeAnswerError")
    ]


def test_fused_a_bad_extraction_fails_what_needs_it_alone():
    with ScriptedServer(ObligingModel(plan=lambda _: "none")) as server:
        found = evaluate(engine_for(server, "fused"), recorded()[0])

    assert {name for name, x in found.items() if x.status == "failed"} == {
        "plan_adherence",
        "plan_quality",
    }


def test_what_was_wrong_with_a_part_is_told_when_it_is_asked_for_again():
    said = in_turn({"reason": "fine", "score": 7}, {"reason": "fine", "score": 0.4})
    with ScriptedServer(ObligingModel(confidence=said)) as server:
        evaluate(engine_for(server, "fused"), recorded()[0])

    told = [
        question_of(call)
        for call in server.calls
        if "could not be used: confidence: score" in question_of(call)
    ]
    assert len(told) == 1


def test_parts_that_are_asked_for_again_are_paid_for():
    said = in_turn({"reason": "fine", "score": 7}, {"reason": "fine", "score": 0.4})
    with ScriptedServer(ObligingModel(confidence=said)) as server:
        found = evaluate(engine_for(server, "fused"), recorded()[0])

    assert (spent(found).calls, spent(found).input_tokens) == (
        len(server.calls),
        100 * len(server.calls),
    )
