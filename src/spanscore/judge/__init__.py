"""LLM judges behind one port."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pydantic import BaseModel

from spanscore.errors import ConfigError
from spanscore.judge.answer import schema_of, schema_text
from spanscore.judge.budget import SharedLimits
from spanscore.judge.cache import Cache, FileCache, MemoryCache, RecordedJudge, default_path
from spanscore.judge.config import CacheConfig, Config
from spanscore.judge.litellm import LiteLLM
from spanscore.judge.model_judge import ModelJudge, nobody_to_ask
from spanscore.judge.port import Answer, Judge, Prompt
from spanscore.judge.redaction import redact
from spanscore.judge.transcript import Renderer, estimate_tokens, render
from spanscore.lazy_imports import require_litellm
from spanscore.telemetry import Meter

__all__ = [
    "Answer",
    "Cache",
    "Config",
    "Estimate",
    "Judge",
    "ModelJudge",
    "Prompt",
    "answers_file",
    "check_models",
    "estimate",
    "open_for_trial",
    "open_judge",
    "redactor",
    "renderer",
]


_MODEL = "judge.model"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A call's size before it is made.

    `cost_usd` is its upper bound, None where the price is not known.
    """

    input_tokens: int
    max_output_tokens: int
    cost_usd: float | None


def open_judge(
    config: Config,
    cache: Cache | None = None,
    meter: Meter | None = None,
    beside: Judge | None = None,
    limits: SharedLimits | None = None,
) -> Judge | None:
    """The judge that `config` describes; None where it names no model.

    `cache` keeps answers beyond this process; without it they are kept in memory. `meter` counts
    calls. `beside` is a judge that was opened before, whose budget and queues this one's calls
    share. `limits` has budget and rates hold for all servers together. Nothing is imported or sent
    yet. Raises ConfigError where a model is to be asked and the extra `judge` is not installed.
    """
    if not config.models:
        return None
    if config.recorded_answers is not None:
        return RecordedJudge(config.recorded_answers)
    require_litellm(_MODEL, config.models[0])
    kept = (cache or MemoryCache(config.cache.max_entries)) if config.cache.enabled else None
    shared_with = beside if isinstance(beside, ModelJudge) else None
    return ModelJudge(config, LiteLLM(config), kept, meter=meter, beside=shared_with, limits=limits)


def answers_file(config: Config) -> Cache | None:
    """The file in which commands keep answers between runs; None where they are not to, or there is
    no place for it.
    """
    path = config.cache.path or default_path()
    if not config.cache.between_runs or path is None:
        return None
    return FileCache(path, config.cache.max_bytes)


def open_for_trial(config: Config) -> Judge:
    """The judge of a configuration with a model, but that it keeps no answers and tries again once
    at most.

    Raises ConfigError where the extra `judge` is not installed.
    """
    require_litellm(_MODEL, config.model or next(iter(config.cascade_models), "a model"))
    spare = {"cache": CacheConfig(enabled=False), "max_retries": min(config.max_retries, 1)}
    return ModelJudge(config.model_copy(update=spare), LiteLLM(config))


def check_models(config: Config, models: Iterable[str]) -> None:
    """Refuse a model that cannot be asked; sends nothing.

    Raises ConfigError where its name leads to no provider, or the extra `judge` is not installed.
    """
    if config.recorded_answers is not None:
        return
    provider = LiteLLM(config)
    for model in models:
        require_litellm(_MODEL, model)
        if not provider.finds_provider(model):
            raise ConfigError(nobody_to_ask(model))


def renderer(config: Config) -> Renderer:
    """`transcript.render` with the length, the redaction and the pictures that `config` asks
    for.
    """
    return functools.partial(
        render,
        max_tokens=config.max_transcript_tokens,
        rules=config.redact.rules,
        pictures=config.attachments,
    )


def redactor(config: Config) -> Callable[[str], str]:
    """A function that redacts one text as `config` asks for, for whatever else leaves the
    process.
    """
    rules = config.redact.rules
    return lambda text: redact(text, rules).text


def estimate(
    prompt: Prompt,
    schema: type[BaseModel],
    model: str,
    config: Config = Config(),  # noqa: B008 - frozen
) -> Estimate:
    """What asking `model` once would take, by the rule of `estimate_tokens` and litellm's price
    list; sends nothing.
    """
    texts = (
        prompt.instructions,
        prompt.transcript,
        prompt.question,
        schema_text(schema_of(schema)),
    )
    tokens = estimate_tokens("", len(prompt.pictures)) + sum(map(estimate_tokens, texts))
    cost = LiteLLM(config).known_cost_usd(model, tokens, config.max_output_tokens)
    return Estimate(tokens, config.max_output_tokens, cost)
