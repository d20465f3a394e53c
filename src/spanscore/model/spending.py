"""What servers that share a budget have spent of it."""

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Spending(NamedTuple):
    """What a tenant has spent in a window.

    `open_tokens` and `open_usd` are the part of it that is reserved for calls under way.
    """

    tokens: int = 0
    usd: float = 0.0
    open_tokens: int = 0
    open_usd: float = 0.0


class Standing(NamedTuple):
    """What other servers have spent in a window, by tenant, and who spent in the one before."""

    window: int
    others: Mapping[str, Spending]
    before: Collection[str]
