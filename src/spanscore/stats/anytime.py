"""Confidence sequences, and a test for a drop.

Units come one after the other, are independent and have a value from 0 to 1: a session with the
weighted mean of its turns. Each bet on the next unit is fixed before it is seen, so under the
hypothesis the capital of who bets against it does not rise on average, and exceeds 1 / alpha at any
time with a chance of alpha at most (Ville 1939, "Étude critique de la notion de collectif";
Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spanscore.lazy_imports import NDArray, np
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level
from spanscore.stats.limits import Numbers

_NUMBER_OF_BETS = 16
_LEAST_BET, _MOST_BET = 0.002, 0.9
BETS = tuple(
    _LEAST_BET * (_MOST_BET / _LEAST_BET) ** (i / (_NUMBER_OF_BETS - 1))
    for i in range(_NUMBER_OF_BETS)
)
"""Shares of the capital that are bet, each by an equal part of it: small ones for small drops,
large ones for large.
"""

_HALVINGS = 40
_EARLY = 1000.0
"""A change is taken to be as likely as not before three times as many units; see `unspent`."""
_HIGHEST_FLOOR = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class DropTest:
    """Whether the mean has fallen below `floor`, at some unit and for good or for a while; `alpha`
    is for all time.

    `heaviest` is the greatest weight that a unit has; one that has more counts with that. It must
    be chosen before the units are seen, as must `floor`.
    """

    floor: float
    alpha: float
    heaviest: float

    def __post_init__(self) -> None:
        """Refuse what is no test. Raises ValueError."""
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha {self.alpha:g}: give a chance between 0 and 1, such as 0.01")
        if not 0 <= self.floor <= 1:
            raise ValueError(f"floor {self.floor:g}: it must lie from 0 to 1")
        if not 0 < self.heaviest < math.inf:
            raise ValueError(f"heaviest {self.heaviest:g}: give a weight above 0")

    def factors(self, value: Any, weight: Any) -> Any:
        """By what each of BETS multiplies its capital at this unit; the last axis is that of the
        bets.

        The bet is on a value below the floor: 1 + bet * w * (floor - y) / (1 - floor), where w is
        the unit's weight as a share of the heaviest. It is never below 0, and its mean is 1 at most
        where that of w * (y - floor) is 0 or more.
        """
        floor = min(self.floor, _HIGHEST_FLOOR)
        share = np.minimum(weight, self.heaviest) / self.heaviest
        return 1 + np.asarray(BETS) * (share * (floor - value) / (1 - floor))[..., None]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the units so far say for a drop. It is enough to go on with after a restart.

    By bet: `capital`, of bets that began at any unit so far; `gain`, the logarithm of what was
    gained since it last was nothing, and `units_since`, `weight_since` and `weighted_since` then:
    number, weight and weighted values of the units.
    """

    units: int = 0
    capital: tuple[float, ...] = (0.0,) * len(BETS)
    gain: tuple[float, ...] = (0.0,) * len(BETS)
    units_since: tuple[int, ...] = (0,) * len(BETS)
    weight_since: tuple[float, ...] = (0.0,) * len(BETS)
    weighted_since: tuple[float, ...] = (0.0,) * len(BETS)

    @property
    def value(self) -> float:
        """The e-value: under the hypothesis it ever reaches 1 / alpha with a chance of alpha at
        most.
        """
        return float(sum(self.capital) + unspent(self.units))

    @property
    def low_units(self) -> int:
        """Since how many units the values are likely to be low, by the bet that gained the most."""
        return self.units_since[self._best]

    @property
    def low_mean(self) -> float | None:
        """The weighted mean of these units; None where there are none."""
        best = self._best
        return (
            self.weighted_since[best] / self.weight_since[best] if self.weight_since[best] else None
        )

    @property
    def _best(self) -> int:
        return max(range(len(self.capital)), key=self.capital.__getitem__)

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Evidence:
        """What `to_json` gave. Raises ValueError where it is of another number of bets."""
        found = cls(given["units"], *(tuple(given[name]) for name in _FIELDS[1:]))
        if any(len(getattr(found, name)) != len(BETS) for name in _FIELDS[1:]):
            raise ValueError(f"evidence is of {len(BETS)} bets")
        return found


_FIELDS = ("units", "capital", "gain", "units_since", "weight_since", "weighted_since")


def unspent(units: Any) -> Any:
    """The share of the capital that is not bet before so many units have come: sqrt(1000 / (1000 +
    units)).

    What is bet from each unit on is the prior chance that the change comes there. It sums to 1 over
    all time, so there is no horizon, and falls slowly, so that a change after many units is found
    with little more delay than an early one.

    >>> float(unspent(0)), float(unspent(3000))
    (1.0, 0.5)
    """
    return (_EARLY / (_EARLY + units)) ** 0.5


