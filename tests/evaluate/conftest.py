from collections.abc import Callable

import numpy as np
import pytest

from spanscore.evaluate import Config, Engine
from spanscore.judge.port import Answer
from spanscore.model.score import JudgeUsage
from spanscore.model.trace import AgentTrace, Target, Tool, ToolCall

Make = Callable[..., AgentTrace]

WEATHER = Tool(
    "get_weather",
    "The weather of a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
        "required": ["city"],
    },
)


@pytest.fixture
def make_trace() -> Make:
    """A whole turn that asked for Rome's weather and got it; any field can be given another value."""

    def make(number: int = 1, **fields) -> AgentTrace:
        trace_id = f"{number:032x}"
        given = {
            "trace_ids": (trace_id,),
            "root_span_id": "a" * 16,
            "target": Target(trace_id, "a" * 16, 0, 1),
            "opening_span_id": "a" * 16,
            "started_ns": 0,
            "ended_ns": 1,
            "user_input": "What is the weather in Rome?",
            "final_output": "The weather in Rome is sunny at 31 degrees.",
            "available_tools": (WEATHER,),
            "tool_calls": (ToolCall("c1", "get_weather", {"city": "Rome"}, "sunny, 31 degrees"),),
        }
        return AgentTrace(**{**given, **fields})

    return make


VERDICT = {"verdict": "yes", "reason": "taken from the input"}
ANSWERS = {
    "task": "To know the weather in Rome.",
    "outcome": "The agent asked a tool and reported its result.",
    "plan": ["look up the weather", "report it"],
    "verdicts": [VERDICT],
    "score": 0.8,
    "reason": "because",
}


class ScriptedJudge:
    """Answers every question from `answers`, by field name, and keeps what it was asked.

    `errors` are raised, in order, by the first calls instead; `say` maps a call's number, from 1, to other answers.
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
        fields = {name: given.get(name, {"score": given["score"], "reason": "because"}) for name in schema.model_fields}
        value = schema.model_validate(fields)
        return Answer(value, models[0] if models else "scripted", JudgeUsage(1, 1001, 11, 0.01))


class FlatEmbedder:
    """Embeds every text alike, or raises `error`."""

    name = "flat-1"

    def __init__(self, error=None):
        self.error = error

    async def embed(self, texts):
        if self.error:
            raise self.error
        return np.ones((len(texts), 1), dtype=np.float32)


@pytest.fixture
def scripted():
    return ScriptedJudge


@pytest.fixture
def make_engine():
    """An engine over the scripted judge (None: the rules), a flat embedding and a clock that stands at 42."""

    def make(judge=None, plan="staged", *, embedder=None, **config) -> Engine:
        return Engine(Config(**config), judge, embedder or FlatEmbedder(), judge_plan=plan, clock_ns=lambda: 42)

    return make


@pytest.fixture
def flat_embedder():
    return FlatEmbedder
