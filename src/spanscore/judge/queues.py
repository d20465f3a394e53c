"""The queues in which the calls of one or several judges wait: one queue for each model, address
and key.
"""

import asyncio
from typing import NamedTuple

from pydantic import SecretStr

from spanscore.judge import price_list
from spanscore.judge.config import Config
from spanscore.judge.lanes import Lane
from spanscore.judge.pacing import Pace
from spanscore.judge.retries import Timing


class _Access(NamedTuple):
    """What a provider's limits are of.

    Address and key are None where litellm takes them from the environment.
    """

    model: str
    api_base: str | None = None
    api_key: SecretStr | None = None


class Queues:
    """A queue for each model, and places for all calls that are under way at once.

    Belongs to one event loop.
    """

    def __init__(self, config: Config, timing: Timing) -> None:
        """`config` contains the limits of calls; they hold for all judges that share these
        queues.
        """
        self._config = config
        self._timing = timing
        self._slots = asyncio.Semaphore(config.max_concurrent)
        self._lanes: dict[_Access, Lane] = {}

    def lane(self, model: str, config: Config) -> Lane:
        """The queue of a model for a judge with this configuration."""
        access = _access(model, config)
        if access not in self._lanes:
            self._lanes[access] = self._new_lane(model)
        return self._lanes[access]

    def _new_lane(self, model: str) -> Lane:
        limits = self._config
        pace = Pace(_per_s(limits.requests_per_minute), _per_s(limits.tokens_per_minute))
        patience_s = limits.backoff.max_elapsed_time / 1e9
        return Lane(model, self._slots, limits.max_concurrent, self._timing, patience_s, pace)


def _access(model: str, config: Config) -> _Access:
    """How a model is asked: with the configured address and key where it is of the configured
    model's provider.
    """
    is_configured = bool(config.api_base or config.api_key)
    if is_configured and _is_of_its_provider(model, config.model):
        return _Access(model, config.api_base, config.api_key)
    return _Access(model)


def _is_of_its_provider(model: str, configured: str | None) -> bool:
    if configured is None or model == configured:
        return model == configured
    owner = price_list.provider(model)
    return owner is not None and owner == price_list.provider(configured)


def _per_s(per_minute: float | None) -> float | None:
    return None if per_minute is None else per_minute / 60
