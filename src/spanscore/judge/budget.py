"""The budget of judging: reserved before, corrected after; by one process or by several servers."""

import asyncio
import copy
import math
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

from spanscore.errors import (
    BudgetExhaustedError,
    JudgeError,
    JudgeUnavailableError,
    PermanentError,
    RetryableError,
)
from spanscore.judge import config
from spanscore.judge.pace import Timing
from spanscore.model.score import Spending, Standing

_MAX_TENANTS: Final = 1000
_OTHERS: Final = "\n"  # no tenant has this name
_PATIENCE_NS: Final = 30 * 10**9
"""For how long the database is tried before a call fails."""
_WAIT_FOR_OTHERS_NS: Final = 60 * 10**9
"""For how long a call waits at most for what other servers' calls may turn out not to cost."""
_LOOK_EVERY_S: Final = 1.0

T = TypeVar("T")


class Shares:
    """What is spent of one limit in one window, by tenant.

    An equal share is kept for each tenant that spends in this window or has spent in the one
    before; what no other tenant's share needs is for whoever asks first. Past a thousand tenants
    the rest are counted as one.
    """

    def __init__(self, unit: str, limit: float | None) -> None:
        """`limit` None: there is none."""
        self.unit = unit
        self.limit: float = math.inf if limit is None else limit
        self.total: float = 0
        """What all tenants have spent."""
        self._spent: defaultdict[str, float] = defaultdict(float)

    def load(self, spent: Iterable[tuple[str, float]], before: Iterable[str]) -> None:
        """Begin anew with what tenants have spent; `before` are those that spent in the window
        before.
        """
        self.total = 0
        self._spent = defaultdict(float, dict.fromkeys(before, 0.0))
        for tenant, amount in spent:
            self.add(tenant, amount)

    def turn(self) -> None:
        """Begin a new window, in which a share is kept for whoever has spent in the one that
        ends.
        """
        self.load((), [name for name, spent in self._spent.items() if spent > 0])

    def add(self, tenant: str, amount: float) -> None:
        """A tenant has spent so much more, or less where it is negative."""
        self.total += amount
        self._spent[self.name(tenant)] += amount

    def spent(self, tenant: str) -> float:
        """What a tenant has spent."""
        return self._spent.get(self.name(tenant), 0.0)

    def kept_for_others(self, tenant: str) -> float:
        """What of the limit others may still spend of their shares.

        >>> shares = Shares("tokens", 100)
        >>> shares.add("a", 70.0)
        >>> shares.kept_for_others("a"), shares.kept_for_others("b")
        (0.0, 0.0)
        >>> shares.turn()
        >>> shares.add("b", 10.0)
        >>> shares.kept_for_others("b"), shares.kept_for_others("a")
        (50.0, 40.0)
        """
        share = self.share(tenant)
        others = (spent for name, spent in self._spent.items() if name != self.name(tenant))
        return sum((max(0.0, share - spent) for spent in others), 0.0)

    def spare(self, tenant: str) -> float:
        """What a tenant may spend."""
        return self.limit - self.total - self.kept_for_others(tenant)

    def share(self, tenant: str) -> float:
        """A tenant's equal share of the limit.

        >>> shares = Shares("tokens", 100)
        >>> shares.add("a", 70.0)
        >>> shares.share("a"), shares.share("b")
        (100.0, 50.0)
        """
        return self.limit / len(self._spent.keys() | {self.name(tenant)})

    def frees(self, spender: str, tenant: str) -> bool:
        """Whether what a spender gets back may be spent by a tenant, and is not kept for the
        spender.

        >>> shares = Shares("tokens", 100)
        >>> shares.add("a", 70.0)
        >>> shares.frees("a", "b"), shares.frees("b", "a"), shares.frees("b", "b")
        (True, False, True)
        """
        return self.name(spender) == self.name(tenant) or self.spent(spender) > self.share(tenant)

    def name(self, tenant: str) -> str:
        """Under which name a tenant is counted."""
        return tenant if tenant in self._spent or len(self._spent) < _MAX_TENANTS else _OTHERS


Keep: TypeAlias = Callable[[], Awaitable[None]]
"""Returns when all that is booked by now would survive a kill."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one call may take: its input, and an output between the least that is of use and the
    most it may be.

    `usd_input` is the price of the input, `usd_per_output_token` that of one token more; 0.0 where
    USD do not count.
    """

    input_tokens: int
    least_output: int
    most_output: int
    usd_input: float = 0.0
    usd_per_output_token: float = 0.0

    def usd(self, output_tokens: int) -> float:
        """The price with an output of this length."""
        return self.usd_input + output_tokens * self.usd_per_output_token


@dataclass(slots=True, eq=False)
class Reservation:
    """What one call may cost; `window` is the hour or day, counted from 1970, that it is booked on.

    `output_tokens` is the longest output that the call may be given so as not to cost more.
    """

    tokens: int
    usd: float
    window: int
    tenant: str = ""
    output_tokens: int = 0


