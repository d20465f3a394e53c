"""Several samples of each judgement: the score is their mean, and its metadata have their
spread.
"""

import asyncio
import itertools

import pytest
from judged_harness import STAGES, engine_for, evaluate, recorded, spent
from obliging_model import ObligingModel
from pydantic import ValidationError
from scripted_server import ScriptedServer, answer, refusal

from spanscore.judge.cache import MemoryCache
from spanscore.judge.config import Config

ALONE = {"confidence": {}}


def in_turn(*scores):
    """A model whose judgements have these scores, one after the other, the last for ever."""
    left = itertools.chain(scores, itertools.repeat(scores[-1]))
    return ObligingModel(score=lambda _: next(left))


def judged(*scores, metrics=ALONE, **judge):
    with ScriptedServer(in_turn(*scores)) as server:
        found = evaluate(engine_for(server, "fused", metrics=metrics, **judge), recorded()[0])
        return found, server


def test_the_score_is_the_mean_of_the_samples():
    found, server = judged(0.4, 0.6, 0.8, samples=3)

    assert (found["confidence"].value, len(server.calls)) == (0.6, 3)


def test_the_spread_of_the_samples_is_on_the_score():
    spread = judged(0.4, 0.6, 0.8, samples=3)[0]["confidence"].outcome.metadata["samples"]

    assert (sorted(spread["values"]), spread["standard_deviation"], spread["without_score"]) == (
        [0.4, 0.6, 0.8],
        0.2,
        0,
    )
    assert spread["interval"][0] < 0.6 < spread["interval"][1]


def test_a_score_of_which_two_models_gave_samples_names_both():
    model = ObligingModel(score=0.5)
    # the first model declines after one sample
    answered = itertools.chain([True], itertools.repeat(False))

    def responding(request):
        declines = request["model"] == "scripted" and not next(answered)
        return refusal(404) if declines else model(request)

    with ScriptedServer(responding) as server:
        engine = engine_for(
            server, "fused", metrics=ALONE, samples=2, fallback_models=["openai/second"]
        )
        found = evaluate(engine, recorded()[0])
    assert set(found["confidence"].evaluator.model.split(", ")) == {
        "openai/scripted",
        "openai/second",
    }


def test_the_label_is_of_the_mean():
    found, _ = judged(0.4, 0.45, 0.9, samples=3)

    assert found["confidence"].label == "pass"


def test_samples_are_asked_at_a_temperature_at_which_they_differ():
    _, server = judged(0.8, samples=2)

    assert {call["temperature"] for call in server.calls} == {0.7}


def test_one_sample_is_asked_at_temperature_0():
    found, server = judged(0.8)

    assert [call["temperature"] for call in server.calls] == [0.0]
    assert "samples" not in found["confidence"].outcome.metadata


def test_samples_at_temperature_0_are_refused():
    with pytest.raises(ValidationError, match="set one above 0"):
        Config(model="openai/x", samples=3, temperature=0)


@pytest.mark.slow
def test_what_all_samples_cost_is_on_the_scores():
    found, server = judged(0.8, metrics=dict.fromkeys(STAGES), samples=3)

    assert (spent(found).calls, len(server.calls)) == (len(server.calls), 3)


def test_samples_come_from_the_cache_when_they_are_asked_for_again():
    cache = MemoryCache(100)
    with ScriptedServer(in_turn(0.4, 0.6)) as server:
        one, other = (
            evaluate(engine_for(server, metrics=ALONE, cache=cache, samples=2), recorded()[0])
            for _ in range(2)
        )

    assert one["confidence"].outcome.metadata["samples"]["standard_deviation"] > 0
    assert (one["confidence"].value, len(server.calls)) == (other["confidence"].value, 2)


def test_a_sample_without_a_score_is_left_out_and_counted():
    model, left = in_turn(0.4, 0.6), itertools.chain("no", itertools.repeat(""))
    with ScriptedServer(lambda request: answer("no") if next(left) else model(request)) as server:
        found = evaluate(
            engine_for(server, metrics=ALONE, samples=3, max_concurrent=1), recorded()[0]
        )

    assert found["confidence"].value == 0.5
    assert found["confidence"].outcome.metadata["samples"]["without_score"] == 1


def test_samples_that_mostly_fail_are_a_failure():
    with ScriptedServer(answer("no")) as server:
        found = evaluate(engine_for(server, metrics=ALONE, samples=3), recorded()[0])

    assert found["confidence"].outcome.type == "JudgeAnswerError"


def test_a_budget_counts_all_samples():
    found, server = judged(0.8, samples=3, budget={"max_tokens": 100})

    assert (found["confidence"].status, server.calls) == ("skipped", [])


def test_a_dry_run_plans_all_samples():
    with ScriptedServer(ObligingModel()) as server:
        planned = engine_for(server, "fused", samples=3).plan(recorded()[0])

    assert len(planned) == 3


def test_each_sample_of_the_judge_is_another_question_to_the_cache():
    cache = MemoryCache(100)
    with ScriptedServer(ObligingModel()) as server:
        engine = engine_for(server, metrics=ALONE, cache=cache, samples=2)
        asyncio.run(engine.evaluate_trace(recorded()[0]))

    assert len(server.calls) == 2
