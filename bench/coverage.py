"""How often the intervals of `spanscore.stats` contain the truth, by simulation.

    python bench/coverage.py [METHOD ...] [--repeats 4000] [--seed 1]

Prints a table for each method: of each cell (what the data are like, and how many) the coverage of
its 95 % intervals and their mean width; then the worst and the median coverage by method, as
docs/statistics.md has them. Exits 1 where a coverage is outside what that page promises by more
than three standard errors. The tests simulate a few cells of each method. `spanscore compare` has
a simulation of its own in compare_coverage.py, false alarms of monitors have one in anytime.py.
"""

import argparse
import itertools
import math
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from spanscore.stats import (
    Confusion,
    Estimate,
    best_threshold,
    corrected_difference,
    corrected_rate,
    difference_of_corrected,
    moments,
    weighted_difference,
    weighted_mean,
    weighted_total,
)
from spanscore.stats.agreement import area_limits, area_pulls, kappa_limits, kappa_pulls
from spanscore.stats.anytime import confidence_sequence
from spanscore.stats.attempts import bca_limits
from spanscore.stats.correction import Counted, corrected_distance, powered_limits
from spanscore.stats.distributions import normal_quantile
from spanscore.stats.limits import Spread, bounded_limits, limits_of
from spanscore.stats.means import effect_between, weighted_means
from spanscore.stats.weighted import corrected_mean, crossed

Numbers = NDArray[np.float64]
Rng = np.random.Generator

LEVEL = 0.95
LEAST, MOST = 0.93, 0.97
AT_ONCE = 500
"""Data sets that are drawn together, to bound memory."""


class Simulated(NamedTuple):
    """Of each data set whether its interval holds the truth, and the interval's width."""

    held: NDArray[np.bool_]
    widths: Numbers

    @property
    def coverage(self) -> float:
        return float(self.held.mean())


class Cell(NamedTuple):
    """What the data are like: draws so many data sets; and the coverage that is promised."""

    draw: Callable[[Rng, int], Simulated]
    least: float = LEAST
    most: float = 1.0

    def allowed(self, repeats: int, errors: float = 3) -> tuple[float, float]:
        """The coverages that so many standard errors of so many data sets leave possible."""
        least, most = (errors * math.sqrt(x * (1 - x) / repeats) for x in (self.least, self.most))
        return self.least - least, self.most + most


Cells = Mapping[str, Cell]


