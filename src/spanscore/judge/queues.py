"""Queues of calls, one a model."""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from spanscore.judge.budget import SharedLimits, patiently
from spanscore.judge.config import Config
from spanscore.judge.pace import Pace, Timing
from spanscore.judge.provider import CallError, Completion, RateLimits, read
from spanscore.telemetry import Complaints

_OVERLOADED = frozenset({429, 529})
_MOST_REFUSALS = 100
"""Of one call, while others are accepted: it is refused for what it is, not for when it comes."""
_PATIENCE_WITH_ONE = 5
"""Times a model's patience that one call is tried for, from when it first was the first of all."""
_FEWEST_REFUSALS = 5
"""Of one call before it is given up for how long it was tried: most of that time others may have
been let pass.
"""
_FEWEST_AT_ONCE = 16
"""Calls of a model that may be under way before any has been answered; each answer adds one."""


def is_pressed(error: CallError) -> bool:
    """Whether a call was refused only because there are too many at present, so that it is due
    again later.

    >>> is_pressed(CallError("slow down", status=429))
    True
    """
    if error.hopeless or error.refused or error.timed_out:
        return False
    return error.status in _OVERLOADED or (error.status == 503 and "retry-after" in error.headers)


@dataclass(slots=True)
class Place:
    """One question's place in the queue of a model, which it keeps however often its call is
    refused.
    """

    number: tuple[bool, int, int]
    """Whether it lets all others pass, the turn in which it is called, and which it is of those
    with one turn.
    """

    refusals: int = 0
    """Those before which another call was accepted."""

    refused_ns: int | None = None
    """When the last of its refusals came."""

    first_ns: int | None = None
    """When it first was the first of its queue."""


