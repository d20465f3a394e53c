"""How often the intervals of `spanscore compare` hold the truth where turns cluster in sessions.

    python -m bench.compare_coverage [--repeats 1000]

Prints, for each design, the share of simulated pairs of runs in which the interval of a
difference, at 95 %, holds the true one: of a graded score (`coherence`), of the pass rate, of both
together at the level that `compare` gives each, and of the graded score were each turn a unit by
itself. The truth is the difference over all turns of the population from which both runs' sessions
are drawn. The limits of all pairs of a design are computed at once; those of its first pair are
held against what `compare` itself gives. Exits 1 where a coverage is below .93.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.coverage import of_sessions
from spanscore.cli.comparison import PASS_RATE, Limits, compare
from spanscore.cli.score_files import Run, Unit

Numbers = NDArray[np.float64]

LEVEL = 0.95
LEAST = 0.93
METRIC = "coherence"
THRESHOLD = 0.5
POPULATION = 200_000
MOST_TURNS = 50
SESSIONS = (6, 12, 40, 150)
ALIKE = (0.0, 0.5, 1.0)
"""The part of the variance of a turn's change that its session has in common."""
SIZES: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "all of 5": lambda _, count: np.full(count, 5.0),
    "1 to 8": lambda rng, count: rng.integers(1, 9, count).astype(float),
    "a few long": lambda rng, count: np.minimum(np.ceil(rng.pareto(1.2, count)), MOST_TURNS),
}
GAINS = {"the same gain": (0.05, 0.05), "long ones lose": (0.1, -0.1)}
"""By how much the scores of short sessions and of those of six turns or more move on the mean."""
LONG = 6


class Design(NamedTuple):
    """What a population of sessions is like."""

    sizes: str
    gains: str
    alike: float

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Numbers, Numbers, Numbers]:
        """For each turn of so many sessions: which it is of, and its score in both runs."""
        sizes = SIZES[self.sizes](rng, count).astype(int)
        of = np.repeat(np.arange(count), sizes)
        short, long = GAINS[self.gains]
        gain = np.where(sizes >= LONG, long, short)[of]
        before = 0.6 + 0.15 * self._noise(rng, count, of)
        after = before + gain + 0.2 * self._noise(rng, count, of)
        return of, np.clip(before, 0, 1), np.clip(after, 0, 1)

    def _noise(self, rng: np.random.Generator, count: int, of: NDArray[Any]) -> Numbers:
        own, shared = rng.standard_normal(of.size), rng.standard_normal(count)[of]
        noise: Numbers = np.sqrt(1 - self.alike) * own + np.sqrt(self.alike) * shared
        return noise

    def truth(self) -> tuple[float, float]:
        """The differences of the graded score and of the pass rate over the whole population."""
        _, before, after = self.draw(np.random.default_rng(0), POPULATION)
        passes = (after >= THRESHOLD).mean() - (before >= THRESHOLD).mean()
        return float((after - before).mean()), float(passes)


class Pair(NamedTuple):
    """One pair of runs: the session of each turn, and its score in both."""

    of: NDArray[Any]
    before: Numbers
    after: Numbers

    def changes(self, name: str) -> Numbers:
        """By how much each turn's measure changed."""
        if name == METRIC:
            return self.after - self.before
        changes: Numbers = (self.after >= THRESHOLD) - (self.before >= THRESHOLD).astype(float)
        return changes


def limits(pairs: Sequence[Pair], name: str, level: float, *, by_turns: bool = False) -> Numbers:
    """The limits of each pair, of shape (pairs, 2)."""
    most = max((x.of.size if by_turns else int(x.of[-1]) + 1) for x in pairs)
    squares, turns, sums = np.empty(len(pairs)), *np.zeros((2, len(pairs), most))
    for place, pair in enumerate(pairs):
        of = np.arange(pair.of.size) if by_turns else pair.of
        scaled = (pair.changes(name) + 1) / 2
        sizes = np.bincount(of)
        squares[place] = scaled @ scaled
        turns[place, : sizes.size] = sizes
        sums[place, : sizes.size] = np.bincount(of, scaled)
    return 2 * np.stack(of_sessions(turns, sums, squares, level), axis=-1) - 1


def by_compare(pair: Pair, level: float) -> dict[str, tuple[float, float]]:
    """The limits that `compare` gives a pair's measures where each of both is to be at `level`."""
    runs = [run_of(name, pair.of, x) for name, x in (("a", pair.before), ("b", pair.after))]
    both = compare(*runs, limits=Limits(), level=1 - 2 * (1 - level), certain=False)
    intervals = {x.name: x.difference.interval for x in both.measures}
    return {name: (x.low, x.high) for name, x in intervals.items() if x is not None}


def run_of(name: str, of: NDArray[Any], scores: Numbers) -> Run:
    """A run as `spanscore eval --jsonl` writes it: one score a turn."""
    run = Run(name, of_suite=False)
    for turn, (session, value) in enumerate(zip(of, scores.tolist(), strict=True)):
        unit = run.units[f"turn {turn}"] = Unit(
            passed=[float(value >= THRESHOLD)], sessions={f"session {session}"}, is_turn=True
        )
        unit.metrics[METRIC].append(value)
    run.scales[METRIC] = (0.0, 1.0)
    run.evaluators[METRIC].add(("CODE",))
    return run


def coverages(design: Design, sessions: int, repeats: int) -> list[float]:
    """Of the graded score, the pass rate, both together, and the graded score by turns."""
    rng = np.random.default_rng(sessions)
    pairs = [Pair(*design.draw(rng, sessions)) for _ in range(repeats)]
    truth = dict(zip((METRIC, PASS_RATE), design.truth(), strict=True))
    first = by_compare(pairs[0], LEVEL)
    for name in truth:
        if not np.allclose(limits(pairs[:1], name, LEVEL)[0], first[name], atol=1e-9):
            raise SystemExit(f"{design}: compare has {first[name]} for {name}")
    each = 1 - (1 - LEVEL) / len(truth)
    apart = [_inside(limits(pairs, name, LEVEL), x) for name, x in truth.items()]
    together = [_inside(limits(pairs, name, each), x) for name, x in truth.items()]
    by_turns = _inside(limits(pairs, METRIC, LEVEL, by_turns=True), truth[METRIC])
    return [float(x.mean()) for x in (*apart, together[0] & together[1], by_turns)]


def _inside(found: Numbers, truth: float) -> NDArray[np.bool_]:
    return (found[:, 0] - 1e-9 <= truth) & (truth <= found[:, 1] + 1e-9)


def main() -> None:
    """Print a line for each design."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=1000)
    args = parser.parse_args()
    print("| turns | change | alike | sessions | graded | pass rate | both | turns as units |")
    print("|---|---|---|---|---|---|---|---|")
    worst = 1.0
    for sizes, gains, alike in itertools.product(SIZES, GAINS, ALIKE):
        if sizes == "all of 5" and gains != "the same gain":
            continue  # none is long
        for sessions in SESSIONS:
            found = coverages(Design(sizes, gains, alike), sessions, args.repeats)
            worst = min(worst, *found[:-1])
            cells = " | ".join(f"{x:.3f}" for x in found)
            print(f"| {sizes} | {gains} | {alike} | {sessions} | {cells} |", flush=True)
    print(f"\nthe least coverage is {worst:.3f}")
    sys.exit(worst < LEAST)


if __name__ == "__main__":
    main()
