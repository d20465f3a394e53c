"""The port of model providers, with their prices."""

import functools
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from spanscore.model.json import loads
from spanscore.retry import retry_after_s

_PRICES = "model_prices_and_context_window_backup.json"
_PROVIDERS = "provider_endpoints_support_backup.json"
_CHAT = frozenset({"chat", "responses"})
_TIERS_FROM_TOKENS = 100_000
"""Where prices rise with a prompt's length, they do above some size, the least of which is 128,000
tokens.
"""


def provider(model: str) -> str | None:
    """Whose model it is, by its prefix or as it is listed; None where only litellm knows."""
    entry = _prices().get(model)
    if entry is not None:
        listed = str(entry.get("litellm_provider"))
        return listed if entry.get("mode") in _CHAT and listed in _providers() else None
    prefix, slash, _ = model.partition("/")
    return prefix if slash and prefix in _providers() else None


def cost_usd(model: str, input_tokens: int, output_tokens: int) -> float | None:
    """The price of a call, without what a provider's prompt cache may spare; None where only
    litellm can tell.
    """
    prices = _prices()
    owner = provider(model)
    entry = prices.get(model)
    if entry is None and owner is not None:
        entry = prices.get(model.removeprefix(f"{owner}/"), {})
        entry = entry if entry.get("litellm_provider") == owner else None
    if entry is None or entry.get("mode") not in _CHAT:
        return None
    tiered = any("_above_" in name for name in entry) and input_tokens >= _TIERS_FROM_TOKENS
    of_both: list[Any] = [entry.get(f"{x}_cost_per_token") for x in ("input", "output")]
    if tiered or "tiered_pricing" in entry or not all(isinstance(x, int | float) for x in of_both):
        return None
    return max(float(input_tokens * of_both[0] + output_tokens * of_both[1]), 0.0)


@functools.cache
def _providers() -> frozenset[str]:
    """The prefixes of models that can chat: of the providers that litellm documents, those with
    prices.
    """
    priced = {str(x.get("litellm_provider")) for x in _prices().values() if x.get("mode") in _CHAT}
    return frozenset(priced.intersection(_read(_PROVIDERS).get("providers") or ()))


@functools.cache
def _prices() -> Mapping[str, Mapping[str, Any]]:
    return {name: entry for name, entry in _read(_PRICES).items() if isinstance(entry, Mapping)}


