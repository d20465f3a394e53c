"""A configured limit holds for all calls of a model, whichever judge of the process makes them."""

import asyncio
from importlib.util import find_spec

import pytest
from judge_harness import PROMPT, Verdict
from limited_provider import in_seconds
from virtual_time import run, timing

from spanscore.judge.config import Config
from spanscore.judge.model_judge import ModelJudge
from spanscore.judge.port import Prompt
from spanscore.judge.provider import CallError, Completion
from spanscore.judge.queues import Queues
from spanscore.judge.transcript import estimate_tokens

MODEL = "openai/m"


class Answering:
    """A provider that answers every call after a second, and notes when it came; `errors` are for
    the first calls.
    """

    def __init__(self, errors=()):
        self.errors = list(errors)
        self.expected, self.all_there = 0, asyncio.Event()
        self.sent_s = []
        self.under_way = self.most_under_way = 0

    async def complete(self, _model, messages, *_):
        self.sent_s.append(asyncio.get_running_loop().time())
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(1)
        self.under_way -= 1
        if self.errors:
            raise self.errors.pop(0)
        tokens = sum(estimate_tokens(x.content) for x in messages)
        return Completion('{"score": 1, "reason": "done"}', tokens, 0, 0.0)

    async def knows(self, _model):
        """The last step before a call waits in its queue: all questions are here before the first
        is sent.
        """
        self.expected -= 1
        if self.expected == 0:
            self.all_there.set()
        await self.all_there.wait()
        return True

    async def takes_schema(self, _model):
        return True

    @property
    def seconds(self):
        """Between the first call and the last."""
        return self.sent_s[-1] - self.sent_s[0]


def asked(provider, count, *configs):
    """Have the judges of these configurations, each beside the first one, asked so many questions
    in turn.
    """

    provider.expected = count

    async def all_at_once():
        judges = []
        for config in configs:
            judges.append(
                ModelJudge(config, provider, timing=timing(), beside=judges[0] if judges else None)
            )
        questions = [
            Prompt(PROMPT.instructions, PROMPT.transcript, f"q{number:02}")
            for number in range(count)
        ]
        await asyncio.gather(
            *(judges[i % len(judges)].ask(x, Verdict) for i, x in enumerate(questions))
        )

    run(all_at_once())
    return provider


def test_requests_per_minute_bounds_the_calls_of_a_minute():
    provider = asked(Answering(), 21, Config(model=MODEL, requests_per_minute=30))

    assert provider.seconds == pytest.approx(20 * 60 / 30, rel=0.05)


def test_tokens_per_minute_bounds_the_tokens_of_a_minute():
    tokens = estimate_tokens(PROMPT.instructions) + estimate_tokens(f"{PROMPT.transcript}\n\nq00")
    provider = asked(Answering(), 21, Config(model=MODEL, tokens_per_minute=20))

    assert provider.seconds == pytest.approx(20 * tokens * 60 / 20, rel=0.05)


def limited(**changes):
    """A configuration with a limit of a call a second."""
    return Config.model_validate({"model": MODEL, "requests_per_minute": 60, **changes})


def test_judges_beside_each_other_keep_one_limit_of_a_model():
    provider = asked(Answering(), 20, limited(), limited(temperature=0.5))

    assert provider.seconds == pytest.approx(19, rel=0.05)


@pytest.mark.parametrize(
    "changes", [{"model": "openai/n"}, {"api_base": "http://localhost:1"}, {"api_key": "another"}]
)
def test_another_model_address_or_key_has_a_limit_of_its_own(changes):
    assert asked(Answering(), 20, limited(), limited(**changes)).seconds == pytest.approx(
        9, rel=0.05
    )


def test_one_key_is_one_limit():
    configs = [limited(api_key="one", temperature=x) for x in (0.0, 0.5)]

    assert asked(Answering(), 20, *configs).seconds == pytest.approx(19, rel=0.05)


def test_a_refusal_of_one_judges_call_delays_the_other_judge():
    refusal = CallError("slow down", status=429, headers=in_seconds(40))
    provider = asked(
        Answering([refusal]), 2, limited(requests_per_minute=30), limited(requests_per_minute=30)
    )

    assert all(x - provider.sent_s[0] >= 40 for x in provider.sent_s[1:])


def test_judges_beside_each_other_have_the_places_of_one():
    configs = [Config(model=model, max_concurrent=2) for model in ("openai/m", "openai/n")]

    assert asked(Answering(), 10, *configs).most_under_way == 2


@pytest.mark.skipif(
    find_spec("litellm") is None, reason="whose model it is stands in litellm's list"
)
@pytest.mark.parametrize(
    ("model", "is_one_queue"), [("anthropic/claude-x", True), ("openai/n", False)]
)
def test_the_configured_key_counts_for_models_of_its_own_provider_alone(model, is_one_queue):
    async def are_one():
        queues = Queues(limited(), timing())
        return queues.lane(model, limited(api_key="of-openai")) is queues.lane(
            model, limited(model=model)
        )

    assert run(are_one()) == is_one_queue