def simulated(cell: Cell, name: str, repeats: int, seed: int) -> Simulated:
    """The cell's data sets, which do not depend on which other cells are simulated."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    found = [cell.draw(rng, min(AT_ONCE, repeats - x)) for x in range(0, repeats, AT_ONCE)]
    return Simulated(*(np.concatenate(x) for x in zip(*found, strict=True)))


def within(limits: tuple[Any, Any], truth: Any) -> Simulated:
    """Whether limits, one of each data set, hold the truth."""
    low, high = (np.asarray(x, float) for x in limits)
    return Simulated((low <= truth + 1e-9) & (truth - 1e-9 <= high), high - low)


def of_estimates(found: Iterable[tuple[Estimate, float] | None]) -> Simulated:
    """Of estimates, each with its truth; a data set that nothing was drawn from has none."""
    limits = [(x.interval.low, x.interval.high, truth) for x, truth in filter(None, found)]
    low, high, truths = np.array(limits).T
    return within((low, high), truths)


def most(n: float, truth: float) -> float:
    """The greatest coverage that is promised of so many units and such a truth."""
    return MOST if n >= 100 and 0.2 <= truth <= 0.8 else 1.0


# Means


def bounded(x: Numbers, turns: Numbers | None = None) -> tuple[Any, Any]:
    """The limits of the mean of each row, of sessions with so many turns that are all alike."""
    if turns is None:
        shares = np.full(x.shape, 1 / x.shape[1])
        center = x.mean(1)
        return bounded_limits(center, shares, shares * (x - center[:, None]), LEVEL)
    return of_sessions(turns, turns * x, (turns * x**2).sum(1))


def of_sessions(
    turns: Numbers, sums: Numbers, squares: Numbers, level: float = LEVEL
) -> tuple[Any, Any]:
    """The limits of the mean turn of each row; a session has the sum of its turns' values, or no
    turn.
    """
    total = turns.sum(1)
    center = sums.sum(1) / total
    pulls = (sums - center[:, None] * turns) / total[:, None]
    shares = turns / total[:, None]
    of_share = pulls**2 / np.maximum(shares, 1e-12)
    count = (turns > 0).sum(1)
    spread = Spread(
        center,
        count,
        (shares**2).sum(1),
        1 / total,
        count / total,
        np.maximum(squares / total - center**2, 0),
        (pulls**2).sum(1),
        (pulls**2 * shares**2).sum(1),
        of_share.sum(1),
        (of_share**2).sum(1),
    )
    return limits_of(spread, level)


SCORES: dict[str, tuple[Callable[[Rng, Any], Any], float]] = {
    "uniform": (lambda rng, size: rng.random(size), 0.5),
    "bell": (lambda rng, size: rng.beta(2, 2, size), 0.5),
    "high": (lambda rng, size: rng.beta(8, 2, size), 0.8),
    "U": (lambda rng, size: rng.beta(0.5, 0.5, size), 0.5),
    "five grades": (lambda rng, size: rng.choice(5, size, p=[0.1, 0.1, 0.2, 0.3, 0.3]) / 4, 0.65),
    "mostly 1": (lambda rng, size: np.where(rng.random(size) < 0.9, 1, rng.random(size)), 0.95),
    "rarely 0": (lambda rng, size: np.where(rng.random(size) < 0.05, 0, 0.9), 0.855),
    "nearly always 1": (lambda rng, size: (rng.random(size) < 0.99).astype(float), 0.99),
    "near 0": (lambda rng, size: rng.beta(0.1, 0.9, size), 0.1),
    "skewed": (lambda rng, size: rng.beta(0.3, 0.9, size), 0.25),
    "close together": (lambda rng, size: rng.beta(20, 20, size), 0.5),
    "very close": (lambda rng, size: rng.beta(180, 45, size), 0.8),
    "two near values": (lambda rng, size: rng.choice([0.7, 0.9], size), 0.8),
}


def mean_of(scores: str, n: int, rng: Rng, repeats: int) -> Simulated:
    draw, truth = SCORES[scores]
    return within(bounded(draw(rng, (repeats, n))), truth)


Kind = float | tuple[float, float]
"""A pass rate, or a and b of a beta distribution of scores."""


def values(rng: Rng, rare: NDArray[np.bool_], kinds: tuple[Kind, Kind]) -> Numbers:
    """Scores or passes of units of two kinds."""
    drawn = [
        rng.beta(*x, rare.shape) if isinstance(x, tuple) else rng.random(rare.shape) < x
        for x in kinds
    ]
    return np.where(rare, *drawn).astype(float)


def of_both(share: float, kinds: tuple[Kind, Kind]) -> float:
    """The mean of a population of which such a share is of the first kind."""
    a, b = (x[0] / sum(x) if isinstance(x, tuple) else x for x in kinds)
    return share * a + (1 - share) * b


KEPT = {
    "one fifth at 1 in 10": (0.2, 0.1),
    "half at 1 in 4": (0.5, 0.25),
    "most at 1 in 2": (0.8, 0.5),
}
KINDS: dict[str, tuple[Kind, Kind]] = {
    "pass or fail": (0.6, 0.6),
    "unlike": (0.3, 0.7),
    "graded": ((4, 2), (4, 2)),
    "graded and unlike": ((3, 4), (4, 2)),
}


def kept_share(share: float, chance: float) -> float:
    """Of the units that are kept, how many are of the kind that is drawn with a chance."""
    return share * chance / (share * chance + 1 - share)


def mean_of_kept(drawn: str, kinds: str, n: int, rng: Rng, repeats: int) -> Simulated:
    """Of the population a share is kept with a chance and the rest always; `n` kept ones are
    seen.
    """
    share, chance = KEPT[drawn]
    rare = rng.random((repeats, n)) < kept_share(share, chance)
    x, chances = values(rng, rare, KINDS[kinds]), np.where(rare, chance, 1.0)
    found = (moments(*each) for each in zip(x, chances, strict=True))
    truth = of_both(share, KINDS[kinds])
    return of_estimates((x, truth) for x in weighted_means(list(found)))


def rate_of_turns(sessions: int, rng: Rng, repeats: int) -> Simulated:
    """Of sessions of 1 to 6 turns, whose turns are alike."""
    turns = rng.integers(1, 7, (repeats, sessions))
    passed = rng.binomial(turns, rng.beta(1.5, 1, turns.shape))
    return within(bounded(passed / turns, turns.astype(float)), 0.6)


def means() -> Cells:
    return {
        f"{x}, n {n}": Cell(partial(mean_of, x, n), most=most(n, SCORES[x][1]))
        for x, n in itertools.product(SCORES, (2, 5, 30, 100))
    }


def means_of_kept() -> Cells:
    return {
        f"{kinds}, {drawn}, n {n}": Cell(partial(mean_of_kept, drawn, kinds, n))
        for kinds, drawn, n in itertools.product(KINDS, KEPT, (30, 150, 400))
    }


def rates_of_turns() -> Cells:
    return {
        f"{n} sessions": Cell(partial(rate_of_turns, n), most=most(n, 0.6)) for n in (10, 40, 120)
    }


# Differences of scores

SIZES: dict[str, Callable[[Rng, Any], Any]] = {
    "of 1 to 8 turns": lambda rng, size: rng.integers(1, 9, size),
    "mostly short": lambda rng, size: rng.geometric(0.3, size),
    "a few of very many turns": lambda rng, size: np.minimum(np.ceil(rng.pareto(1.2, size)), 200),
}
MOVES: dict[str, tuple[Callable[[Rng, Any], Any], float]] = {
    "both ways": (lambda rng, size: rng.choice([-1, 0, 1], size, p=[0.2, 0.4, 0.4]), 0.2),
    "one way": (lambda rng, size: rng.choice([0, 1], size, p=[0.8, 0.2]), 0.2),
    "graded": (lambda rng, size: rng.beta(4, 2, size) - rng.beta(3, 3, size), 4 / 6 - 0.5),
}


def of_changes(changes: Numbers, truth: float, weights: Numbers | None = None) -> Simulated:
    low, high = bounded((changes + 1) / 2, weights)
    return within((2 * low - 1, 2 * high - 1), truth)


def same_units(n: int, rng: Rng, repeats: int) -> Simulated:
    before, after = (0.5 * rng.beta(k, 2, (repeats, n)) for k in (2, 4))
    return of_changes(after - before, (4 / 6 - 0.5) / 2)


def same_sessions(moves: str, sizes: str, sessions: int, rng: Rng, repeats: int) -> Simulated:
    """Sessions all turns of which move alike."""
    turns = SIZES[sizes](rng, (repeats, sessions)).astype(float)
    draw, truth = MOVES[moves]
    return of_changes(draw(rng, turns.shape), truth, turns)


def other_units(n: int, rng: Rng, repeats: int) -> Simulated:
    before, after = rng.beta(2, 2, (repeats, n)), rng.beta(4, 2, (repeats, n))
    (a_low, a_high), (b_low, b_high) = bounded(before), bounded(after)
    a, b = before.mean(1), after.mean(1)
    limits = b - a - np.hypot(b - b_low, a_high - a), b - a + np.hypot(b_high - b, a - a_low)
    return within(limits, 4 / 6 - 0.5)


def paired_differences() -> Cells:
    of_units = {f"n {n}": Cell(partial(same_units, n), most=most(n, 0.5)) for n in (5, 20, 100)}
    return of_units | {
        f"{n} sessions {sizes}, {moves}": Cell(partial(same_sessions, moves, sizes, n))
        for moves, sizes, n in itertools.product(MOVES, SIZES, (6, 20, 100))
    }


def unpaired_differences() -> Cells:
    return {f"n {n} each": Cell(partial(other_units, n), most=most(n, 0.5)) for n in (5, 20, 100)}


# pass^k over tasks

TASKS: dict[str, list[tuple[float, Kind]]] = {
    "mixed": [(0.3, 0.0), (0.2, 1.0), (0.5, (1, 1))],
    "even": [(1.0, (1, 1))],
    "extreme": [(1.0, (0.5, 0.5))],
    "hard": [(0.7, 0.0), (0.3, (1, 3))],
    "easy": [(0.8, 1.0), (0.2, (3, 1))],
    "rare": [(0.95, 0.0), (0.05, (4, 1))],
}
"""Shares of tasks, and their chance to pass."""
SUITES = ((20, 5), (50, 4), (100, 8))
RESAMPLES = 300


def pass_pow(name: str, k: int) -> float:
    """The true pass^k of a population of tasks."""
    return sum(share * _power(chance, k) for share, chance in TASKS[name])


def _power(chance: Kind, k: int) -> float:
    """The mean of the chance to the power of k."""
    if not isinstance(chance, tuple):
        return chance**k
    a, b = chance
    logs = math.lgamma(a + k), math.lgamma(a + b), -math.lgamma(a), -math.lgamma(a + b + k)
    return math.exp(sum(logs))


def suites(name: str, tasks: int, trials: int, k: int, rng: Rng, repeats: int) -> Numbers:
    """The unbiased pass^k of each task of many suites, of shape (repeats, tasks)."""
    parts = TASKS[name]
    which = rng.choice(len(parts), (repeats, tasks), p=[share for share, _ in parts])
    drawn = [
        rng.beta(*x, which.shape) if isinstance(x, tuple) else np.full(which.shape, x)
        for _, x in parts
    ]
    passed = rng.binomial(trials, np.choose(which, drawn))
    of_count = np.array([math.comb(c, k) / math.comb(trials, k) for c in range(trials + 1)])
    return of_count[passed]


def over_suites(name: str, tasks: int, trials: int, k: int, rng: Rng, repeats: int) -> Simulated:
    return within(bounded(suites(name, tasks, trials, k, rng, repeats)), pass_pow(name, k))


def bootstrapped(name: str, tasks: int, trials: int, rng: Rng, repeats: int) -> Simulated:
    limits = []
    for x in suites(name, tasks, trials, 4, rng, repeats):
        kinds, counts = np.unique(x, return_counts=True)
        resampled = rng.multinomial(tasks, counts / tasks, RESAMPLES) @ kinds / tasks
        limits.append(bca_limits(x, resampled, LEVEL))
    low, high = np.array(limits).T
    return within((low, high), pass_pow(name, 4))


def passing() -> Cells:
    return {
        f"{name}, {tasks} x {trials}, k {k}": Cell(
            partial(over_suites, name, tasks, trials, k), most=most(tasks, pass_pow(name, k))
        )
        for name, (tasks, trials), k in itertools.product(TASKS, SUITES, (1, 4))
    }


def passing_bootstrapped() -> Cells:
    """Turned down: nothing is promised."""
    return {
        f"{name}, {tasks} x {trials}, k 4": Cell(
            partial(bootstrapped, name, tasks, trials), least=0.0
        )
        for name, (tasks, trials) in itertools.product(("mixed", "easy", "hard"), SUITES)
    }


# Units that were drawn with unequal chances

DRAWN = {
    "a tenth at 1 in 10": (0.1, 0.1),
    "a fiftieth at 1 in 50": (0.02, 0.02),
    "a third at 1 in 10": (0.3, 0.1),
    "all but errors at 1 in 20": (0.97, 0.05),
    "half at 1 in 2": (0.5, 0.5),
}
VALUES: dict[str, tuple[Kind, Kind]] = {
    "pass or fail": (0.6, 0.6),
    "pass or fail, unlike": (0.3, 0.7),
    "all rare ones fail": (0.0, 1.0),
    "all pass": (1.0, 1.0),
    "nearly all pass": (0.99, 0.99),
    "few pass": (0.05, 0.05),
    "hardly any pass": (0.02, 0.02),
    "graded, unlike": ((2, 4), (4, 2)),
}
LEAST_OF_FEW_PASSES = 0.88
"""Of 3,000 units one or two heavy ones pass: the exception that docs/statistics.md names."""


def weighted(kinds: str, drawn: str, n: int, rng: Rng, repeats: int) -> Simulated:
    share, chance = DRAWN[drawn]
    rare = rng.random((repeats, n)) < share
    y, chances = values(rng, rare, VALUES[kinds]), np.where(rare, chance, 1.0)
    drawn_units = rng.random(rare.shape) < chances
    found = [
        moments(of[x], by[x]) for of, by, x in zip(y, chances, drawn_units, strict=True) if x.any()
    ]
    truth = of_both(share, VALUES[kinds])
    return of_estimates((x, truth) for x in weighted_means(found, least_chance=chance))


def one_by_one(
    one: Callable[..., tuple[Estimate, float] | None], *given: Any
) -> Callable[[Rng, int], Simulated]:
    """Draws data sets each by itself; `one` gives an estimate and its truth, None of no units."""

    def draw(rng: Rng, repeats: int) -> Simulated:
        return of_estimates(one(*given, rng) for _ in range(repeats))

    return draw


def weighted_sessions(sessions: int, alike: float, rng: Rng) -> tuple[Estimate, float] | None:
    """Of sessions with an error all are drawn, of the others one in five."""
    turns, chance = rng.integers(1, 7, sessions), 0.2
    errs = np.repeat(rng.random(sessions) < 0.3, turns)
    common = np.repeat(rng.random(sessions), turns)
    luck = np.where(rng.random(len(errs)) < alike, common, rng.random(len(errs)))
    kept = np.repeat(rng.random(sessions) < chance, turns) | errs
    y, chances = (luck < np.where(errs, 0.2, 0.8)).astype(float), np.where(errs, 1.0, chance)
    of_session = np.repeat(np.arange(sessions), turns)[kept].tolist()
    found = moments(y[kept], chances[kept], clusters=of_session)
    return (weighted_mean(found, least_chance=chance), 0.62) if found.units else None


def total(
    chances: tuple[float, float], share: float, units: int, rng: Rng
) -> tuple[Estimate, float]:
    """A share passes; three in ten were drawn with the first chance."""
    y = (rng.random(units) < share).astype(float)
    chance = np.where(rng.random(units) < 0.3, *chances)
    kept = rng.random(units) < chance
    return weighted_total(y[kept], chance[kept], least_chance=min(chances)), float(y.sum())


def total_of_sessions(rng: Rng) -> tuple[Estimate, float]:
    turns = rng.integers(1, 6, 80)
    of_turn = np.repeat(np.arange(80), turns)
    y = np.repeat(rng.random(80) < 0.2, turns).astype(float)
    kept = (rng.random(80) < 0.25)[of_turn]
    chances, clusters = np.full(kept.sum(), 0.25), of_turn[kept].tolist()
    return weighted_total(y[kept], chances, clusters=clusters, least_chance=0.25), float(y.sum())


def by_cluster(y: Any, chances: Any, clusters: Any) -> dict[Any, tuple[float, float]]:
    """Each cluster's weighted values and weight, as `crossed` takes them."""
    sums: dict[Any, tuple[float, float]] = {}
    for value, chance, cluster in zip(y, chances, clusters, strict=True):
        a, b = sums.get(cluster, (0.0, 0.0))
        sums[cluster] = (a + value / chance, b + 1 / chance)
    return sums


