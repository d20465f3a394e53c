"""A judge under pressure, through litellm's real client: rate limits and small budgets cost time,
and no score.
"""

import asyncio
import threading

import pytest
from judge_harness import GOOD, Verdict, World, judge_for
from scripted_server import ScriptedServer, answer, declined, refusal

from spanscore.errors import BudgetExhaustedError, JudgeError
from spanscore.judge import Prompt


class Opening:
    """A script that refuses its first calls with `headers`, and then takes all."""

    def __init__(self, refused, **headers):
        self.left, self.headers = refused, headers
        self._lock = threading.Lock()

    def __call__(self, _body):
        with self._lock:
            self.left -= 1
            return refusal(429, "slow down", **self.headers) if self.left >= 0 else answer(GOOD)


async def many(judge, count):
    prompts = [Prompt("s", "t", f"question {number}") for number in range(count)]
    return await asyncio.gather(
        *(judge.ask(prompt, Verdict) for prompt in prompts), return_exceptions=True
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers",
    [{}, {"retry_after_ms": "63"}, {"retry_after": "1"}, {"x_ratelimit_remaining_requests": "0"}],
    ids=["nothing", "milliseconds", "a second", "what is left"],
)
def test_no_question_is_lost_to_a_rate_limit(headers):
    with ScriptedServer(Opening(30, **headers)) as server:
        outcomes = asyncio.run(many(judge_for(server, world=World(), max_retries=0), 60))

    assert ([x for x in outcomes if isinstance(x, BaseException)], len(server.calls)) == ([], 90)


def test_what_was_refused_is_on_the_usage():
    with ScriptedServer(refusal(429, retry_after_ms="1"), answer(GOOD)) as server:
        (given,) = asyncio.run(many(judge_for(server), 1))

    assert (given.usage.calls, given.usage.input_tokens) == (2, 100)


@pytest.mark.slow
def test_a_small_budget_is_spent_and_then_named():
    with ScriptedServer(answer(GOOD, input_tokens=100, output_tokens=20)) as server:
        outcomes = asyncio.run(many(judge_for(server, budget={"max_tokens": 6000}), 60))

    spent = sum(
        x.usage.input_tokens + x.usage.output_tokens
        for x in outcomes
        if not isinstance(x, BaseException)
    )
    skipped = [x for x in outcomes if isinstance(x, BaseException)]
    assert (5500 < spent <= 6000, {type(x) for x in skipped}) == (True, {BudgetExhaustedError})


def test_an_answer_that_the_budget_cut_short_is_no_fault_of_the_model():
    with ScriptedServer(declined(finish_reason="length", text="{")) as server:
        (error,) = asyncio.run(many(judge_for(server, budget={"max_tokens": 2000}), 1))

    assert (type(error), server.calls[0]["max_tokens"] < 4096) == (BudgetExhaustedError, True)


def test_what_is_left_of_a_budget_is_the_limit_of_the_last_answer():
    with ScriptedServer(answer(GOOD)) as server:
        (given,) = asyncio.run(many(judge_for(server, budget={"max_tokens": 2000}), 1))

    assert (given.value.score, len(server.calls), server.calls[0]["max_tokens"] < 2000) == (
        0.5,
        1,
        True,
    )


@pytest.mark.slow
def test_a_provider_that_wants_to_be_left_alone_for_an_hour_is_left_alone():
    with ScriptedServer(refusal(429, retry_after="3600")) as server:
        judge = judge_for(server)
        outcomes = asyncio.run(many(judge, 60))

    assert (all(isinstance(x, JudgeError) for x in outcomes), len(server.calls) < 60) == (
        True,
        True,
    )
