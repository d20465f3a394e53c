"""A budget and rates that hold for several servers together."""

import asyncio
import copy
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar
from uuid import uuid4

from spanscore.errors import (
    BudgetExhaustedError,
    JudgeError,
    JudgeUnavailableError,
    PermanentError,
    RetryableError,
)
from spanscore.judge import config
from spanscore.judge.budget import Budget, Need, Purse, Reservation
from spanscore.judge.pace import Timing
from spanscore.model.spending import Spending, Standing

_PATIENCE_NS: Final = 30 * 10**9
"""For how long the database is tried before a call fails."""
_WAIT_FOR_OTHERS_NS: Final = 60 * 10**9
"""For how long a call waits at most for what other servers' calls may turn out not to cost."""
_LOOK_EVERY_S: Final = 1.0

T = TypeVar("T")


class SharedLimits(Protocol):
    """What servers know of each other's calls, in a database.

    Its methods are called in threads. They raise RetryableError and PermanentError.
    """

    def exchange(
        self, server: str, window_ns: int, decide: Callable[[Standing], Mapping[str, Spending]]
    ) -> None:
        """Write what `decide` gives, in place of what this server has written of these tenants;
        no other server decides meanwhile.

        Windows are `window_ns` long, and begin by the database's clock.
        """
        ...

    def take_slot(self, model: str, interval_s: float) -> float:
        """Seconds until a call of a model may be made, behind which none follows for
        `interval_s`.
        """
        ...


async def patiently(ask: Callable[[], T], timing: Timing) -> T:
    """What the database answers, in a thread.

    Raises JudgeUnavailableError where it does not for half a minute: nothing is sent without it.
    """
    last_ns = timing.clock_ns() + _PATIENCE_NS
    while True:
        try:
            return await asyncio.to_thread(ask)
        except (RetryableError, PermanentError) as error:
            if isinstance(error, PermanentError) or timing.clock_ns() >= last_ns:
                raise JudgeUnavailableError(
                    f"no model was asked, since what other servers ask is not known: {error}"
                ) from error
            await timing.sleep(error.retry_after_s)


@dataclass(slots=True, eq=False)
class _Asked:
    """A call that is to be booked, and what came of that."""

    need: Need
    tenant: str
    awaited: set[Reservation] | None
    begun_ns: int
    found: Reservation | set[Reservation] | JudgeError | None = None


class SharedBudget(Budget):
    """The budget as it was when the other servers' spending was last read.

    May be used from several threads.
    """

    def __init__(self, limits: config.Budget) -> None:
        super().__init__(limits)
        self._lock = threading.RLock()
        self._own: dict[str, tuple[int, float]] = {}
        self._others: Mapping[str, Spending] = {}
        self._changed: set[str] = set()

    @property
    def window_ns(self) -> int:
        """How long a window is."""
        return self._limits.window_ns

    def left(self, now_ns: int) -> dict[str, tuple[float, float]]:
        """See `Budget.left`."""
        with self._lock:
            return super().left(now_ns)

    def settle(self, reservation: Reservation, tokens: int, usd: float) -> None:
        """See `Budget.settle`."""
        with self._lock:
            super().settle(reservation, tokens, usd)

    def close(self, reservation: Reservation) -> None:
        """See `Budget.close`."""
        with self._lock:
            super().close(reservation)
            if reservation.window == self._window:
                self._changed.add(self._tokens.name(reservation.tenant))

    def decide(
        self, asked: Collection[_Asked], now_ns: int, standing: Standing
    ) -> dict[str, Spending]:
        """Book what fits beside what others have spent; returns what of this server's spending is
        to be written.
        """
        with self._lock:
            self._load(standing)
            for x in asked:
                x.found = self._booked(x, now_ns)
            changed, self._changed = self._changed, set()
            return {tenant: self._spending(tenant) for tenant in changed}

    def undo(self, asked: Collection[_Asked], unwritten: Collection[str]) -> None:
        """Take back what was decided, since it may not have been written."""
        with self._lock:
            self._changed.update(unwritten)
            for x in asked:
                if isinstance(x.found, Reservation):
                    self.settle(x.found, 0, 0.0)
                x.found = None

    def _load(self, standing: Standing) -> None:
        if standing.window > self._window:
            self._window = standing.window
            self._own.clear()
            self._changed.clear()
        self._others = standing.others
        spent = [(name, x.tokens, x.usd) for name, x in self._others.items()]
        spent += [(name, *x) for name, x in self._own.items()]
        self._tokens.load(((name, tokens) for name, tokens, _ in spent), standing.before)
        self._usd.load(((name, usd) for name, _, usd in spent), standing.before)

    def _booked(
        self, x: _Asked, now_ns: int
    ) -> Reservation | set[Reservation] | BudgetExhaustedError:
        try:
            return self.attempt(x.need, now_ns, x.tenant, x.awaited)
        except BudgetExhaustedError as error:
            has_time = now_ns - x.begun_ns < _WAIT_FOR_OTHERS_NS
            return set() if has_time and self._others_may_free(x) else error

    def _others_may_free(self, x: _Asked) -> bool:
        """Whether the call fits if what other servers have under way costs nothing."""
        need = x.need
        wanted = {
            "tokens": need.input_tokens + need.least_output,
            "usd": need.usd(need.least_output),
        }
        freed = {
            "tokens": sum(y.open_tokens for y in self._others.values()),
            "usd": sum(y.open_usd for y in self._others.values()),
        }
        return all(y.spare(x.tenant) + freed[y.unit] >= wanted[y.unit] for y in self._limited)

    def _spending(self, name: str) -> Spending:
        of_window = [x for x in self._open if x.window == self._window]
        still_open = [x for x in of_window if self._tokens.name(x.tenant) == name]
        return Spending(
            *self._own.get(name, (0, 0.0)),
            sum(x.tokens for x in still_open),
            sum(x.usd for x in still_open),
        )

    def _spend(self, tokens: int, usd: float, tenant: str) -> None:
        name = self._tokens.name(tenant)
        super()._spend(tokens, usd, tenant)
        own_tokens, own_usd = self._own.get(name, (0, 0.0))
        self._own[name] = own_tokens + tokens, own_usd + usd
        self._changed.add(name)

    def _window_at(self, _now_ns: int) -> int:
        return self._window  # the database's clock decides


