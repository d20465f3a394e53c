"""What asking a model amounts to is counted: calls by outcome, tokens, cost, time, retries, and
what was kept.
"""

import asyncio

import pytest
from judge_harness import GOOD, PROMPT, WRONG, Verdict, World, config_for
from scripted_server import ScriptedServer, answer, refusal

from spanscore.errors import BudgetExhaustedError, JudgeError
from spanscore.judge import ModelJudge
from spanscore.judge.cache import MemoryCache
from spanscore.judge.litellm import LiteLLM
from spanscore.telemetry import Meter, declared

PRICES = {
    "openai/scripted": {
        "input_usd_per_million_tokens": 10_000.0,
        "output_usd_per_million_tokens": 50_000.0,
    }
}
MODEL = "openai/scripted"


def asked(server, *, times=1, **settings):
    """The metrics after a judge was asked the same so many times."""
    config, meter = config_for(server, **settings), Meter()
    judge = ModelJudge(config, LiteLLM(config), MemoryCache(10), World().timing(), meter)

    async def ask():
        for _ in range(times):
            try:
                await judge.ask(PROMPT, Verdict)
            except JudgeError as error:
                assert times == 1 or isinstance(error, BudgetExhaustedError)  # noqa: PT017 # either may come

    asyncio.run(ask())
    return {x.metric: x.values for x in meter.collect()}


@pytest.fixture
def scripted():
    """Call it with a script to get a server, which is stopped at the end."""
    servers = []

    def make(*script):
        servers.append(ScriptedServer(*script).__enter__())
        return servers[-1]

    yield make
    for server in servers:
        server.__exit__(None, None, None)


def test_an_answer_is_a_call_with_its_tokens_and_cost(scripted):
    found = asked(scripted(answer(GOOD)), prices=PRICES)
    assert found[declared.JUDGE_CALLS] == {(MODEL, "ok"): 1}
    assert found[declared.JUDGE_TOKENS] == {(MODEL, "input"): 100, (MODEL, "output"): 20}
    assert found[declared.JUDGE_COST] == {(MODEL,): 2.0}


def test_a_call_without_a_price_is_counted_as_such(scripted):
    found = asked(scripted(answer(GOOD)))
    assert (found[declared.JUDGE_UNPRICED_CALLS], found[declared.JUDGE_COST]) == ({(MODEL,): 1}, {})


def test_each_call_has_its_time(scripted):
    (measured,) = asked(scripted(answer(GOOD)))[declared.JUDGE_CALL_DURATION].values()
    assert (sum(measured.counts), measured.total > 0) == (1, True)


def test_a_retry_is_a_call_of_its_own(scripted):
    found = asked(scripted(refusal(429), refusal(503), answer(GOOD)))
    assert found[declared.JUDGE_CALLS] == {
        (MODEL, "rate_limited"): 1,
        (MODEL, "unavailable"): 1,
        (MODEL, "ok"): 1,
    }
    assert found[declared.JUDGE_RETRIES] == {(MODEL,): 2}


def test_what_is_refused_is_not_tried_again(scripted):
    found = asked(scripted(refusal(400)))
    assert (found[declared.JUDGE_CALLS], found[declared.JUDGE_RETRIES]) == (
        {(MODEL, "refused"): 1},
        {},
    )


def test_a_repair_is_counted(scripted):
    assert asked(scripted(answer(WRONG), answer(GOOD)))[declared.JUDGE_REPAIRS] == {(MODEL,): 1}


def test_what_was_kept_is_a_hit(scripted):
    found = asked(scripted(answer(GOOD)), times=3)
    assert (found[declared.JUDGE_CACHE_MISSES], found[declared.JUDGE_CACHE_HITS]) == (
        {(MODEL,): 1},
        {(MODEL,): 2},
    )


def test_what_is_left_of_the_budget_is_told(scripted):
    found = asked(scripted(answer(GOOD)), budget={"max_tokens": 10_000})
    assert found[declared.JUDGE_BUDGET_LIMIT] == {("tokens",): 10_000}
    assert found[declared.JUDGE_BUDGET_LEFT] == {("tokens",): 10_000 - 120}


def test_without_a_budget_there_is_nothing_to_tell(scripted):
    assert asked(scripted(answer(GOOD)))[declared.JUDGE_BUDGET_LEFT] == {}
