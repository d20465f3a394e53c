"""What judging may cost: an amount is reserved before a call and corrected after it, so that calls under way count."""

from dataclasses import dataclass

from spanscore.errors import BudgetExhaustedError
from spanscore.judge import config

_WINDOW_NS = {"hour": 3600 * 10**9, "day": 86400 * 10**9}


@dataclass(slots=True)
class Reservation:
    """What one call may cost; `window` is the hour or day, counted from 1970, that it is booked on."""

    tokens: int
    usd: float
    window: int


class Budget:
    """The ledger of the current window. Not for use from several threads."""

    def __init__(self, limits: config.Budget) -> None:
        self._limits = limits
        self._window = -1
        self._tokens = 0
        self._usd = 0.0

    @property
    def counts_usd(self) -> bool:
        """Whether a call's cost must be known before it is made."""
        return self._limits.max_usd is not None

    def left(self, now_ns: int) -> dict[str, tuple[float, float]]:
        """What is left of each limit and the limit itself, by unit; nothing where there is no limit."""
        self._turn_to(now_ns)
        limits = {"tokens": (self._limits.max_tokens, self._tokens), "usd": (self._limits.max_usd, self._usd)}
        return {unit: (limit - spent, limit) for unit, (limit, spent) in limits.items() if limit is not None}

    def reserve(self, tokens: int, usd: float, now_ns: int) -> Reservation:
        """Book a call's largest possible cost. Raises BudgetExhaustedError, and books nothing, if it does not fit."""
        self._turn_to(now_ns)
        self._check("tokens", self._tokens, tokens, self._limits.max_tokens, now_ns)
        self._check("usd", self._usd, usd, self._limits.max_usd, now_ns)
        self._tokens += tokens
        self._usd += usd
        return Reservation(tokens, usd, self._window)

    def settle(self, reservation: Reservation, tokens: int, usd: float) -> None:
        """Replace what was reserved by what the call did cost; without this the reservation stands."""
        if reservation.window == self._window:
            self._tokens += tokens - reservation.tokens
            self._usd += usd - reservation.usd
        reservation.tokens, reservation.usd = tokens, usd

    def _turn_to(self, now_ns: int) -> None:
        window = now_ns // _WINDOW_NS[self._limits.per]
        if window > self._window:  # a clock that is set back does not open a spent window again
            self._window, self._tokens, self._usd = window, 0, 0.0

    def _check(self, unit: str, spent: float, wanted: float, limit: float | None, now_ns: int) -> None:
        if limit is None or spent + wanted <= limit:
            return
        key = f"judge.budget.max_{unit}"
        if wanted > limit:
            raise BudgetExhaustedError(f"{key} = {limit:g} is less than one call may take ({wanted:g}); raise it")
        window_ns = _WINDOW_NS[self._limits.per]
        left_min = -(-(window_ns - now_ns % window_ns) // (60 * 10**9))
        raise BudgetExhaustedError(
            f"{key} = {limit:g} for this {self._limits.per} is spent ({spent:g}); the next begins in {left_min} min"
        )