def _read(name: str) -> Mapping[str, Any]:
    """A data file of the installed litellm; empty where it has none, or another than was
    expected.
    """
    spec = importlib.util.find_spec("litellm")
    if spec is None:
        return {}
    folder = Path((spec.submodule_search_locations or [""])[0])
    try:
        found = loads((folder / name).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat.

    `reused` is how many characters at its beginning the next calls begin with too: a provider's
    prompt cache that must be told keeps the prompt as far as there. 0: none is told of. `pictures`
    are addresses of pictures that follow the content.
    """

    role: Literal["system", "user", "assistant"]
    content: str
    reused: int = 0
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's raw answer. `cost_usd` is None where the price is not known.

    `finish_reason` is the provider's word for why the answer ended, such as `stop`, `length` or
    `content_filter`; `cut_off`: it reached the limit on its tokens. `refusal` is the reason that
    the model or a content filter gave for declining, without secrets; "" where nobody declined.
    `headers` are those of the response, in lower case.
    """

    text: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    cut_off: bool = False
    finish_reason: str = "stop"
    refusal: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class CallError(Exception):
    """A call got no completion. The message holds no secret.

    `status` is the HTTP status, None where there was none; `headers` are those of the response, in
    lower case. `hopeless` says that no retry helps although the status sounds like it (a spent
    quota). `context_exceeded`: the prompt is longer than the model's context window. `refused`: a
    content filter declined the prompt. `adapted`: the same call is now made without what it was
    refused for.
    """

    message: str
    _: KW_ONLY
    status: int | None = None
    timed_out: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    hopeless: bool = False
    context_exceeded: bool = False
    refused: bool = False
    adapted: bool = False

    def __str__(self) -> str:
        return self.message


class Provider(Protocol):
    """A way to reach models by name."""

    async def complete(
        self,
        model: str,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        timeout_s: float,
        max_output_tokens: int | None = None,
    ) -> Completion:
        """One call of `model`, never retried; `schema` is its `response_format`. Raises CallError.

        `max_output_tokens` None: as configured.
        """
        ...

    async def knows(self, model: str) -> bool:
        """Whether the model's name leads to anybody who could be called."""
        ...

    async def takes_schema(self, model: str) -> bool:
        """Whether `model` can be held to a JSON schema by its provider."""
        ...

    async def cost_usd(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """What a call of this size costs; None where the price is not known."""
        ...


_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_LEAST_EPOCH_S = 1e9
_LEAST_EPOCH_MS = 1e12
_NAMES = {
    "requests": (
        "x-ratelimit-{}-requests",  # OpenAI, Azure OpenAI, Groq and many that follow them
        "anthropic-ratelimit-requests-{}",
        "x-ratelimit-{}-req-minute",  # Mistral
        "ratelimit-{}",  # the IETF draft
        "x-ratelimit-{}",  # OpenRouter, gateways
    ),
    "tokens": (
        "x-ratelimit-{}-tokens",
        "anthropic-ratelimit-tokens-{}",
        "anthropic-ratelimit-input-tokens-{}",
        "x-ratelimit-{}-tokens-minute",
    ),
}


@dataclass(frozen=True, slots=True)
class Quota:
    """One limit: `limit` requests or tokens, of which `remaining` are left, all of them again in
    `reset_s` seconds.

    `reset_s` is None where no header states it.
    """

    limit: float
    remaining: float
    reset_s: float | None

    @property
    def refill_per_s(self) -> float | None:
        """How fast what was used comes back, where the limit is a bucket that fills; None where
        that is not stated.

        Where it is a window that ends in `reset_s`, this is at least the window's mean rate once it
        is used up.
        """
        used = self.limit - self.remaining
        return used / self.reset_s if self.reset_s and used > 0 else None


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What the headers of one response state; None where they state nothing.

    `retry_after_s`: when to come back, in seconds. `is_exact`: that is not rounded up to a whole
    second.
    """

    retry_after_s: float | None = None
    is_exact: bool = False
    requests: Quota | None = None
    tokens: Quota | None = None


NOTHING_STATED = RateLimits()


def read(headers: Mapping[str, str], now_ns: int) -> RateLimits:
    """The limits in `headers`, whose names are in lower case; `now_ns` turns dates into seconds.

    Never raises.

    >>> read({"retry-after-ms": "250", "retry-after": "1"}, 0).retry_after_s
    0.25
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    after = retry_after_s(headers.get("retry-after"), now_ns)
    seconds = _number(headers.get("retry-after"))  # a date is to the second
    is_exact = milliseconds is not None or (seconds is not None and seconds != int(seconds))
    return RateLimits(
        after if milliseconds is None else milliseconds / 1e3,
        is_exact,
        _quota(headers, "requests", now_ns),
        _quota(headers, "tokens", now_ns),
    )


def _quota(headers: Mapping[str, str], unit: str, now_ns: int) -> Quota | None:
    """The first of the unit's spellings that states what is left of what limit."""
    for name in _NAMES[unit]:
        limit = _number(headers.get(name.format("limit")))
        remaining = _number(headers.get(name.format("remaining")))
        if limit and remaining is not None:
            return Quota(
                limit, min(remaining, limit), reset_s(headers.get(name.format("reset")), now_ns)
            )
    return None


def reset_s(text: str | None, now_ns: int) -> float | None:
    """Seconds until a limit is reset: a number of them, `6m0s`, `120ms`, a time since 1970, or an
    RFC 3339 time.

    >>> reset_s("1m0.5s", 0), reset_s("120ms", 0), reset_s("1970-01-01T00:00:07Z", 0)
    (60.5, 0.12, 7.0)
    """
    if text is None:
        return None
    number, now_s = _number(text), now_ns / 1e9
    if number is not None:
        if number >= _LEAST_EPOCH_MS:
            return max(number / 1e3 - now_s, 0.0)
        return max(number - now_s, 0.0) if number >= _LEAST_EPOCH_S else number
    compact = text.strip().lower()
    if compact and not _PART.sub("", compact):
        return sum(float(x) * _UNIT_S[unit] for x, unit in _PART.findall(compact))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return max(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now_s, 0.0)


def _number(text: str | None) -> float | None:
    """A finite number that is not negative."""
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
