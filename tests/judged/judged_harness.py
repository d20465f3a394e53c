"""What these tests share: the recorded traces, and an engine whose judge is litellm before a scripted server."""

import asyncio
import gzip
from functools import cache
from pathlib import Path

from judge_harness import World, config_for
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.embed import Config as EmbedConfig
from spanscore.embed import open_embedder
from spanscore.evaluate import Config, Engine
from spanscore.judge import ModelJudge, renderer
from spanscore.judge.litellm import LiteLLM
from spanscore.otlp import decode
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


@cache
def recorded(case="pydantic_ai/openai"):
    """The agent traces of a golden recording."""
    body = gzip.decompress((GOLDEN / case / "traces.pb.gz").read_bytes())
    return rebuild_all(list(decode.spans(ExportTraceServiceRequest.FromString(body))), [])


def engine_for(server, plan="staged", *, metrics=STAGES, world=None, cache=None, **judge):
    """An engine that measures `metrics` (names, or options by name); `judge` are settings of the judge."""
    config = config_for(server, plan=plan, **judge)
    options = metrics if isinstance(metrics, dict) and metrics is not STAGES else dict.fromkeys(metrics)
    asking = ModelJudge(config, LiteLLM(config), cache, (world or World()).timing())
    return Engine(
        Config(metrics=options),
        asking,
        open_embedder(EmbedConfig()),
        judge_plan=plan,
        clock_ns=lambda: 42,
        render_transcript=renderer(config),
    )


def evaluate(engine, traces, overrides=None):
    """Every evaluation of `traces`, one trace after the other."""

    async def all_of_them():
        return [x for trace in traces for x in await engine.evaluate_trace(trace, overrides)]

    return asyncio.run(all_of_them())


def by_metric(engine, trace, overrides=None):
    """The evaluations of one trace by metric."""
    return {x.metric: x for x in evaluate(engine, [trace], overrides)}
