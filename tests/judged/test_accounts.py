"""What judging cost, and what it costs the second time."""

import pytest
from judged_harness import PRICES, STAGES, engine_for, evaluate, recorded, spent
from obliging_model import ObligingModel
from scripted_server import ScriptedServer, answer

from spanscore.judge.cache import MemoryCache

plans = pytest.mark.parametrize("plan", ["staged", "fused"])


@pytest.mark.slow
@plans
def test_the_sum_over_the_scores_is_what_was_spent(plan):
    with ScriptedServer(
        answer("{broken"), ObligingModel(input_tokens=1001, output_tokens=11)
    ) as server:
        total = spent(evaluate(engine_for(server, plan, prices=PRICES), recorded()[0]))

    calls = len(server.calls)
    tokens_in, tokens_out = 1001 * (calls - 1) + 100, 11 * (calls - 1) + 20
    assert (total.calls, total.input_tokens, total.output_tokens) == (calls, tokens_in, tokens_out)
    assert total.cost_usd == pytest.approx((3 * tokens_in + 10 * tokens_out) / 1e6)


@pytest.mark.slow
@plans
def test_a_known_model_has_a_cost(plan):
    with ScriptedServer(ObligingModel()) as server:
        assert (
            spent(
                evaluate(engine_for(server, plan, model="openai/gpt-4o-mini"), recorded()[0])
            ).cost_usd
            > 0
        )


@plans
def test_the_second_evaluation_of_a_trace_asks_nobody(plan):
    cache = MemoryCache(100)
    with ScriptedServer(ObligingModel()) as server:
        first = evaluate(engine_for(server, plan, cache=cache), recorded()[0])
        asked = len(server.calls)
        second = evaluate(engine_for(server, plan, cache=cache), recorded()[0])

    assert len(server.calls) == asked
    assert (spent(second).calls, spent(second).cached) == (0, asked + spent(first).cached)
    assert {name: x.outcome for name, x in first.items()} == {
        name: x.outcome for name, x in second.items()
    }


@pytest.mark.slow
def test_staged_every_score_says_that_it_is_from_the_cache():
    cache = MemoryCache(100)
    with ScriptedServer(ObligingModel(verdict="no")) as server:
        for _ in range(2):
            found = evaluate(engine_for(server, cache=cache), recorded()[0])

    assert {name: x.usage.cached for name, x in found.items()} == STAGES


@pytest.mark.slow
@plans
def test_another_trace_is_asked_about_anew(plan):
    cache = MemoryCache(100)
    with ScriptedServer(ObligingModel()) as server:
        evaluate(engine_for(server, plan, cache=cache), recorded()[0])
        second = evaluate(engine_for(server, plan, cache=cache), recorded()[1])

    assert spent(second).calls > 0


@pytest.mark.slow
@plans
def test_scores_of_one_model_and_plan_have_the_same_prompt_hashes(plan):
    with ScriptedServer(ObligingModel()) as server:
        first, second = (evaluate(engine_for(server, plan), trace) for trace in recorded()[:2])

    assert {x.evaluator.kind for x in first.values()} == {"LLM"}
    assert [x.evaluator.prompt_hash for x in first.values()] == [
        x.evaluator.prompt_hash for x in second.values()
    ]
