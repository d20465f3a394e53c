"""Do the judge and the embedding answer, and what does a question cost."""

import time
from collections.abc import AsyncIterator

from pydantic import BaseModel

from spanscore.cli.checks.finding import Finding, fail, ok, told, warn
from spanscore.config import Settings
from spanscore.embed import open_embedder
from spanscore.errors import SpanscoreError
from spanscore.judge import open_judge, redactor
from spanscore.judge.config import CacheConfig
from spanscore.judge.port import Judge, Prompt
from spanscore.model.score import JudgeUsage

_QUESTION = Prompt("You check that you can be reached.", "1 + 1 = 2", "Is the sum above right?")


class _Verdict(BaseModel):
    """The answer that is asked for."""

    right: bool


async def check(settings: Settings, *, ask: bool) -> AsyncIterator[Finding]:
    """Each model of the judge, then the embedding; without `ask` no provider is asked."""
    judge = _impatient(settings)
    if judge is None:
        yield ok("judge", "the built-in rules: no model is asked; set judge.model for one")
    for model in settings.judge.models:
        if judge is not None:
            yield await _judge(judge, model) if ask else ok("judge", f"{model}: not asked (--no-judge)")
    yield await _embedding(settings, ask=ask)


def _impatient(settings: Settings) -> Judge | None:
    """The judge as configured, but that it is really asked, and at most twice."""
    spare = {"cache": CacheConfig(enabled=False), "max_retries": min(settings.judge.max_retries, 1)}
    return open_judge(settings.judge.model_copy(update=spare))


async def _judge(judge: Judge, model: str) -> Finding:
    started_s = time.monotonic()
    try:
        answer = await judge.ask(_QUESTION, _Verdict, models=(model,))
    except SpanscoreError as error:
        fix = "see judge.model, judge.api_base and judge.api_key, or the provider's environment variable"
        return fail("judge", told(error), fix)
    took = f"{model} answered in {time.monotonic() - started_s:.1f} s, {_cost(answer.usage)}"
    if answer.usage.cost_usd is None:
        return warn("judge", took, f"tell its price under judge.prices.{model}, so that judge.budget.max_usd can hold")
    return ok("judge", took)


def _cost(usage: JudgeUsage) -> str:
    tokens = f"{usage.input_tokens} + {usage.output_tokens} tokens"
    return f"{tokens}, price not known" if usage.cost_usd is None else f"{tokens}, {usage.cost_usd:.6f} USD"


async def _embedding(settings: Settings, *, ask: bool) -> Finding:
    config = settings.embedding
    if config.chosen == "litellm" and not ask:
        return ok("embedding", f"{config.model}: not asked (--no-judge)")
    started_s = time.monotonic()
    try:
        embedder = open_embedder(config, redact=redactor(settings.judge))
        vectors = await embedder.embed(["Does the embedding answer?"])
    except SpanscoreError as error:
        return fail("embedding", told(error), "see embedding.provider, embedding.model and embedding.api_key")
    took_s = time.monotonic() - started_s
    return ok("embedding", f"{embedder.name}: {vectors.shape[1]} dimensions in {took_s:.1f} s")