def shared_sessions(sessions: int, shared: float, rng: Rng) -> tuple[Estimate, float] | None:
    """Two runs, of whose sessions a share is the same; the second passes .15 more."""
    are_shared = np.arange(sessions) < shared * sessions
    kind = rng.random((2, sessions))
    kind[1] = np.where(are_shared, *kind)
    groups = []
    for own, apart, better in zip(kind, (0, 1000), (0.0, 0.15), strict=True):
        names = np.where(are_shared, 0, apart) + np.arange(sessions)
        chance = np.where(own < 0.4, 1.0, 0.4)
        kept = rng.random(sessions) < chance
        y = (rng.random(sessions) < 0.1 + better + 0.7 * own).astype(float)
        groups.append((y[kept], chance[kept], names[kept].tolist()))
    if not all(len(x[0]) for x in groups):
        return None
    before, after = (moments(*x[:2], clusters=x[2]) for x in groups)
    common = crossed(*(by_cluster(*x) for x in groups))
    return weighted_difference(before, after, shared=common, least_chance=0.4), 0.15


def weighted_cells() -> Cells:
    of_units = {
        f"{kinds}, {drawn}, n {n}": Cell(
            partial(weighted, kinds, drawn, n),
            least=LEAST_OF_FEW_PASSES if kinds == "hardly any pass" else LEAST,
        )
        for kinds, drawn, n in itertools.product(VALUES, DRAWN, (20, 200, 1000, 3000))
    }
    return of_units | {
        f"{n} sessions, alike {alike}": Cell(one_by_one(weighted_sessions, n, alike))
        for n, alike in itertools.product((8, 30, 150), (0.0, 0.6, 1.0))
    }


