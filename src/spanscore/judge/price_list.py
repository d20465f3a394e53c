"""What litellm's package says of models in its data files, read without importing litellm, which
takes seconds.

Only what is plain there is used; for anything else litellm itself has to be asked.
"""

import functools
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spanscore.model.json import loads

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
        entry = prices.get(model.removeprefix(f"{owner}/"))
        entry = entry if entry is not None and entry.get("litellm_provider") == owner else None
    if entry is None or entry.get("mode") not in _CHAT or _has_tiers(entry, input_tokens):
        return None
    of_input, of_output = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not isinstance(of_input, int | float) or not isinstance(of_output, int | float):
        return None
    return max(float(input_tokens * of_input + output_tokens * of_output), 0.0)


def _has_tiers(entry: Mapping[str, Any], input_tokens: int) -> bool:
    tiered = any("_above_" in name for name in entry) or "tiered_pricing" in entry
    return tiered and (input_tokens >= _TIERS_FROM_TOKENS or "tiered_pricing" in entry)


@functools.cache
def _providers() -> frozenset[str]:
    """The prefixes of models that can chat: of the providers that litellm documents, those with
    prices.
    """
    known = _read(_PROVIDERS).get("providers")
    documented = set(known) if isinstance(known, Mapping) else set()
    priced = {str(x.get("litellm_provider")) for x in _prices().values() if x.get("mode") in _CHAT}
    return frozenset(documented & priced)


@functools.cache
def _prices() -> Mapping[str, Mapping[str, Any]]:
    return {name: entry for name, entry in _read(_PRICES).items() if isinstance(entry, Mapping)}


def _read(name: str) -> Mapping[str, Any]:
    """A data file of the installed litellm; empty where it has none, or another than was
    expected.
    """
    spec = importlib.util.find_spec("litellm")
    try:
        found = (
            loads((Path((spec.submodule_search_locations or [""])[0]) / name).read_text())
            if spec
            else {}
        )
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
