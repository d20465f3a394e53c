import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from spanscore.evaluation import Config, Engine
from spanscore.judge.answer import read
from spanscore.judge.config import Config as JudgeConfig
from spanscore.judge.port import Answer
from spanscore.model.score import JudgeUsage

sys.path.insert(0, str(Path(__file__).parent))  # so that tests import what they share

VERDICT = {"verdict": "yes", "reason": "taken from the input"}
ANSWERS = {
    "task": "To know the weather in Rome.",
    "outcome": "The agent asked a tool and reported its result.",
    "plan": ["look up the weather", "report it"],
    "verdicts": [VERDICT],
    "argument_correctness": "because",
    "score": 0.8,
    "reason": "because",
}


class ScriptedJudge:
    """Answers every question from `answers`, by field name, and keeps what it was asked.

    `errors` are raised, in order, by the first calls instead; `say` maps a call's number, from 1,
    to other answers.
    """

    def __init__(self, answers=(), errors=(), say=()):
        self.answers = {**ANSWERS, **dict(answers)}
        self.errors = list(errors)
        self.say = dict(say)
        self.asked = []

    async def ask(self, prompt, schema, *, models=()):
        self.asked.append((prompt, schema, tuple(models)))
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        given = {**self.answers, **self.say.get(len(self.asked), {})}
        given["verdicts"] = numbered(prompt, given["verdicts"])
        fields = {
            name: given.get(name, {"score": given["score"], "reason": "because"})
            for name in schema.model_fields
        }
        value = read(json.dumps(fields), schema)
        return Answer(value, models[0] if models else "scripted", JudgeUsage(1, 1001, 11, 0.01))


def numbered(prompt, verdicts):
    """Verdicts with the numbers of the steps that a prompt lists; the last one for all that are
    left.
    """
    steps = [int(x) for x in re.findall(r"^step (\d+): ", prompt.question, re.MULTILINE)]
    return (
        [
            {"call": step, **verdicts[min(place, len(verdicts) - 1)]}
            for place, step in enumerate(steps)
        ]
        if verdicts
        else []
    )


class FlatEmbedder:
    """Embeds every text alike, or raises `error`."""

    name = "flat-1"

    def __init__(self, error=None):
        self.error = error

    async def embed(self, texts):
        if self.error:
            raise self.error
        return np.ones((len(texts), 1), dtype=np.float32)


def config_of(**settings):
    """A configuration in which only `metrics` run where they are given."""
    return Config(**{"default_metrics": "metrics" not in settings, **settings})


@pytest.fixture
def scripted():
    return ScriptedJudge


@pytest.fixture
def make_engine():
    """An engine over the scripted judge (None: the rules), a flat embedding and a clock that stands
    at 42.
    """

    def make(judge=None, plan="staged", *, embedder=None, judge_settings=None, **config) -> Engine:
        return Engine(
            config_of(**config),
            judge,
            embedder or FlatEmbedder(),
            judge_config=JudgeConfig(plan=plan, **judge_settings or {}),
            clock_ns=lambda: 42,
        )

    return make


@pytest.fixture
def make_unembedded():
    """An engine without an embedding."""

    def make(**config) -> Engine:
        return Engine(config_of(**config), None, None, clock_ns=lambda: 42)

    return make


@pytest.fixture
def flat_embedder():
    return FlatEmbedder