def weighted_totals() -> Cells:
    chances = ((1.0, 0.05), (1.0, 0.3), (0.5, 0.5))
    of_units = {
        f"{n} units at {x[0]} and {x[1]}, {share} pass": Cell(one_by_one(total, x, share, n))
        for x, share, n in itertools.product(chances, (0.0, 0.05, 0.5), (20, 200))
    }
    return {**of_units, "80 sessions at 0.25, 0.2 pass": Cell(one_by_one(total_of_sessions))}


def weighted_differences() -> Cells:
    return {
        f"{n} sessions, {shared} shared": Cell(one_by_one(shared_sessions, n, shared))
        for n, shared in itertools.product((6, 25, 100), (0.0, 0.5, 1.0))
    }


# What is freed of a judge's error


def passes_of(rate: float, sensitivity: float, specificity: float) -> float:
    """The share that a judge passes, of which `rate` truly pass."""
    return rate * sensitivity + (1 - rate) * (1 - specificity)


def judge_on(rng: Rng, sensitivity: float, specificity: float, labels: int) -> Confusion:
    """A judge's table on so many labels of each class."""
    right, wrong = (int(x) for x in rng.binomial(labels, [sensitivity, 1 - specificity]))
    return Confusion(right, labels - right, wrong, labels - wrong)


