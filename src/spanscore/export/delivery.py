"""One request to one backend, until it is delivered or given up, and what has been learnt of that
backend.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from spanscore.errors import PermanentError
from spanscore.export.connection_config import RetryOnFailure
from spanscore.export.port import Exporter, FaultError, UndeliveredError, UnsupportedSignalError
from spanscore.export.retry import Backoff
from spanscore.model.headers import Headers
from spanscore.otlp.signal import Signal
from spanscore.telemetry import Complaints, Declared, Meter, declared

_log = logging.getLogger(__name__)

_ASK_AGAIN_NS = 10 * 60 * 10**9
"""After this long a signal that a backend did not support is tried once more: a 404 can be a
rollout.
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a test replaces: the clock (Unix ns), sleeping (seconds), chance ([0, 1)), and where
    counts go.
    """

    clock_ns: Callable[[], int]
    sleep: Callable[[float], Awaitable[object]]
    chance: Callable[[], float]
    meter: Meter


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a request will not arrive: `reason` is one of few words, `error` what the backend
    answered.
    """

    reason: str
    error: str


class Delivery:
    """A named exporter, with patience."""

    def __init__(
        self, name: str, exporter: Exporter, retry: RetryOnFailure, surroundings: Surroundings
    ) -> None:
        self.name = name
        self._exporter = exporter
        self._retry = retry
        self._around = surroundings
        self._unsupported_since_ns: dict[Signal, int] = {}
        self._complaints = Complaints(surroundings.clock_ns)

    async def deliver(
        self,
        signal: Signal,
        body: bytes,
        headers: Headers = (),
        *,
        at_most_once: bool = False,
        patient: bool = True,
    ) -> Loss | None:
        """Send until it is delivered; gives why where it never will be.

        With `at_most_once` it is sent again only where it is certain that it did not arrive; unless
        `patient`, a fault of the backend's own ends it.
        """
        if self._is_left_out(signal):
            return self._lost(signal, "unsupported", "the backend does not know this signal")
        backoff = Backoff.begin(self._retry, self._around.clock_ns())
        while True:
            try:
                not_taken = await self._exporter.send(signal, body, headers)
            except UndeliveredError as error:
                is_fault = isinstance(error, FaultError)
                backoff = backoff.answered(fault=is_fault, now_ns=self._around.clock_ns())
                wait_s = backoff.wait_s(
                    error.requested_wait_s, self._around.chance(), self._around.clock_ns()
                )
                ends = (at_most_once and error.maybe_delivered) or (is_fault and not patient)
                if wait_s is None or ends:
                    return self._dropped(signal, error, "fault" if is_fault else "given_up")
                self._count(declared.EXPORTER_FAILED_SENDS, signal)
                self._complaints.complain(
                    self._about(signal, "not delivered"), f"{error}; will try again"
                )
                backoff = backoff.next()
                await self._around.sleep(wait_s)
            except PermanentError as error:
                return self._refused(signal, error)
            else:
                self._taken(signal, not_taken)
                return None

    async def close(self) -> None:
        """Close the exporter. Calling it again does nothing."""
        await self._exporter.close()

    def _is_left_out(self, signal: Signal) -> bool:
        since_ns = self._unsupported_since_ns.get(signal)
        return since_ns is not None and self._around.clock_ns() - since_ns < _ASK_AGAIN_NS

    def _refused(self, signal: Signal, error: PermanentError) -> Loss:
        if not isinstance(error, UnsupportedSignalError):
            return self._dropped(signal, error, "refused")
        if signal not in self._unsupported_since_ns:
            _log.warning(
                "%s: not supported there (%s); left out from now on", self._about(signal), error
            )
        self._unsupported_since_ns[signal] = self._around.clock_ns()
        return self._lost(signal, "unsupported", str(error))

    def _dropped(self, signal: Signal, error: Exception, reason: str) -> Loss:
        self._complaints.complain(self._about(signal, "dropped"), str(error))
        return self._lost(signal, reason, str(error))

    def _taken(self, signal: Signal, not_taken: str | None) -> None:
        self._unsupported_since_ns.pop(signal, None)
        if self._complaints.is_over(self._about(signal, "not delivered")):
            _log.info("%s: delivering again", self._about(signal))
        if not_taken is not None:
            self._complaints.complain(self._about(signal, "delivered in part"), not_taken)
            self._count(declared.EXPORTER_PARTIAL_REQUESTS, signal)
        self._count(declared.EXPORTER_SENT_REQUESTS, signal)

    def _about(self, *what: str) -> str:
        return ": ".join((self.name, *what))

    def _lost(self, signal: Signal, reason: str, error: str) -> Loss:
        self._around.meter.add(
            declared.EXPORTER_DROPPED_REQUESTS, exporter=self.name, signal=signal, reason=reason
        )
        return Loss(reason, error)

    def _count(self, metric: Declared, signal: Signal) -> None:
        self._around.meter.add(metric, exporter=self.name, signal=signal)
