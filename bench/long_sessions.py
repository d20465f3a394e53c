"""How often the interval of a mean of turns holds it where one session is long, by simulation.

    python -m bench.long_sessions [--repeats 2000] [--seed 1] [--grades]

Prints for each cell the width that the known variance would give (3.92 standard errors) and the
coverage and width of three intervals: the former one, which took degrees of freedom from the
shares and added a session like the heaviest; the jackknife over sessions with Satterthwaite's
degrees of freedom (Bell and McCaffrey 2002); and the one that is used. Then the worst of each.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, t

from bench.coverage import of_sessions

Numbers = NDArray[np.float64]


class Data(NamedTuple):
    """Data sets, one a row: the turns of each session, their sum, and the sum of their squares."""

    turns: Numbers
    sums: Numbers
    squares: Numbers


LONG = {"equal": 0.0, "one of 5 %": 0.05, "one of 20 %": 0.2, "one of half": 0.5}
ALIKE = (0.0, 0.1, 0.5, 1.0)
RATES = (0.02, 0.2, 0.5, 0.8, 0.98)
COUNTS = (5, 30, 150, 1900)


def lengths(long: str, sessions: int) -> NDArray[np.int64]:
    """Sessions of two turns, of which the first has a share of all turns, or two of a tenth."""
    turns = np.full(sessions, 2)
    if long == "two of 10 %":
        turns[:2] = max(2, round(0.125 * (sessions - 2) * 2))
    elif share := LONG[long]:
        turns[0] = max(2, round(share / (1 - share) * (sessions - 1) * 2))
    return turns


def drawn(
    turns: NDArray[np.int64], rate: float, alike: float, repeats: int, rng: Any, *, grades: bool
) -> Data:
    """Turns that pass with a chance of their session, beta distributed with the correlation
    `alike`; as grades each is the mean of two.
    """
    shape = (repeats, len(turns))
    if alike in (0, 1):
        chance = np.where(alike == 0, rate, rng.random(shape) < rate).astype(float)
    else:
        chance = rng.beta(rate * (1 / alike - 1), (1 - rate) * (1 / alike - 1), shape)
    if not grades:
        passed = rng.binomial(turns, chance).astype(float)
        return Data(np.broadcast_to(turns, shape).astype(float), passed, passed.sum(1))
    both = rng.binomial(turns, chance**2)
    once = rng.binomial(turns - both, np.minimum(1, 2 * chance / (1 + chance)))
    return Data(
        np.broadcast_to(turns, shape).astype(float), both + once / 2, (both + once / 4).sum(1)
    )


def used(data: Data) -> tuple[Any, Any]:
    return of_sessions(*data)


def _pulled(data: Data) -> tuple[Numbers, Numbers, Numbers]:
    total = data.turns.sum(1, keepdims=True)
    center = data.sums.sum(1, keepdims=True) / total
    return center[:, 0], data.turns / total, (data.sums - center * data.turns) / total


def jackknife(data: Data) -> tuple[Any, Any]:
    center, shares, pulls = _pulled(data)
    squares = (pulls / np.maximum(1 - shares, 1e-9)) ** 2
    degrees = np.maximum((shares**2).sum(1) ** 2 / (shares**4).sum(1) - 1, 1)
    away = t.ppf(0.975, degrees) * np.sqrt(squares.sum(1))
    return np.maximum(center - away, 0), np.minimum(center + away, 1)


def former(data: Data) -> tuple[Any, Any]:
    center, shares, pulls = _pulled(data)
    square, quartic = (shares**2).sum(1), (shares**4).sum(1)
    n, carriers = 1 / square, square**2 / quartic
    spread, fourth = (pulls**2).sum(1), (pulls**4).sum(1)
    rests_on = np.divide(spread**2, fourth, out=np.zeros_like(spread), where=fourth > 1e-60)
    units = np.maximum(shares.max(1) * n, 1)
    seen = np.minimum(rests_on, n / units**2 / np.minimum(units, 8))
    added = np.clip((30 - seen) / 15, 0, 1)
    even, uneven = (t.ppf(0.975, np.maximum(x - 1, 1)) for x in (n, carriers))
    faded = (even / 1.96) ** 2 * (n + 1) / np.maximum(n - 1, 1e-9) - 1
    widened = (uneven / even) ** 2 * (1 + (1 - added) * faded)
    limits = []
    for bound, share in ((0.0, 0.025), (1.0, 0.975)):
        more = added * units
        total = n + more
        shifted = np.clip(center + more / total * (bound - center), 1e-9, 1 - 1e-9)
        around = spread * n * n + n * more * units / total * (bound - center) ** 2
        most = shifted * (1 - shifted)
        own = np.clip(around / total / (total + 1) * widened, 1e-12 * most, 0.999999 * most)
        count = most / own - 1
        limits.append(beta.ppf(share, shifted * count, (1 - shifted) * count))
    return np.where(center <= 0, 0, limits[0]), np.where(center >= 1, 1, limits[1])


METHODS: dict[str, Callable[[Data], tuple[Any, Any]]] = {
    "former": former,
    "jackknife": jackknife,
    "used": used,
}


class Row(NamedTuple):
    """Coverage and mean width of each method in a cell, beside the width of the known variance."""

    name: str
    known: float
    found: dict[str, tuple[float, float]]


def rows(
    repeats: int,
    seed: int,
    *,
    grades: bool = False,
    counts: tuple[int, ...] = COUNTS,
    methods: tuple[str, ...] = tuple(METHODS),
) -> Iterator[Row]:
    """Each cell of the grid."""
    rng = np.random.default_rng(seed)
    cells = itertools.product((*LONG, "two of 10 %"), counts, RATES, ALIKE)
    for long, sessions, rate, alike in cells:
        turns = lengths(long, sessions)
        data = drawn(turns, rate, alike, repeats, rng, grades=grades)
        found = {}
        for name in methods:
            low, high = METHODS[name](data)
            held = (low <= rate + 1e-9) & (rate - 1e-9 <= high)
            found[name] = float(held.mean()), float((high - low).mean())
        of_turns = alike + (1 - alike) / (turns * (2 if grades else 1))
        variance = rate * (1 - rate) * ((turns / turns.sum()) ** 2 * of_turns).sum()
        name = f"{long}, {sessions} sessions, rate {rate}, alike {alike}"
        yield Row(name, 3.92 * float(variance) ** 0.5, found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=2000, help="data sets of each cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--grades", action="store_true", help="turns of 0, 0.5 and 1")
    args = parser.parse_args()
    print(f"| cell | known | {' | '.join(METHODS)} |\n|---|---|{'---|' * len(METHODS)}")
    found = []
    for row in rows(args.repeats, args.seed, grades=args.grades):
        shown = " | ".join(f"{held:.3f}, {width:.3f}" for held, width in row.found.values())
        print(f"| {row.name} | {row.known:.3f} | {shown} |", flush=True)
        found.append(row)
    for name in METHODS:
        worst = min(found, key=lambda x: x.found[name][0])
        wider = np.median([x.found[name][1] / x.known for x in found])
        held = sum(x.found[name][0] >= 0.93 for x in found)
        print(
            f"{name}: worst {worst.found[name][0]:.3f} ({worst.name}); {held} of {len(found)} cells"
            f" at .93 or more; median width {wider:.2f} of the known"
        )


if __name__ == "__main__":
    main()
