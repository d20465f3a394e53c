"""Delivery of requests to one backend."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

from spanscore.errors import PermanentError, RetryableError
from spanscore.export.config import OtlpConfig, RetryOnFailure
from spanscore.export.port import Exporter, FaultError, UndeliveredError, UnsupportedSignalError
from spanscore.model.span import Headers
from spanscore.otlp.signal import Signal
from spanscore.store.store import Store
from spanscore.telemetry import Complaints, Declared, Meter, declared

_log = logging.getLogger(__name__)

T = TypeVar("T")

_NO_STORE = "export waits for the store"
_WAIT_FOR_REPAIR_S = 60.0

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


@dataclass(frozen=True)
class Patience:
    """Gets what the store answers, however long it takes; `sleep` takes seconds."""

    complaints: Complaints
    sleep: Callable[[float], Awaitable[object]]

    async def get(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What `ask` gives, once it raises neither RetryableError nor PermanentError."""
        while True:
            try:
                answer = await ask()
            except (RetryableError, PermanentError) as error:
                self.complaints.complain(_NO_STORE, str(error), level=logging.ERROR)
                await self.sleep(
                    error.retry_after_s if isinstance(error, RetryableError) else _WAIT_FOR_REPAIR_S
                )
            else:
                self.complaints.is_over(_NO_STORE)
                return answer

    async def ask(self, ask: Callable[..., T], *arguments: Any) -> T:
        """As `get`, of what blocks."""
        return await self.get(partial(asyncio.to_thread, ask, *arguments))


async def first_place(patience: Patience, outbox: Store, name: str, begin: int) -> int:
    """Where an exporter goes on; a new one begins with the scores that come after it was
    configured.
    """
    place = await patience.ask(outbox.cursor, name)
    if place is None:
        await patience.ask(outbox.set_cursor, name, begin)
    return begin if place is None else place


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a request will not arrive: `reason` is one of few words, `error` what the backend
    answered.
    """

    reason: str
    error: str


@dataclass(eq=False)
class Delivery:
    """A named exporter, with patience."""

    name: str
    exporter: Exporter
    retry: RetryOnFailure
    around: Surroundings

    def __post_init__(self) -> None:
        self._unsupported_since_ns: dict[Signal, int] = {}
        self._complaints = Complaints(self.around.clock_ns)

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
        backoff = Backoff.begin(self.retry, self.around.clock_ns())
        while True:
            try:
                not_taken = await self.exporter.send(signal, body, headers)
            except UndeliveredError as error:
                is_fault = isinstance(error, FaultError)
                backoff = backoff.answered(fault=is_fault, now_ns=self.around.clock_ns())
                wait_s = backoff.wait_s(
                    error.requested_wait_s, self.around.chance(), self.around.clock_ns()
                )
                ends = (at_most_once and error.maybe_delivered) or (is_fault and not patient)
                if wait_s is None or ends:
                    return self._dropped(signal, error, "fault" if is_fault else "given_up")
                self._count(declared.EXPORTER_FAILED_SENDS, signal)
                self._complaints.complain(
                    self._about(signal, "not delivered"), f"{error}; will try again"
                )
                backoff = backoff.next()
                await self.around.sleep(wait_s)
            except PermanentError as error:
                return self._refused(signal, error)
            else:
                self._taken(signal, not_taken)
                return None

    async def close(self) -> None:
        """Close the exporter. Calling it again does nothing."""
        await self.exporter.close()

    def _is_left_out(self, signal: Signal) -> bool:
        since_ns = self._unsupported_since_ns.get(signal)
        return since_ns is not None and self.around.clock_ns() - since_ns < _ASK_AGAIN_NS

    def _refused(self, signal: Signal, error: PermanentError) -> Loss:
        if not isinstance(error, UnsupportedSignalError):
            return self._dropped(signal, error, "refused")
        if signal not in self._unsupported_since_ns:
            _log.warning(
                "%s: not supported there (%s); left out from now on", self._about(signal), error
            )
        self._unsupported_since_ns[signal] = self.around.clock_ns()
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
        self.around.meter.add(
            declared.EXPORTER_DROPPED_REQUESTS, exporter=self.name, signal=signal, reason=reason
        )
        return Loss(reason, error)

    def _count(self, metric: Declared, signal: Signal) -> None:
        self.around.meter.add(metric, exporter=self.name, signal=signal)


MAX_REQUESTED_WAIT_S = 300.0
"""The longest wait that a backend may ask for, in seconds; one that asks for a day would stop its
scores for a day.
"""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Where one request stands: when it was first tried, and the wait that comes next, both in
    nanoseconds.
    """

    config: RetryOnFailure
    started_ns: int
    interval_ns: int
    faulty_since_ns: int | None = None
    """Since when the backend has answered with faults of its own and with nothing else."""

    @classmethod
    def begin(cls, config: RetryOnFailure, now_ns: int) -> "Backoff":
        """The state before the first retry."""
        return cls(config, now_ns, config.initial_interval)

    def answered(self, *, fault: bool, now_ns: int) -> "Backoff":
        """The state after an answer, before its wait; `fault`: the backend's own."""
        since_ns = self.faulty_since_ns if fault and self.faulty_since_ns is not None else now_ns
        return replace(self, faulty_since_ns=since_ns if fault else None)

    def wait_s(self, requested_wait_s: float | None, chance: float, now_ns: int) -> float | None:
        """Seconds to wait now; None: give up.

        `requested_wait_s` is what the backend asked for, `chance` a random number in [0, 1).
        """
        spread = self.config.randomization_factor * (2 * chance - 1)
        wait_s = (
            self.interval_ns * (1 + spread) / 1e9
            if requested_wait_s is None
            else min(requested_wait_s, MAX_REQUESTED_WAIT_S)
        )
        then_ns = now_ns + wait_s * 1e9
        too_late = (
            self.config.max_elapsed_time
            and then_ns > self.started_ns + self.config.max_elapsed_time
        )
        faulty_too_long = (
            self.faulty_since_ns is not None
            and then_ns > self.faulty_since_ns + self.config.max_fault_time
        )
        return None if too_late or faulty_too_long or not self.config.enabled else wait_s

    def next(self) -> "Backoff":
        """The state after one more failure."""
        longer_ns = min(round(self.interval_ns * self.config.multiplier), self.config.max_interval)
        return replace(self, interval_ns=longer_ns)