def grown(capital: Any, units: Any, factors: Any) -> Any:
    """The capital by bet after one unit more than `units`: what was there and what is newly bet,
    times `factors`.

    It is the recursion of Shiryaev and Roberts with a prior. With what is unspent it is a mixture
    of martingales, one for each unit from which on the mean may be low (Shin, Ramdas and Rinaldo
    2024, "E-detectors", who have no prior and hold the mean time to a false alarm; with one, the
    chance of any is held).
    """
    return (capital + ((unspent(units) - unspent(units + 1)) / len(BETS))) * factors


def watch(
    test: DropTest, before: Evidence, values: Sequence[float], weights: Sequence[float]
) -> tuple[Evidence, bool]:
    """The evidence after these units too, in their order, and whether it says that the mean has
    fallen.

    It stops at the unit that says so: `units` then counts up to that one. Raises ValueError where a
    value or weight is none.

    >>> test = DropTest(floor=0.8, alpha=0.01, heaviest=1)
    >>> watch(test, Evidence(), [1, 0.9, 0.7, 1] * 10, [1] * 40)[1]
    False
    >>> found, fell = watch(test, Evidence(), [1, 0.9, 0.7, 1] * 10 + [0] * 40, [1] * 80)
    >>> fell, found.units, found.low_units, found.low_mean
    (True, 50, 10, 0.0)
    """
    y, w = checked_units(values, weights)
    capital, gain = np.array(before.capital), np.array(before.gain)
    units_since = np.array(before.units_since)
    sums = np.array([before.weight_since, before.weighted_since])
    units, fell = before.units, False
    for value, weight in zip(y, np.minimum(w, test.heaviest), strict=True):
        factors = test.factors(value, weight)
        capital = grown(capital, units, factors)
        units += 1
        gain += np.log(np.maximum(factors, 1e-300))
        units_since += 1
        sums += np.array([[weight], [weight * value]])
        nothing = gain <= 0
        gain[nothing], units_since[nothing], sums[:, nothing] = 0.0, 0, 0.0
        if fell := bool(capital.sum() + unspent(units) >= 1 / test.alpha):
            break
    lists = (tuple(x.tolist()) for x in (capital, gain, units_since, *sums))
    return Evidence(units, *lists), fell


def confidence_sequence(
    values: Sequence[float], weights: Sequence[float], *, heaviest: float, level: float = 0.95
) -> Estimate:
    """The weighted mean of the units so far, with limits that hold it at all times at once, by
    betting.

    Of all n, the limits of all first n units contain the mean with a chance of `level`; it holds
    for any distribution and any n. `heaviest` as `DropTest` has it: a heavier unit counts with
    that. Raises NotEstimableError without units.

    >>> found = confidence_sequence([1, 0, 1, 1] * 50, [1] * 200, heaviest=1)
    >>> found.value, round(found.interval.low, 2), round(found.interval.high, 2)
    (0.75, 0.64, 0.84)
    """
    require_level(level)
    alpha = (1 - level) / 2
    low = lower_limit(values, weights, heaviest=heaviest, alpha=alpha)
    high = 1 - lower_limit([1 - x for x in values], weights, heaviest=heaviest, alpha=alpha)
    y, w = checked_units(values, weights)
    w = np.minimum(w, heaviest)
    center = float((w @ y) / w.sum())
    effective = float(w.sum() ** 2 / (w @ w))
    return Estimate(center, len(y), Interval(low, high, level), "betting, at any time", effective)


def lower_limit(
    values: Sequence[float], weights: Sequence[float], *, heaviest: float, alpha: float
) -> float:
    """Above what the mean of the units is, at all times at once but for a chance of `alpha`; 0
    where nothing is.

    The greatest mean that bets on higher values refuse, 1 + bet * w * (y / mean - 1), as a mixture
    over BETS. Each factor falls as the mean rises, so a bisection finds it. Raises
    NotEstimableError without units.
    """
    y, w = checked_units(values, weights)
    if not len(y):
        raise NotEstimableError("there are no units")
    bets = np.asarray(BETS)[:, None] * (np.minimum(w, heaviest) / heaviest)
    enough = math.log(len(BETS) / alpha)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        logs = np.log1p(bets * (y / middle - 1)).sum(-1)
        most = float(logs.max())
        is_refused = most + math.log(float(np.exp(logs - most).sum())) >= enough
        low, high = (middle, high) if is_refused else (low, middle)
    return low


def checked_units(
    values: Sequence[float], weights: Sequence[float]
) -> tuple[Numbers, NDArray[np.float64]]:
    """Values and weights of units as arrays. Raises ValueError where one is none."""
    y, w = np.asarray(values, float), np.asarray(weights, float)
    if y.shape != w.shape:
        raise ValueError(f"{len(y)} values beside {len(w)} weights: give a weight for each")
    if not ((y >= 0) & (y <= 1)).all():
        raise ValueError("values: each must lie from 0 to 1")
    if not (np.isfinite(w) & (w > 0)).all():
        raise ValueError("weights: each must be a finite number above 0")
    return y, w
