"""What the judge's tests share: a question, its answer's schema, a clock that sleeping moves, and a
judge to ask.
"""

import asyncio

from pydantic import BaseModel, Field

from spanscore.judge import ModelJudge, Prompt
from spanscore.judge.config import Config
from spanscore.judge.litellm import LiteLLM
from spanscore.judge.pace import Timing
from spanscore.model.trace import AgentTrace, Target

KEY = "test-key-0123456789abcdef"
PROMPT = Prompt("You judge.", "<transcript>", "How well?")
GOOD = {"score": 0.5, "reason": "half done"}
WRONG = {"score": 7, "reason": "too much"}


class Verdict(BaseModel):
    """What the tests ask for."""

    score: float = Field(ge=0, le=1)
    reason: str


class World:
    """Time as the judge sees it: sleeping takes none, moves the clock and is written down."""

    def __init__(self):
        self.now_ns = 1_700_000_000_000_000_000
        self.sleeps = []

    async def sleep(self, seconds):
        self.sleeps.append(seconds)
        self.now_ns += int(seconds * 1e9)
        await asyncio.sleep(0)

    def timing(self):
        return Timing(clock_ns=lambda: self.now_ns, sleep=self.sleep, chance=lambda: 1.0)


def config_for(server, **settings):
    """`server` is a ScriptedServer or an address."""
    base = server if isinstance(server, str) else server.url
    return Config.model_validate(
        {"model": "openai/scripted", "api_base": base, "api_key": KEY, **settings}
    )


def judge_for(server, *, world=None, cache=None, **settings):
    config = config_for(server, **settings)
    return ModelJudge(config, LiteLLM(config), cache, (world or World()).timing())


def ask(server, *, prompt=PROMPT, models=(), world=None, cache=None, **settings):
    """Ask a judge of its own, in an event loop of its own."""
    return asyncio.run(
        judge_for(server, world=world, cache=cache, **settings).ask(prompt, Verdict, models=models)
    )


def trace(**facts):
    target = Target("a" * 32, "b" * 16, 1, 2)
    given_facts = {
        "user_input": "Book a flight",
        "final_output": "Booked.",
        "tool_calls": (),
        "history": (),
        "started_ns": 1,
        "ended_ns": 2,
        **facts,
    }
    return AgentTrace(
        trace_ids=("a" * 32,),
        root_span_id="b" * 16,
        target=target,
        opening_span_id="b" * 16,
        **given_facts,
    )