@dataclass(slots=True)
class _Passing:
    """A request on its way; `done` is resolved when no exporter is left that has still to deal with
    it.
    """

    signal: Signal
    body: bytes
    headers: Headers
    left: int
    done: "asyncio.Future[None]"

    def size(self, sizer: Literal["requests", "bytes"]) -> int:
        """How much of a queue it takes."""
        return 1 if sizer == "requests" else len(self.body)

    def dealt_with(self) -> None:
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(None)


class Forwarding:
    """The queue to one exporter."""

    def __init__(self, delivery: Delivery, exporter: OtlpConfig) -> None:
        config = exporter.sending_queue
        self.name = delivery.name
        self.capacity = config.queue_size
        self.signals: Collection[Signal] = exporter.signals
        self._delivery = delivery
        self._config = config
        self._queue: asyncio.Queue[_Passing] = asyncio.Queue()
        self._size = 0
        self._underway: list[_Passing] = []

    @property
    def waiting(self) -> int:
        """Requests queued or under way."""
        return self._queue.qsize() + len(self._underway)

    def require_room(self, passing: _Passing) -> None:
        """Raises RetryableError when the queue is too full for this; an empty one is for none."""
        if self._size and self._size + passing.size(self._config.sizer) > self._config.queue_size:
            raise RetryableError(f"the sending queue of {self.name} is full", why="queue_full")

    def put(self, passing: _Passing) -> None:
        """Queue a request; there must be room."""
        self._queue.put_nowait(passing)
        self._size += passing.size(self._config.sizer)

    def consumers(self, progress: Callable[[], None]) -> list[Coroutine[None, None, None]]:
        """The loops that send what is queued; each calls `progress` after every request."""
        return [self._consume(progress) for _ in range(self._config.num_consumers)]

    def abandon(self) -> None:
        """Cancel the futures of all that has not left: whoever holds the request must bring it
        again.
        """
        while not self._queue.empty():
            self._underway.append(self._queue.get_nowait())
        for passing in self._underway:
            passing.done.cancel()
        self._underway.clear()

    async def _consume(self, progress: Callable[[], None]) -> None:
        while True:
            passing = await self._queue.get()
            self._size -= passing.size(self._config.sizer)
            # and stays there when this task is cancelled, for `abandon`
            self._underway.append(passing)
            await self._delivery.deliver(passing.signal, passing.body, passing.headers)
            self._underway.remove(passing)
            passing.dealt_with()
            progress()


def forward_to_all(
    forwardings: Sequence[Forwarding], signal: Signal, body: bytes, headers: Headers = ()
) -> "asyncio.Future[None]":
    """Put one request into all queues that take its signal, or into none; the future is done when
    all dealt with it.

    Raises RetryableError when one of them is full.
    """
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    taking = [x for x in forwardings if signal in x.signals]
    if not taking:
        done.set_result(None)
    passing = _Passing(signal, body, headers, len(taking), done)
    for forwarding in taking:
        forwarding.require_room(passing)
    for forwarding in taking:
        forwarding.put(passing)
    return done