@dataclass(slots=True)
class _Room:
    """How many calls of one model are under way, and how many may be: as many as the provider
    answers in time.
    """

    most: int
    limit: int
    under_way: int = 0
    halved_ns: int = 0
    freed: asyncio.Event = field(default_factory=asyncio.Event)

    def answered(self) -> None:
        if self.under_way >= self.most:
            self.most = min(self.most + 1, self.limit)

    def timed_out(self, sent_ns: int, now_ns: int) -> None:
        if sent_ns >= self.halved_ns:
            self.most, self.halved_ns = max(self.most // 2, 1), now_ns


class _Turns:
    """Turns that tenants take: in each turn one call of each tenant that waits (start-time fair
    queuing).
    """

    def __init__(self) -> None:
        self._served = 0
        self._last: dict[str, int] = {}

    def next(self, tenant: str) -> int:
        """The turn of a tenant's next call: the one after its last call's, but none that is
        over.
        """
        self._last[tenant] = max(self._served, self._last.get(tenant, 0)) + 1
        return self._last[tenant]

    def serve(self, turn: int) -> None:
        """A call is made in its turn."""
        if turn > self._served:
            self._served = turn
            self._last = {tenant: last for tenant, last in self._last.items() if last > turn}


class Lane:
    """The queue of one model, in which tenants take turns; of one tenant the first that came is
    served first.

    Each call is made when the pace allows it. Belongs to one event loop.
    """

    def __init__(
        self,
        model: str,
        slots: asyncio.Semaphore,
        most_at_once: int,
        timing: Timing,
        patience_s: float,
        pace: Pace | None = None,
        limits: SharedLimits | None = None,
    ) -> None:
        """`patience_s` is for how long a provider may refuse every call before its model is given
        up.

        `pace` is one that knows limits beforehand; `limits` has other servers keep them too.
        """
        self._model = model
        self._slots = slots
        self._timing = timing
        self._patience_s = patience_s
        self._pace = pace or Pace()
        self._limits = limits
        self._room = _Room(min(_FEWEST_AT_ONCE, most_at_once), most_at_once)
        self._waiting: list[tuple[tuple[bool, int, int], asyncio.Future[None]]] = []
        self._turns = {False: _Turns(), True: _Turns()}
        self._numbers = count()
        self._complaints = Complaints(timing.clock_ns)

    def place(self, tenant: str = "", *, behind: bool = False) -> Place:
        """A place behind the tenant's other calls; one `behind` lets all others pass, also those
        that come later.
        """
        return Place((behind, self._turns[behind].next(tenant), next(self._numbers)))

    async def call(
        self, place: Place, tokens: float, send: Callable[[], Awaitable[Completion]]
    ) -> Completion:
        """What `send` gives, called when it is this place's turn and once more whenever it comes
        too early.

        `tokens` is about what the call takes of a limit on tokens. Time spent waiting here is
        nobody's failure. Raises CallError; one that came too early only where the model refuses all
        calls, or this one a hundred times or for five times `patience_s`.
        """
        while True:
            await self._turn(place, tokens)
            sent_ns = self._timing.clock_ns()
            self._pace.sent(sent_ns, tokens)
            try:
                completion = await send()
            except CallError as error:
                now_ns = self._timing.clock_ns()
                limits = read(error.headers, now_ns)
                if not is_pressed(error):
                    self._pace.failed(now_ns, tokens, limits)
                    if error.timed_out:
                        self._room.timed_out(sent_ns, now_ns)
                    raise
                self._pace.refused(sent_ns, now_ns, tokens, limits)
                self._state_pace()
                self._give_up_hopeless(place, error, limits, now_ns)
            except BaseException:
                self._pace.failed(self._timing.clock_ns(), tokens)
                raise
            else:
                now_ns = self._timing.clock_ns()
                self._pace.accepted(now_ns, tokens, read(completion.headers, now_ns))
                self._room.answered()
                return completion
            finally:
                self._leave()
            if limits.retry_after_s:
                await self._timing.sleep(limits.retry_after_s)

    def _give_up_hopeless(
        self, place: Place, error: CallError, limits: RateLimits, now_ns: int
    ) -> None:
        """Raise CallError where the model refuses all calls, or this one for too long."""
        refused_s = self._pace.refused_s(now_ns)
        if place.refused_ns is None or refused_s < (now_ns - place.refused_ns) / 1e9:
            place.refusals += 1
        place.refused_ns = now_ns
        longest_s = max(limits.retry_after_s or 0.0, refused_s)
        if longest_s >= self._patience_s or place.refusals >= _MOST_REFUSALS:
            error.hopeless = True
            raise error
        tried_s = 0.0 if place.first_ns is None else (now_ns - place.first_ns) / 1e9
        is_too_long = tried_s >= _PATIENCE_WITH_ONE * self._patience_s
        if is_too_long and place.refusals >= _FEWEST_REFUSALS:
            raise CallError(
                f"its provider has refused this call for {tried_s:.0f} s, while it took others",
                status=error.status,
                headers=error.headers,
                hopeless=True,
            ) from error

    async def _turn(self, place: Place, tokens: float) -> None:
        """Wait until this place is the first, the pace allows a call and there is room; then leave
        the queue.
        """
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (place.number, first))
        self._call_first()
        try:
            await first
            if place.first_ns is None:
                place.first_ns = self._timing.clock_ns()
            while not await self._may_send(tokens):
                pass
        finally:
            self._remove((place.number, first))
            self._call_first()
        self._room.under_way += 1
        behind, turn, _ = place.number
        self._turns[behind].serve(turn)

    async def _may_send(self, tokens: float) -> bool:
        """Wait for what is in the way; True with a slot taken when nothing is."""
        now_ns = self._timing.clock_ns()
        if (wait_s := self._pace.wait_s(now_ns, tokens)) > 0:
            refusals = (
                (self._pace.closed_s(now_ns, tokens), "accepts no calls for another"),
                (self._pace.refused_s(now_ns), "has refused every call for"),
            )
            for seconds, why in refusals:
                if seconds >= self._patience_s:
                    reason = f"its provider {why} {seconds:.0f} s"
                    raise CallError(reason, status=429, hopeless=True)
            await self._timing.sleep(wait_s)
            return False
        if self._room.under_way >= self._room.most:
            self._room.freed.clear()
            await self._room.freed.wait()
            return False
        await self._slots.acquire()
        # the pace was lowered while all slots were taken
        if self._pace.wait_s(self._timing.clock_ns(), tokens) > 0:
            self._slots.release()
            return False
        try:
            await self._wait_for_slot(tokens)
        except BaseException:
            self._slots.release()
            raise
        return True

    async def _wait_for_slot(self, tokens: float) -> None:
        """Wait for the time that other servers leave to this call: last of all, so that none is
        taken far ahead.
        """
        interval_s = self._pace.interval_s(tokens)
        if self._limits is None or not interval_s:
            return
        wait_s = await patiently(
            partial(self._limits.take_slot, self._model, interval_s), self._timing
        )
        if wait_s > 0:
            await self._timing.sleep(wait_s)

    def _leave(self) -> None:
        self._room.under_way -= 1
        self._room.freed.set()
        self._slots.release()

    def _remove(self, waiting: tuple[tuple[bool, int, int], asyncio.Future[None]]) -> None:
        if self._waiting[0] == waiting:
            heapq.heappop(self._waiting)
            return
        self._waiting.remove(waiting)
        heapq.heapify(self._waiting)

    def _call_first(self) -> None:
        if self._waiting and not (first := self._waiting[0][1]).done():
            first.set_result(None)

    def _state_pace(self) -> None:
        """A line at info, once a minute at most: whoever waits for scores sees why."""
        self._complaints.complain(
            f"judge {self._model}",
            f"its provider limits how often it is called; {len(self._waiting)} calls wait, about"
            f" {self._pace.rate_per_s or 0.0:.2g} a second are sent",
            level=logging.INFO,
        )


class Queues:
    """A queue for each model, and places for all calls that are under way at once.

    Belongs to one event loop.
    """

    def __init__(self, config: Config, timing: Timing, shared: SharedLimits | None = None) -> None:
        """`config` contains the limits of calls; they hold for all judges that share these queues,
        and with `shared` for all servers.
        """
        self._config = config
        self._shared = shared
        self._timing = timing
        self._slots = asyncio.Semaphore(config.max_concurrent)
        self._lanes: dict[Hashable, Lane] = {}

    def lane(self, model: str, config: Config) -> Lane:
        """The queue of a model for a judge with this configuration."""
        own = config if config.serves(model) else None
        access = (model, own.api_base, own.api_key) if own else (model, None, None)
        if access not in self._lanes:
            limits = self._config
            rates = (limits.requests_per_minute, limits.tokens_per_minute)
            self._lanes[access] = Lane(
                model,
                self._slots,
                limits.max_concurrent,
                self._timing,
                limits.backoff.max_elapsed_time / 1e9,
                Pace(*(None if x is None else x / 60 for x in rates)),
                self._shared,
            )
        return self._lanes[access]
