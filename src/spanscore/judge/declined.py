"""Why a provider gave no answer for good: a refusal, a content filter, or a prompt that does not
fit the model.
"""

import re
from collections.abc import Mapping
from typing import Any

_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|context window|prompt is too long|input is too"
    r" long"
    r"|exceeds? the (?:model's )?(?:maximum|available) (?:context|input|number of tokens)"
    # OpenAI's 429 for a request above the whole limit of tokens a minute
    r"|request too large for",
    re.IGNORECASE,
)
_FILTER_CODES = frozenset({"content_filter", "content_policy_violation"})
_FILTERED = frozenset(
    {"content_filter", "refusal", "safety", "recitation", "prohibited_content", "blocklist", "spii"}
)


def refusal_of(choice: Any) -> str:
    """The reason why a choice of a completion holds no answer: the model's own words, or what a
    filter found.

    "" where nobody declined. `choice` is of the form of OpenAI's chat completions; None: there was
    none.
    """
    message = getattr(choice, "message", None)
    own_words = _field(message, "refusal")
    if isinstance(own_words, str) and own_words.strip():
        return f"the model declined: {own_words.strip()}"
    finish = str(getattr(choice, "finish_reason", "") or "").lower()
    if finish not in _FILTERED:
        return ""
    found = _categories(_field(choice, "content_filter_results"))
    return (
        f"a content filter ended the answer (finish_reason {finish}{': ' + found if found else ''})"
    )


def is_filtered(error: Any) -> bool:
    """Whether a content filter refused the prompt, by the provider's error code."""
    return not _FILTER_CODES.isdisjoint(_codes(error))


def exceeds_context(error: Any) -> bool:
    """Whether the prompt exceeds what the model can read, by the provider's error code."""
    return "context_length_exceeded" in _codes(error)


def _codes(error: Any) -> list[str]:
    body = getattr(error, "body", None)
    codes = (getattr(error, "code", None), body.get("code") if isinstance(body, Mapping) else None)
    return [x for x in codes if isinstance(x, str)]


def is_too_long(message: str) -> bool:
    """Whether an error's message is that the prompt exceeds what the model, or the account, can
    take at once.

    >>> is_too_long("This model's maximum context length is 8192 tokens.")
    True
    """
    return _TOO_LONG.search(message) is not None


def _field(holder: Any, name: str) -> Any:
    """A field of a response, or of those in it that litellm keeps apart as the provider's own."""
    own = getattr(holder, "provider_specific_fields", None)
    return getattr(holder, name, None) or (own.get(name) if isinstance(own, Mapping) else None)


def _categories(results: Any) -> str:
    """What Azure's content filter found, such as `hate (high)`."""
    found = results.items() if isinstance(results, Mapping) else ()
    hits = [(name, x) for name, x in found if isinstance(x, Mapping) and x.get("filtered")]
    return ", ".join(
        f"{name} ({x['severity']})" if "severity" in x else str(name) for name, x in hits
    )
