"""One request to one backend, until it is delivered or given up, and what has been learnt of that backend."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from spanscore.errors import PermanentError
from spanscore.export.config import RetryOnFailure
from spanscore.export.port import Exporter, UndeliveredError, UnsupportedSignalError
from spanscore.export.retry import Backoff
from spanscore.otlp.signal import Signal
from spanscore.telemetry import Counters

_log = logging.getLogger(__name__)

_ASK_AGAIN_NS = 10 * 60 * 10**9
"""After this long a signal that a backend did not support is tried once more: a 404 can be a rollout."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a test replaces: the clock (Unix ns), sleeping (seconds), chance ([0, 1)), and where counts go."""

    clock_ns: Callable[[], int]
    sleep: Callable[[float], Awaitable[object]]
    chance: Callable[[], float]
    counters: Counters


class Delivery:
    """A named exporter, with patience."""

    def __init__(self, name: str, exporter: Exporter, retry: RetryOnFailure, surroundings: Surroundings) -> None:
        self.name = name
        self._exporter = exporter
        self._retry = retry
        self._around = surroundings
        self._unsupported_since_ns: dict[Signal, int] = {}
        self._complaints: dict[Signal, str] = {}

    async def deliver(self, signal: Signal, body: bytes, *, at_most_once: bool = False) -> bool:
        """Send until it is delivered; False: it never will be.

        With `at_most_once` it is sent again only where it is certain that it did not arrive.
        """
        if self._is_left_out(signal):
            return self._count("unsupported", signal, delivered=False)
        backoff = Backoff.begin(self._retry, self._around.clock_ns())
        while True:
            try:
                not_taken = await self._exporter.send(signal, body)
            except UndeliveredError as error:
                wait_s = backoff.wait_s(error.told_wait_s, self._around.chance(), self._around.clock_ns())
                if wait_s is None or (at_most_once and error.maybe_delivered):
                    self._complain(signal, f"{error}; dropped")
                    return self._count("dropped", signal, delivered=False)
                self._complain(signal, f"{error}; will try again")
                backoff = backoff.next()
                await self._around.sleep(wait_s)
            except PermanentError as error:
                return self._refused(signal, error)
            else:
                return self._taken(signal, not_taken)

    async def close(self) -> None:
        """Close the exporter. Calling it again does nothing."""
        await self._exporter.close()

    def _is_left_out(self, signal: Signal) -> bool:
        since_ns = self._unsupported_since_ns.get(signal)
        return since_ns is not None and self._around.clock_ns() - since_ns < _ASK_AGAIN_NS

    def _refused(self, signal: Signal, error: PermanentError) -> bool:
        if isinstance(error, UnsupportedSignalError):
            self._unsupported_since_ns[signal] = self._around.clock_ns()
            self._complain(signal, f"not supported there ({error}); left out from now on")
            return self._count("unsupported", signal, delivered=False)
        self._complain(signal, f"refused ({error}); dropped")
        return self._count("dropped", signal, delivered=False)

    def _taken(self, signal: Signal, not_taken: str | None) -> bool:
        self._unsupported_since_ns.pop(signal, None)
        if not_taken is not None:
            self._complain(signal, not_taken)
            self._count("partial", signal, delivered=True)
        elif self._complaints.pop(signal, None) is not None:
            _log.info("%s: %s: delivering again", self.name, signal)
        return self._count("sent", signal, delivered=True)

    def _complain(self, signal: Signal, what: str) -> None:
        """Log, but not the same thing again until something has been delivered in between."""
        if self._complaints.get(signal) != what:
            self._complaints[signal] = what
            _log.warning("%s: %s: %s", self.name, signal, what)

    def _count(self, what: str, signal: Signal, *, delivered: bool) -> bool:
        self._around.counters.add(f"export_{what}_{signal}_{self.name}")
        return delivered