class SharedPurse(Purse):
    """A purse whose budget other servers spend too.

    Calls that ask while the database is waited for are booked together.
    """

    def __init__(self, budget: SharedBudget, timing: Timing, limits: SharedLimits) -> None:
        super().__init__(budget, timing.clock_ns)
        self._shared = budget
        self._timing = timing
        self._limits = limits
        self._server = uuid4().hex
        self._asked: list[_Asked] = []
        self._exchanging = asyncio.Lock()

    async def refresh(self) -> None:
        """Write what calls did cost, and read what other servers have spent, if that is possible
        now.
        """
        async with self._exchanging:
            with suppress(RetryableError, PermanentError):
                await asyncio.to_thread(self._exchange, [])

    async def _attempt(
        self, need: Need, tenant: str, awaited: set[Reservation] | None, begun_ns: int
    ) -> Reservation | set[Reservation]:
        asked = _Asked(need, tenant, awaited, begun_ns)
        booking = asyncio.ensure_future(self._book_together(asked))
        try:
            return await asyncio.shield(booking)
        except asyncio.CancelledError:
            booking.add_done_callback(self._give_back)
            raise

    async def _wait(self, awaited: set[Reservation]) -> None:
        if awaited:
            await super()._wait(awaited)
        else:  # those of other servers
            await self._timing.sleep(_LOOK_EVERY_S)

    async def _book_together(self, asked: _Asked) -> Reservation | set[Reservation]:
        self._asked.append(asked)
        async with self._exchanging:
            if asked.found is None:
                batch = [asked, *(x for x in self._asked if x is not asked)]
                self._asked = []
                await self._booked_or_failed(batch)
        if isinstance(asked.found, JudgeError):
            raise copy.copy(asked.found)
        assert asked.found is not None  # noqa: S101 - the exchange has found something
        return asked.found

    async def _booked_or_failed(self, batch: list[_Asked]) -> None:
        try:
            await patiently(partial(self._exchange, batch), self._timing)
        except JudgeUnavailableError as error:
            for x in batch:
                x.found = error

    def _exchange(self, asked: list[_Asked]) -> None:
        """Book calls, in a thread."""
        written: Mapping[str, Spending] = {}

        def decide(standing: Standing) -> Mapping[str, Spending]:
            nonlocal written
            written = self._shared.decide(asked, self._timing.clock_ns(), standing)
            return written

        try:
            self._limits.exchange(self._server, self._shared.window_ns, decide)
        except BaseException:
            self._shared.undo(asked, written)
            raise

    def _give_back(self, booking: asyncio.Future[Reservation | set[Reservation]]) -> None:
        """Nobody waits for this booking any more, so the call is not made."""
        if booking.cancelled() or booking.exception() is not None:
            return
        if isinstance(reserved := booking.result(), Reservation):
            self.settle(reserved, 0, 0.0)


def open_purse(limits: config.Budget, timing: Timing, shared: SharedLimits | None) -> Purse:
    """What calls are paid from; with `shared`, together with other servers."""
    has_limit = limits.max_tokens is not None or limits.max_usd is not None
    if shared is None or not has_limit:
        return Purse(Budget(limits), timing.clock_ns)
    return SharedPurse(SharedBudget(limits), timing, shared)
