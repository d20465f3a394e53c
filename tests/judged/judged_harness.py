"""What these tests share: the recorded traces, and an engine whose judge is litellm before a
scripted server.
"""

import asyncio
from functools import cache
from pathlib import Path

from judge_harness import World, config_for

from spanscore.embed import Config as EmbedConfig, open_embedder
from spanscore.evaluation import Config, Engine
from spanscore.judge import ModelJudge
from spanscore.judge.litellm import LiteLLM
from spanscore.model.score import JudgeUsage
from spanscore.model.trace import Session
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all

GOLDEN = Path(__file__).parents[1] / "golden"
STAGES = {
    "task_completion": 2,
    "tool_correctness": 1,
    "argument_correctness": 2,
    "step_efficiency": 2,
    "confidence": 1,
    "plan_adherence": 3,
    "plan_quality": 3,
}
"""The judged metrics, and how many stages each has."""

STAGEWISE = {"max_output_tokens": 2500}
"""Settings of a judge that cannot answer all that is asked of a trace in one call."""

PRICES = {
    "openai/scripted": {"input_usd_per_million_tokens": 3, "output_usd_per_million_tokens": 10}
}


@cache
def recorded(case="pydantic_ai/openai"):
    """The agent traces of a golden recording; of this one, the first shows a plan and the third
    failing calls.
    """
    telemetry = files.load(sorted((GOLDEN / case).glob("*.pb.gz")))
    return rebuild_all(telemetry.spans, telemetry.logs)


def engine_for(server, plan="staged", *, metrics=None, world=None, cache=None, **judge):
    """An engine that measures `metrics` (options by name; None: all judged ones); `judge` are
    settings of the judge.
    """
    config = config_for(server, plan=plan, **judge)
    asking = ModelJudge(config, LiteLLM(config), cache, (world or World()).timing())
    return Engine(
        Config(metrics=metrics or dict.fromkeys(STAGES), default_metrics=False),
        asking,
        open_embedder(EmbedConfig()),
        judge_config=config,
        clock_ns=lambda: 42,
    )


def evaluate(engine, trace, overrides=None):
    """The evaluations of one trace by metric."""
    return {x.metric: x for x in asyncio.run(engine.evaluate_trace(trace, overrides))}


def graded(server, *, rubric=None, traces=None, case=None, **judge):
    """The evaluations of the rubric, by criterion, of a recorded session of four turns."""
    config = config_for(server, **judge)
    asking = ModelJudge(config, LiteLLM(config), None, World().timing())
    engine = Engine(
        Config(default_metrics=False, rubric=rubric or {}),
        asking,
        open_embedder(EmbedConfig()),
        judge_config=config,
    )
    session = Session("s", tuple(traces or recorded()))
    found = asyncio.run(engine.evaluate_rubric(session, **case or {}))
    return {x.metric.removeprefix("rubric."): x for x in found}


def spent(found):
    """What the evaluations cost together."""
    return sum((x.usage for x in found.values()), JudgeUsage())