def corrected(
    rate: float, judge: tuple[float, float], share: float, rng: Rng, repeats: int
) -> Simulated:
    """100 labelled units, of which chance says how many pass, and 150 others; the score test has
    no limits here, so no width is known.
    """
    passes = rng.binomial(100, share, repeats)
    right, wrong = rng.binomial(passes, judge[0]), rng.binomial(100 - passes, 1 - judge[1])
    passed = rng.binomial(150, passes_of(rate, *judge), repeats)
    counts = Counted(passed, 150), Counted(right, passes), Counted(wrong, 100 - passes)
    held = abs(corrected_distance(counts, rate)) <= normal_quantile((1 + LEVEL) / 2)
    return Simulated(held, np.full(repeats, np.nan))


def corrected_sessions(rng: Rng) -> tuple[Estimate, float]:
    """Verdicts of 120 sessions; those with an error are all drawn, of the others two in five."""
    judge, turns = judge_on(rng, 0.9, 0.85, 80), rng.integers(1, 5, 120)
    errs = np.repeat(rng.random(120) < 0.3, turns)
    passes = np.repeat(rng.random(120), turns) < np.where(errs, 0.2, 0.8)
    y = (rng.random(len(passes)) < np.where(passes, 0.9, 0.15)).astype(float)
    kept = errs | np.repeat(rng.random(120) < 0.4, turns)
    of_session = np.repeat(np.arange(120), turns)[kept].tolist()
    found = moments(y[kept], np.where(errs, 1.0, 0.4)[kept], clusters=of_session)
    return corrected_mean(found, judge), 0.62


def by_one_judge(
    rates: tuple[float, float], judge: tuple[float, float], labels: int, rng: Rng
) -> tuple[Estimate, float]:
    """The difference of two pass rates of 300 verdicts each."""
    passed = (int(rng.binomial(300, passes_of(x, *judge))) for x in rates)
    before, after = (moments([1] * x + [0] * (300 - x), [1] * 300) for x in passed)
    found = corrected_difference(weighted_difference(before, after), judge_on(rng, *judge, labels))
    return found, rates[1] - rates[0]


def by_two_judges(rng: Rng) -> tuple[Estimate, float]:
    found = [
        corrected_rate(
            int(rng.binomial(300, passes_of(rate, *judge))), 300, judge_on(rng, *judge, 60)
        )
        for rate, judge in ((0.5, (0.9, 0.8)), (0.75, (0.8, 0.9)))
    ]
    return difference_of_corrected(*found), 0.25


