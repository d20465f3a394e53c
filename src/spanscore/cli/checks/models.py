"""Do the judge and the embedding answer, and what does a question cost."""

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from spanscore.cli.checks.finding import Finding, cause_of, fail, ok, warn
from spanscore.config import Settings
from spanscore.embed import open_embedder
from spanscore.errors import ConfigError, SpanscoreError
from spanscore.judge import open_for_trial, redactor, trial
from spanscore.judge.cache import load as load_recorded
from spanscore.judge.config import Config
from spanscore.model.score import JudgeUsage

_RUNNING = "server's judge"


async def check(settings: Settings, *, ask: bool) -> AsyncIterator[Finding]:
    """Each model of the judge, then the embedding; without `ask` no provider is asked."""
    if not any(x.models for x in settings.judges):
        yield ok(
            "judge",
            "none: judged metrics are skipped; set judge.model or SPANSCORE_JUDGE_MODEL for one",
        )
    recorded = settings.judge.recorded_answers
    for model, judge in _models(settings).items() if recorded is None else ():
        yield await _judge(judge, model) if ask else ok("judge", f"{model}: not asked (--no-judge)")
    if recorded is not None:
        yield _recorded(recorded)
    yield await _embedding(settings, ask=ask)


def _models(settings: Settings) -> dict[str, Config]:
    """Each model that may be asked, by the judge or where a metric or the rubric names it, with the
    configuration of its judge.
    """
    found: dict[str, Config] = {}
    for variant, judge in zip(settings.evaluation.variants(), settings.judges, strict=True):
        named = chain.from_iterable(variant.models(()).values()) if judge.models else ()
        for model in (*judge.models, *judge.cascade_models, *named):
            found.setdefault(model, judge)
    return found


def _recorded(path: Path) -> Finding:
    try:
        recording = load_recorded(path)
    except ConfigError as error:
        return fail("judge", str(error), "correct judge.recorded_answers, or take it out")
    return ok(
        "judge", f"{len(recording.answers)} recorded answers of {recording.model}; nothing is sent"
    )


def of_server(state: Mapping[str, Any]) -> Iterator[Finding]:
    """What the running server says of its models, which it may ask with another key than this
    command has.
    """
    for model, found in state.get("judge", {}).items():
        if found["status"] == "fails":
            yield fail(
                _RUNNING,
                f"the server gets no answer: {found['reason']}",
                f"{found['fix']}; where the server runs",
            )
        elif found["status"] == "answers":
            yield ok(_RUNNING, f"{model} answers the server")


async def _judge(config: Config, model: str) -> Finding:
    started_s = time.monotonic()
    try:
        answer = await trial.ask(open_for_trial(config), model)
    except SpanscoreError as error:
        return fail("judge", cause_of(error), trial.advice(error))
    took = f"{model} answered in {time.monotonic() - started_s:.1f} s, {_cost(answer.usage)}"
    if answer.usage.cost_usd is None:
        return warn(
            "judge",
            took,
            f"tell its price under judge.prices.{model}, so that judge.budget.max_usd can hold",
        )
    return ok("judge", took)


def _cost(usage: JudgeUsage) -> str:
    tokens = f"{usage.input_tokens} + {usage.output_tokens} tokens"
    return (
        f"{tokens}, price not known"
        if usage.cost_usd is None
        else f"{tokens}, {usage.cost_usd:.6f} USD"
    )


async def _embedding(settings: Settings, *, ask: bool) -> Finding:
    config = settings.embedding
    if config.chosen == "litellm" and not ask:
        return ok("embedding", f"{config.model}: not asked (--no-judge)")
    started_s = time.monotonic()
    try:
        embedder = open_embedder(config, redact=redactor(settings.judge))
        if embedder is None:
            return ok(
                "embedding", "none is configured, so coherence is skipped: see embedding.model"
            )
        vectors = await embedder.embed(["Does the embedding answer?"])
    except SpanscoreError as error:
        return fail(
            "embedding",
            cause_of(error),
            "see embedding.provider, embedding.model and embedding.api_key",
        )
    took_s = time.monotonic() - started_s
    return ok("embedding", f"{embedder.name}: {vectors.shape[1]} dimensions in {took_s:.1f} s")
