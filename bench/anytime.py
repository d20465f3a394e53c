"""How often the test for a drop raises a false alarm in a year of looking at every session, and how
soon it finds one.

Traffic: 20 sessions an hour of 1 to 8 turns, whose turns are alike; sessions with an error are
always evaluated, one in five of the others is (inclusion weights 1 and 5). Prints the share of
years with a false alarm, for a fixed threshold that the mean just meets and for the estimate of a
reference of 400 sessions, and the delays of drops after a month. `--years` of each, at alpha .05;
exits 1 where a share is above alpha by more than three standard errors.
"""

import argparse
import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from spanscore.stats.anytime import BETS, DropTest, grown, lower_limit, unspent

Numbers = NDArray[np.float64]

ALPHA = 0.05
A_YEAR = 20 * 24 * 365
A_MONTH = 20 * 24 * 30
CHANCES = (1.0, 0.2)
HEAVIEST = 20.0
RATE = 0.85
CHUNK = 1000


def main() -> None:
    """Run all simulations and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=200)
    years = parser.parse_args().years
    mean = _mean_of(RATE)
    print(
        f"{years} years of {A_YEAR} sessions each, of which those drawn are looked at one by one;"
        f" alpha {ALPHA}"
    )
    worst = 0.0
    for name, floors, alpha in (
        ("threshold", np.full(years, mean), ALPHA),
        ("reference of 400 sessions", _references(years, 400), ALPHA / 2),
    ):
        alarms = _alarms(floors, alpha, lambda _: RATE, A_YEAR, seed=1)
        share = float((alarms < A_YEAR).mean())
        worst = max(worst, share)
        print(f"no change, {name}: {share:.3f} of the years have a false alarm")
    print(
        "drop of the turns' pass rate after a month; sessions until the alarm (median, 90 %), and"
        " alarms before"
    )
    for rate in (0.80, 0.75, 0.65, 0.45):
        floors = _references(years, 400)
        alarms = _alarms(
            floors, ALPHA / 2, lambda at, to=rate: RATE if at < A_MONTH else to, 4 * A_MONTH, seed=2
        )
        late = np.sort(alarms[alarms >= A_MONTH] - A_MONTH)
        middle, most = (int(late[int(x * (len(late) - 1))]) for x in (0.5, 0.9))
        print(f"  {RATE} -> {rate}: {middle:6}  {most:6}  {(alarms < A_MONTH).sum():4}")
    sys.exit(worst > ALPHA + 3 * (ALPHA * (1 - ALPHA) / years) ** 0.5)


def _alarms(
    floors: Numbers, alpha: float, rate_at: Callable[[int], float], sessions: int, seed: int
) -> NDArray[np.int64]:
    """For each floor after how many sessions, drawn or not, the alarm comes; `sessions` where none
    does.
    """

    rng = np.random.default_rng(seed)
    years = len(floors)
    tests = [DropTest(x, alpha, HEAVIEST) for x in floors]
    capital, units = np.zeros((years, len(BETS))), np.zeros(years)
    found = np.full(years, sessions)
    for first in range(0, sessions, CHUNK):
        values, weights, drawn = _sessions(rng, (years, CHUNK), rate_at(first))
        factors = np.stack(
            [x.factors(y, w) for x, y, w in zip(tests, values, weights, strict=True)]
        )
        for place in range(CHUNK):
            took = drawn[:, place, None]
            capital = np.where(took, grown(capital, units[:, None], factors[:, place]), capital)
            units += drawn[:, place]
            fell = capital.sum(1) + unspent(units) >= 1 / alpha
            found = np.where(fell & (found == sessions), first + place, found)
        if (found < sessions).all():
            break
    return found


def _sessions(
    rng: np.random.Generator, size: tuple[int, int], rate: float
) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """Share of passed turns and weight of each session, and whether it was drawn."""
    turns = rng.integers(1, 9, size)
    errs = rng.random(size) < 0.15
    quality = rng.beta(4 * rate, 4 * (1 - rate), size)  # turns of a session are alike
    passed = rng.binomial(turns, np.where(errs, quality / 2, quality))
    drawn = errs | (rng.random(size) < CHANCES[1])
    weights = turns / np.where(errs, *CHANCES)
    return passed / turns, weights, drawn


def _mean_of(rate: float) -> float:
    """The mean that the test takes: of turns, a session's weight being the heaviest at most."""
    values, weights, drawn = next(_samples(np.random.default_rng(0), 1, 2_000_000, rate))
    weights = np.minimum(weights[drawn], HEAVIEST)
    return float((weights * values[drawn]).sum() / weights.sum())


def _references(years: int, drawn: int) -> Numbers:
    """The lower limit of the mean of so many sessions, for each year, with an error of half of
    ALPHA.
    """
    rng = np.random.default_rng(3)
    limits = []
    for values, weights, kept in _samples(rng, years, drawn * 5, RATE):
        y, w = values[kept][:drawn], weights[kept][:drawn]
        limits.append(lower_limit(y.tolist(), w.tolist(), heaviest=HEAVIEST, alpha=ALPHA / 2))
    return np.array(limits)


def _samples(
    rng: np.random.Generator, years: int, size: int, rate: float
) -> Iterator[tuple[Numbers, Numbers, NDArray[np.bool_]]]:
    for _ in range(years):
        values, weights, drawn = _sessions(rng, (1, size), rate)
        yield values[0], weights[0], drawn[0]


if __name__ == "__main__":
    main()
