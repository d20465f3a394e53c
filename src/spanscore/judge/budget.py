"""The budget of judging: reserved before, corrected after."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from spanscore.errors import BudgetExhaustedError
from spanscore.judge import config

_MAX_TENANTS: Final = 1000
_OTHERS: Final = "\n"  # no tenant has this name


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
        self.total = 0
        self._spent = defaultdict(
            float, {name: 0.0 for name, spent in self._spent.items() if spent > 0}
        )

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

_WINDOW_NS = {"hour": 3600 * 10**9, "day": 86400 * 10**9}


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

    Not for use from several threads.
    """

    key = "judge.budget"
    """What its limits are called in messages."""

    def __init__(self, limits: config.Budget) -> None:
        self._limits = limits
        self._window = -1
        self._tokens, self._usd = Shares("tokens", limits.max_tokens), Shares("usd", limits.max_usd)
        self._limited = [x for x in (self._tokens, self._usd) if x.limit < math.inf]
        self._open: set[Reservation] = set()

    @property
    def counts_usd(self) -> bool:
        """Whether a call's cost must be known before it is made."""
        return self._limits.max_usd is not None

    def left(self, now_ns: int) -> dict[str, tuple[float, float]]:
        """What is left of each limit and the limit itself, by unit; nothing where there is no
        limit.
        """
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
        if output >= need.most_output:
            return self.book(need, need.most_output, now_ns, tenant)
        still_open = self.open_for(tenant)
        if awaited := still_open if awaited is None else awaited & still_open:
            return awaited
        return self.book(need, max(output, need.least_output), now_ns, tenant)

    def has_open(self, reservations: set[Reservation]) -> bool:
        """Whether all of these calls are still under way."""
        return reservations <= self._open

    def book(self, need: Need, output_tokens: int, now_ns: int, tenant: str = "") -> Reservation:
        """`reserve` for a call whose output is held to `output_tokens`."""
        reserved = self.reserve(
            need.input_tokens + output_tokens, need.usd(output_tokens), now_ns, tenant
        )
        reserved.output_tokens = output_tokens
        return reserved

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
        return now_ns // _WINDOW_NS[self._limits.per]

    def _check(self, shares: Shares, wanted: float, now_ns: int) -> None:
        limit, spent = shares.limit, shares.total
        if spent + wanted <= limit:
            return
        key = f"{self.key}.max_{shares.unit}"
        if wanted > limit:
            raise BudgetExhaustedError(
                f"{key} = {limit:g} is less than one call may take ({wanted:g}); raise it"
            )
        raise BudgetExhaustedError(
            f"{key} = {limit:g}{self._period()} is spent ({spent:g}); {self._remedy(now_ns)}"
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
        if spent + wanted <= share:  # others spent of it before this tenant came
            why = f"what is left of {key}{self._period()} is kept for other tenants"
        else:
            why = (
                f"the tenant's share of {key}{self._period()} is {share:g}, of which {spent:g} is"
                " spent"
            )
        raise BudgetExhaustedError(
            f"{why}, and one call may take {wanted:g}; {self._remedy(now_ns)}"
        )

    def _period(self) -> str:
        """The window, as messages name it."""
        return f" for this {self._limits.per}"

    def _remedy(self, now_ns: int) -> str:
        """What helps where a limit is spent."""
        window_ns = _WINDOW_NS[self._limits.per]
        left_min = -(-(window_ns - now_ns % window_ns) // (60 * 10**9))
        return f"the next begins in {left_min} min"


class TotalBudget(Budget):
    """A budget that never begins anew: of one piece of work, such as an evaluation run."""

    key = "budget"

    def __init__(self, limits: config.Budget, tokens: int = 0, usd: float = 0.0) -> None:
        """`tokens` and `usd` were spent before. Of `limits`, `per` does not count."""
        super().__init__(limits)
        self._window = 0
        self._tokens.total, self._usd.total = tokens, usd

    @property
    def booked(self) -> tuple[int, float]:
        """Tokens and USD that calls have cost, with all that those may cost which are under way or
        were given up.
        """
        return int(self._tokens.total), self._usd.total

    def _window_at(self, _now_ns: int) -> int:
        return 0

    def _period(self) -> str:
        return ""

    def _remedy(self, _now_ns: int) -> str:
        return "raise it and retry"


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
            is_kept = False
            try:
                await self._keep()
                is_kept = True
            finally:
                if not is_kept:  # so the call is not made
                    self.settle(reserved, 0, 0.0)
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