def corrected_rates() -> Cells:
    of_units = {
        f"rate {rate}, judge {judge[0]} / {judge[1]}, {share} of labels pass": Cell(
            partial(corrected, rate, judge, share), most=MOST
        )
        for rate, judge, share in itertools.product(
            (0.2, 0.8), ((0.7, 0.95), (0.9, 0.8)), (0.5, 0.8)
        )
    }
    return {**of_units, "weighted verdicts in 120 sessions": Cell(one_by_one(corrected_sessions))}


def corrected_differences() -> Cells:
    designs = (
        ((0.7, 0.7), (0.9, 0.85), 60),
        ((0.5, 0.8), (0.9, 0.85), 60),
        ((0.9, 0.6), (0.8, 0.7), 80),
        ((0.95, 0.85), (0.95, 0.9), 25),
        ((0.2, 0.9), (0.85, 0.8), 40),
    )
    by_one = {
        f"{rates[0]} to {rates[1]}, judge {judge[0]} / {judge[1]}, {labels} labels a class": Cell(
            one_by_one(by_one_judge, rates, judge, labels)
        )
        for rates, judge, labels in designs
    }
    return {**by_one, "two judges": Cell(one_by_one(by_two_judges))}


def powered(
    rate: float, judge: tuple[float, float], sizes: tuple[int, int], rng: Rng, repeats: int
) -> Simulated:
    """Some units are labelled, all are judged."""
    labelled, others = sizes
    truth = rng.random((repeats, labelled + others)) < rate
    chances = rng.random(truth.shape)
    judged = np.where(truth, chances < judge[0], chances > judge[1]).astype(float)
    return _powered(truth.astype(float), judged, labelled, rate)


def powered_grades(rng: Rng, repeats: int) -> Simulated:
    truth = rng.beta(3, 2, (repeats, 500))
    judged = np.clip(truth + rng.normal(0.1, 0.1, truth.shape), 0, 1)
    return _powered(truth, judged, 100, 0.6)


def _powered(truth: Numbers, judged: Numbers, labelled: int, rate: float) -> Simulated:
    labels, scores, others = truth[:, :labelled], judged[:, :labelled], judged[:, labelled:]
    return within(powered_limits(labels, scores, others, LEVEL)[1], rate)


def powered_means() -> Cells:
    many = itertools.product((0.2, 0.5, 0.8), ((100, 100), (100, 400)))
    few = itertools.product((0.05, 0.5, 0.95), ((10, 50), (20, 200), (50, 200)))
    of_rates = {
        f"rate {rate}, {n} labelled, {more} others, judge {judge[0]} / {judge[1]}": Cell(
            partial(powered, rate, judge, (n, more)), most=most(n, rate)
        )
        for (rate, (n, more)), judge in itertools.product((*many, *few), ((0.95, 0.95), (0.8, 0.6)))
    }
    return {**of_rates, "graded, 100 labelled, 400 others": Cell(powered_grades, most=MOST)}


# Kappa


def agreeing(first: float, second: float, value: float) -> Numbers:
    """The shares of both yes, only the first, only the second, neither, for two rates of yes and a
    kappa.
    """
    chance = first * second + (1 - first) * (1 - second)
    both = (value * (1 - chance) + chance - 1 + first + second) / 2
    shares = np.array([both, first - both, second - both, 1 - first - second + both])
    if (shares < -1e-12).any():
        raise ValueError("no two people can agree like this")
    return shares.clip(0) / shares.sum()


def kappas(first: float, second: float, value: float, n: int, rng: Rng, repeats: int) -> Simulated:
    """Of the samples that have both classes."""
    drawn = rng.multinomial(n, agreeing(first, second, value), repeats).astype(float)
    drawn = drawn[(drawn[:, 0] < n) & (drawn[:, 3] < n)]
    return within(kappa_limits(drawn.reshape(-1, 2, 2), LEVEL), value)


def kappas_of_sessions(
    count: int, alike: float, rng: Rng, repeats: int, *, by_turns: bool = False
) -> Simulated:
    """Sessions of 1 to 5 turns, all of which are alike in a share of the sessions."""
    shares = np.array([0.5, 0.1, 0.1, 0.3])
    turns = rng.integers(1, 6, count)
    of_turn, starts = np.repeat(np.arange(count), turns), np.cumsum(turns) - turns
    drawn, common = (rng.choice(4, (repeats, size), p=shares) for size in (turns.sum(), count))
    are_alike = rng.random((repeats, count)) < alike
    cells = np.where(are_alike[:, of_turn], common[:, of_turn], drawn)
    counts = np.stack([(cells == x).sum(1) for x in range(4)], -1).reshape(-1, 2, 2).astype(float)
    pulls = np.take_along_axis(kappa_pulls(counts).reshape(-1, 4), cells, 1)
    effect = effect_between(pulls, np.add.reduceat(pulls, starts, 1))[:, None, None]
    value = (0.8 - 0.52) / (1 - 0.52)
    return within(kappa_limits(counts if by_turns else counts / effect, LEVEL), value)