class Budget:
    """The ledger of the current window, in which each tenant has a share.

    May be used from several threads.
    """

    key = "judge.budget"
    """What its limits are called in messages."""

    def __init__(self, limits: config.Budget) -> None:
        self._window_ns: int | None = limits.window_ns
        self._period = f" for this {limits.per}"
        self._window = -1
        self._tokens, self._usd = Shares("tokens", limits.max_tokens), Shares("usd", limits.max_usd)
        self._limited = [x for x in (self._tokens, self._usd) if x.limit < math.inf]
        self._open: set[Reservation] = set()
        self._lock = threading.RLock()

    @property
    def counts_usd(self) -> bool:
        """Whether a call's cost must be known before it is made."""
        return self._usd in self._limited

    def left(self, now_ns: int) -> dict[str, tuple[float, float]]:
        """What is left of each limit and the limit itself, by unit; nothing where there is no
        limit.
        """
        with self._lock:
            self._turn_to(now_ns)
            return {x.unit: (x.limit - x.total, x.limit) for x in self._limited}

    def affordable_output(self, need: Need, now_ns: int, tenant: str = "") -> int:
        """The longest output, at most `need.most_output`, that a tenant can pay for; negative: not
        even the input.
        """
        self._turn_to(now_ns)
        most = need.most_output
        if self._tokens in self._limited:
            most = min(most, int(self._tokens.spare(tenant)) - need.input_tokens)
        if self._usd in self._limited:
            spare = self._usd.spare(tenant) - need.usd_input
            if spare < 0:
                return -1
            if need.usd_per_output_token:
                most = min(most, int(spare / need.usd_per_output_token))
        return most

    def open_for(self, tenant: str = "") -> set[Reservation]:
        """The calls under way of which a tenant may spend what they turn out not to cost.

        These are its own, and those of tenants that have spent more than their shares: what others
        within their shares do not need is kept for them.
        """
        return {
            reserved
            for reserved in self._open
            if reserved.window == self._window
            and any(x.frees(reserved.tenant, tenant) for x in self._limited)
        }

    def attempt(
        self, need: Need, now_ns: int, tenant: str, awaited: set[Reservation] | None
    ) -> Reservation | set[Reservation]:
        """What a call may cost is booked, or the calls that are to be waited for first.

        `awaited` are those that were waited for before; None: none was. Raises
        BudgetExhaustedError.
        """
        output = self.affordable_output(need, now_ns, tenant)
        if output < need.most_output:
            still_open = self.open_for(tenant)
            if awaited := still_open if awaited is None else awaited & still_open:
                return awaited
            output = max(output, need.least_output)
        reserved = self.reserve(need.input_tokens + output, need.usd(output), now_ns, tenant)
        reserved.output_tokens = output
        return reserved

    def has_open(self, reservations: set[Reservation]) -> bool:
        """Whether all of these calls are still under way."""
        return reservations <= self._open

    def reserve(self, tokens: int, usd: float, now_ns: int, tenant: str = "") -> Reservation:
        """Book a call's largest possible cost.

        Raises BudgetExhaustedError, and books nothing, if it does not fit.
        """
        self._turn_to(now_ns)
        wanted = {"tokens": tokens, "usd": usd}
        for shares in self._limited:
            self._check(shares, wanted[shares.unit], now_ns)
        for shares in self._limited:
            self._check_share(shares, wanted[shares.unit], now_ns, tenant)
        self._spend(tokens, usd, tenant)
        reserved = Reservation(tokens, usd, self._window, tenant)
        self._open.add(reserved)
        return reserved

    def settle(self, reservation: Reservation, tokens: int, usd: float) -> None:
        """Replace what was reserved by what the call did cost."""
        with self._lock:
            if reservation.window == self._window:
                self._spend(tokens - reservation.tokens, usd - reservation.usd, reservation.tenant)
            reservation.tokens, reservation.usd = tokens, usd
            self.close(reservation)

    def close(self, reservation: Reservation) -> None:
        """Nothing more is learnt of what the call did cost: what was reserved stands."""
        self._open.discard(reservation)

    def _turn_to(self, now_ns: int) -> None:
        window = self._window_at(now_ns)
        if window > self._window:  # a clock that is set back does not open a spent window again
            passed = window - self._window
            self._window = window
            for _ in range(min(passed, 2)):  # after two nobody has spent in the window before
                self._tokens.turn()
                self._usd.turn()

    def _spend(self, tokens: int, usd: float, tenant: str) -> None:
        self._tokens.add(tenant, tokens)
        self._usd.add(tenant, usd)

    def _window_at(self, now_ns: int) -> int:
        return now_ns // self._window_ns if self._window_ns else 0

    def _check(self, shares: Shares, wanted: float, now_ns: int) -> None:
        limit, spent = shares.limit, shares.total
        if spent + wanted <= limit:
            return
        key = f"{self.key}.max_{shares.unit} = {limit:g}"
        if wanted > limit:
            raise BudgetExhaustedError(
                f"{key} is less than one call may take ({wanted:g}); raise it"
            )
        raise BudgetExhaustedError(
            f"{key}{self._period} is spent ({spent:g}); {self._remedy(now_ns)}"
        )

    def _check_share(self, shares: Shares, wanted: float, now_ns: int, tenant: str) -> None:
        """Raise BudgetExhaustedError where what is left is kept for other tenants."""
        if shares.total + wanted + shares.kept_for_others(tenant) <= shares.limit:
            return
        key = f"{self.key}.max_{shares.unit} = {shares.limit:g}"
        share, spent = shares.share(tenant), shares.spent(tenant)
        if wanted > share:
            raise BudgetExhaustedError(
                f"the tenant's share of {key} is {share:g}, less than one call may take"
                f" ({wanted:g}); raise it"
            )
        why = f"the tenant's share of {key}{self._period} is {share:g}, of which {spent:g} is spent"
        if spent + wanted <= share:  # others spent of it before this tenant came
            why = f"what is left of {key}{self._period} is kept for other tenants"
        raise BudgetExhaustedError(
            f"{why}, and one call may take {wanted:g}; {self._remedy(now_ns)}"
        )

    def _remedy(self, now_ns: int) -> str:
        """What helps where a limit is spent."""
        if self._window_ns is None:
            return "raise it and retry"
        left_min = -(-(self._window_ns - now_ns % self._window_ns) // (60 * 10**9))
        return f"the next begins in {left_min} min"


class TotalBudget(Budget):
    """A budget that never begins anew: of one piece of work, such as an evaluation run."""

    key = "budget"

    def __init__(self, limits: config.Budget, tokens: int = 0, usd: float = 0.0) -> None:
        """`tokens` and `usd` were spent before. Of `limits`, `per` does not count."""
        super().__init__(limits)
        self._window_ns, self._period, self._window = None, "", 0
        self._tokens.total, self._usd.total = tokens, usd

    @property
    def booked(self) -> tuple[int, float]:
        """Tokens and USD that calls have cost, with all that those may cost which are under way or
        were given up.
        """
        return int(self._tokens.total), self._usd.total


class Purse:
    """A budget from which many calls are paid at once, those of one tenant in the order in which
    they ask.

    Belongs to one event loop.
    """

    def __init__(
        self,
        budget: Budget,
        clock_ns: Callable[[], int],
        keep: Keep | None = None,
        *,
        stands_behind: bool = False,
    ) -> None:
        """`keep` is waited for with each reservation; None: what is booked need not survive.

        Calls that it pays for `stands_behind` all others in a model's queue.
        """
        self.budget = budget
        self.stands_behind = stands_behind
        self._keep = keep
        self._clock_ns = clock_ns
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._settled = asyncio.Event()

    async def reserve(self, needed: Callable[[], Need], tenant: str = "") -> Reservation:
        """Reserve what a call may cost, once that is clear: while it does not fit, others under way
        may cost less.

        `needed` is called again after each wait, since what is known of such calls grows meanwhile.
        Only the calls that were under way when the wait began are waited for (`Budget.open_for`),
        so that it ends however many follow. A call that does not fit then is held to the output
        that is paid for, if that is of use. Raises BudgetExhaustedError.
        """
        reserved = await self._book(needed, tenant)
        if self._keep is not None:
            try:
                await self._keep()
            except BaseException:  # so the call is not made
                self.settle(reserved, 0, 0.0)
                raise
        return reserved

    def settle(self, reservation: Reservation, tokens: int, usd: float) -> None:
        """See `Budget.settle`."""
        self.budget.settle(reservation, tokens, usd)
        self._settled.set()

    def close(self, reservation: Reservation) -> None:
        """See `Budget.close`; does nothing to what was settled."""
        self.budget.close(reservation)
        self._settled.set()

    async def _book(self, needed: Callable[[], Need], tenant: str) -> Reservation:
        async with self._turns.setdefault(tenant, asyncio.Lock()):
            begun_ns = self._clock_ns()
            awaited: set[Reservation] | None = None
            while True:
                found = await self._attempt(needed(), tenant, awaited, begun_ns)
                if isinstance(found, Reservation):
                    return found
                await self._wait(found)
                awaited = found

    async def _attempt(
        self, need: Need, tenant: str, awaited: set[Reservation] | None, _begun_ns: int
    ) -> Reservation | set[Reservation]:
        """See `Budget.attempt`."""
        return self.budget.attempt(need, self._clock_ns(), tenant, awaited)

    async def _wait(self, awaited: set[Reservation]) -> None:
        """Wait until one of these calls, or another one, is no longer under way."""
        if self.budget.has_open(awaited):
            self._settled.clear()
            await self._settled.wait()


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
    """The budget as it was when the other servers' spending was last read."""

    def __init__(self, limits: config.Budget) -> None:
        super().__init__(limits)
        self._own: dict[str, tuple[int, float]] = {}
        self._others: Mapping[str, Spending] = {}
        self._changed: set[str] = set()

    @property
    def window_ns(self) -> int:
        """How long a window is."""
        return self._window_ns or 0

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
        spent = [(name, (x.tokens, x.usd)) for name, x in self._others.items()]
        spent += self._own.items()
        for place, shares in enumerate((self._tokens, self._usd)):
            shares.load(((name, both[place]) for name, both in spent), standing.before)

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