def kappa_cells() -> Cells:
    many = itertools.product(
        ((0.5, 0.5), (0.7, 0.6), (0.8, 0.7), (0.8, 0.8), (0.2, 0.3)), (0.0, 0.3, 0.6), (100, 300)
    )
    few = itertools.product(
        ((0.5, 0.5), (0.9, 0.8), (0.95, 0.95), (0.1, 0.1)), (0.0, 0.3, 0.5), (10, 20, 50, 100)
    )
    near_1 = [((x, x), 0.85, n) for x, n in ((0.5, 20), (0.9, 50), (0.85, 100), (0.5, 100))]
    of_units = {
        f"{value} of rates {rates[0]} and {rates[1]}, n {n}": Cell(
            partial(kappas, *rates, value, n), most=limit
        )
        for cells, limit in ((few, 1.0), (near_1, 1.0), (many, MOST))
        for rates, value, n in cells
    }
    return of_units | {
        f"{n} sessions, {alike} alike": Cell(
            partial(kappas_of_sessions, n, alike), most=MOST if n >= 100 else 1.0
        )
        for n, alike in ((25, 0.6), (100, 0.0), (100, 0.6))
    }


# Scores beside labels

NORMAL = NormalDist()
SHAPES: dict[str, dict[str, Any]] = {
    "normal": {},
    "unequal spread": {"spread": 2.0},
    "five grades": {"grades": [-1, 0, 1, 2]},
    "three grades": {"grades": [0.5, 2.5]},
}


def placements(high: Numbers, low: Numbers) -> tuple[Numbers, Numbers]:
    """The share of the lower scores below each higher one, and of the higher above each lower; ties
    count half.
    """
    m, n = high.shape[1], low.shape[1]
    ranks = rankdata(np.concatenate((high, low), 1), axis=1)
    wins = (ranks[:, :m] - rankdata(high, axis=1)) / n
    return wins, 1 - (ranks[:, m:] - rankdata(low, axis=1)) / m


def areas(shape: str, area: float, sizes: tuple[int, int], rng: Rng, repeats: int) -> Simulated:
    """Normal passes and fails, maybe of unequal spread or in grades."""
    spread, grades = SHAPES[shape].get("spread", 1.0), SHAPES[shape].get("grades")
    shift = (1 + spread**2) ** 0.5 * NORMAL.inv_cdf(area)
    high = rng.normal(shift, spread, (repeats, sizes[0]))
    low = rng.normal(0, 1, (repeats, sizes[1]))
    if grades is not None:
        high, low = (np.digitize(x, grades).astype(float) for x in (high, low))
        of_high = np.diff([0, *(NORMAL.cdf((x - shift) / spread) for x in grades), 1])
        of_low = np.diff([0, *(NORMAL.cdf(x) for x in grades), 1])
        area = float(of_high @ (np.cumsum(of_low) - of_low / 2))
    return within(area_limits(*placements(high, low), LEVEL), area)


def areas_of_sessions(count: int, rng: Rng, repeats: int) -> Simulated:
    """Sessions of three turns with much in common; normals 1 apart."""
    own, common = rng.normal(size=(repeats, count, 3)), rng.normal(size=(repeats, count, 1))
    scores = 0.8**0.5 * common + 0.2**0.5 * own
    half = count // 2
    high, low = (x.reshape(repeats, -1) for x in (1 + scores[:, :half], scores[:, half:]))
    wins, losses = placements(high, low)
    pulls = area_pulls(wins, 1 - losses)
    effect = effect_between(pulls, pulls.reshape(repeats, count, 3).sum(-1))
    return within(area_limits(wins, losses, LEVEL, effect), NORMAL.cdf(0.5**0.5))


def threshold(m: int, n: int, by: str, rng: Rng) -> tuple[Estimate, float]:
    """Two normals 1.5 apart, whose densities cross at what is best."""
    best = 0.75 - (math.log(m / n) / 1.5 if by == "agreement" else 0)
    scores = np.concatenate((rng.normal(1.5, 1, m), rng.normal(0, 1, n)))
    labels = [True] * m + [False] * n
    return best_threshold(labels, scores, by=by, bounds=(-5, 8), resamples=120), best


def threshold_of_grades(rng: Rng) -> tuple[Estimate, float]:
    """Five grades of such normals: of the four thresholds between them the second is best."""
    scores = np.concatenate((rng.normal(1.5, 1, 50), rng.normal(0, 1, 50)))
    grades = np.digitize(scores, [-0.5, 0.5, 1.3, 2.0])
    labels = [True] * 50 + [False] * 50
    return best_threshold(labels, grades, bounds=(0, 4), resamples=50), 1.5


def area_cells() -> Cells:
    many = itertools.product(SHAPES, (0.6, 0.8), ((50, 50), (30, 70)))
    few = itertools.product(
        ("normal", "five grades"), (0.5, 0.8, 0.95), ((5, 5), (10, 10), (5, 15), (10, 40))
    )
    near_1 = [("normal", x, (50, 50)) for x in (0.95, 0.99)]
    of_units = {
        f"{shape}, {area}, {sizes[0]} and {sizes[1]}": Cell(
            partial(areas, shape, area, sizes), most=limit
        )
        for cells, limit in ((many, MOST), (few, 1.0), (near_1, 1.0))
        for shape, area, sizes in cells
    }
    return of_units | {
        f"{n} sessions": Cell(partial(areas_of_sessions, n), most=MOST if n >= 100 else 1.0)
        for n in (30, 100)
    }


def thresholds() -> Cells:
    return {
        "by youden, 50 and 50": Cell(one_by_one(threshold, 50, 50, "youden"), most=MOST),
        "by agreement, 60 and 40": Cell(one_by_one(threshold, 60, 40, "agreement"), most=MOST),
        "by youden, 5 and 20": Cell(one_by_one(threshold, 5, 20, "youden")),
        "five grades, 50 and 50": Cell(one_by_one(threshold_of_grades), least=MOST),
    }


# At any time

HEAVIEST = 12.0
LOOKS = (5, 20, 80, 300)


def sessions(rng: Rng, size: Any, rate: float) -> tuple[Numbers, Numbers]:
    """The share of passed turns and the weight of sessions: turns are alike, one kind is drawn one
    time in three.
    """
    turns = rng.integers(1, 6, size)
    is_rare = rng.random(size) < 0.3
    quality = rng.beta(2 * rate, 2 * (1 - rate), size)
    weights = np.minimum(turns * np.where(is_rare, 1.0, 3.0), HEAVIEST)
    return rng.binomial(turns, quality) / turns, weights


def at_all_looks(rate: float, rng: Rng, repeats: int) -> Simulated:
    """Held is what all looks hold; the width is that of the last."""
    found = []
    for _ in range(repeats):
        y, w = sessions(rng, LOOKS[-1], rate)
        limits = [confidence_sequence(y[:n], w[:n], heaviest=HEAVIEST).interval for n in LOOKS]
        found.append(
            (
                max(x.low for x in limits),
                min(x.high for x in limits),
                limits[-1].high,
                limits[-1].low,
            )
        )
    low, high, last_high, last_low = np.array(found).T
    return Simulated((low <= rate) & (rate <= high), last_high - last_low)


def sequences() -> Cells:
    return {
        f"rate {x}, {LOOKS[-1]} sessions": Cell(partial(at_all_looks, x), least=LEVEL)
        for x in (0.5, 0.9, 0.99)
    }


METHODS: dict[str, Cells] = {
    "mean": means(),
    "mean-of-kept": means_of_kept(),
    "rate-of-turns": rates_of_turns(),
    "paired-difference": paired_differences(),
    "unpaired-difference": unpaired_differences(),
    "pass-pow-k": passing(),
    "pass-pow-k-bootstrap": passing_bootstrapped(),
    "weighted-mean": weighted_cells(),
    "weighted-total": weighted_totals(),
    "weighted-difference": weighted_differences(),
    "corrected-rate": corrected_rates(),
    "corrected-difference": corrected_differences(),
    "prediction-powered": powered_means(),
    "kappa": kappa_cells(),
    "area": area_cells(),
    "threshold": thresholds(),
    "confidence-sequence": sequences(),
}


def printed(cells: Cells, repeats: int, seed: int) -> tuple[list[float], bool]:
    """The coverages of the cells, which are printed, and whether all are as promised."""
    coverages, are_right = [], True
    print("| cell | coverage | width |\n|---|---|---|")
    for name, cell in cells.items():
        found = simulated(cell, name, repeats, seed)
        least, most_allowed = cell.allowed(repeats)
        is_right = least <= found.coverage <= most_allowed
        mark = "" if is_right else " (!)"
        print(f"| {name} | {found.coverage:.3f}{mark} | {found.widths.mean():.3f} |", flush=True)
        coverages.append(found.coverage)
        are_right &= is_right
    return coverages, are_right


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("method", nargs="*", help=f"{', '.join(METHODS)}; all of them without one")
    parser.add_argument("--repeats", type=int, default=4000, help="data sets of each cell")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if unknown := set(args.method) - METHODS.keys():
        parser.error(f"no such method: {', '.join(sorted(unknown))}")
    rows, all_right = [], True
    for method in args.method or METHODS:
        print(f"\n{method}, {args.repeats} data sets a cell\n")
        coverages, are_right = printed(METHODS[method], args.repeats, args.seed)
        worst, middle = min(coverages), float(np.median(coverages))
        rows.append(
            f"| {method} | {len(coverages)} | {args.repeats:,} | {worst:.3f} | {middle:.3f} |"
        )
        all_right &= are_right
    print("\n| method | cells | data sets | worst coverage | median |\n|---|---|---|---|---|")
    print("\n".join(rows))
    sys.exit(not all_right)


if __name__ == "__main__":
    main()
