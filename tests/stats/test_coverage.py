"""How often 95 % intervals hold the truth: exactly, over all that can be, or by 4,000 simulated
data sets each.

What is exact is held to 93 and 97 % as they are. So is what is simulated, from a fixed seed: its
coverage is known to a standard error of .004 at 93 %, .0034 at 95 % and .0027 at 97 %. That of
kappa, of areas and of corrected and prediction-powered rates is in the tests of each.
"""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from spanscore.stats import paired_difference
from spanscore.stats.means import bounded_limits
from spanscore.stats.pairs import paired_rate_limits
from spanscore.stats.rates import rate_limits
from spanscore.stats.unpaired import unpaired_rate_limits

REPEATS = 4000
TRUTHS = np.arange(0.01, 1, 0.02)
MIDDLE = (TRUTHS > 0.195) & (TRUTHS < 0.805)


def inside(limits, truth):
    low, high = limits
    return ((low <= truth + 1e-9) & (truth - 1e-9 <= high)).astype(float)


def assert_covers(coverage, n, truth):
    """For n >= 100 and a truth of .2 to .8 93-97 %, else at least 93 %."""
    assert coverage >= 0.93
    if n >= 100 and 0.2 <= truth <= 0.8:
        assert coverage <= 0.97


def of_means(x, weights=None):
    weights = np.ones(x.shape) if weights is None else weights
    shares = weights / weights.sum(1, keepdims=True)
    center = (shares * x).sum(1)
    return bounded_limits(center, shares, shares * (x - center[:, None]), 0.95)


@pytest.mark.parametrize("n", [1, 2, 5, 10, 30, 100])
def test_a_rate_is_covered_at_every_truth(n):
    limits = np.array([rate_limits(c, n, 0.95) for c in range(n + 1)])
    truths = np.linspace(0.002, 0.998, 499)
    coverage = (
        binom.pmf(np.arange(n + 1)[:, None], n, truths) * inside(limits.T[:, :, None], truths)
    ).sum(0)
    assert coverage.min() >= 0.95 - 1e-9
    if n >= 100:
        assert coverage[(truths >= 0.2) & (truths <= 0.8)].max() <= 0.97


SCORES = {
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


@pytest.mark.parametrize("n", [2, 5, 30, 100])
@pytest.mark.parametrize("name", SCORES)
def test_a_mean_of_bounded_scores_is_covered(name, n):
    draw, truth = SCORES[name]
    assert_covers(
        inside(of_means(draw(np.random.default_rng(n), (REPEATS, n))), truth).mean(), n, truth
    )


def test_what_never_showed_is_not_covered():
    """The limit that docs/statistics.md tells: all in a narrow band, but one in fifty is a 0."""
    rng = np.random.default_rng(70)
    x = np.where(rng.random((500, 70)) < 0.02, 0, rng.uniform(0.89, 0.91, (500, 70)))
    assert 0.7 < inside(of_means(x), 0.98 * 0.9).mean() < 0.9


DRAWN = {
    "one fifth at 1 in 10": (0.2, 0.1),
    "half at 1 in 4": (0.5, 0.25),
    "most at 1 in 2": (0.8, 0.5),
}


@pytest.mark.parametrize("n", [30, 150, 400])
@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.parametrize("scores", ["pass or fail", "graded", "unlike", "graded and unlike"])
def test_a_mean_weighted_by_inverse_inclusion_probabilities_is_covered(scores, drawn, n):
    """Of the population a share is kept with one chance and the rest always; `n` kept ones are
    seen.

    How much they tell is Kish's effective n: to that the bound from above applies.
    """
    share, chance = DRAWN[drawn]
    rng = np.random.default_rng(n)
    kept = share * chance / (share * chance + 1 - share)
    rare = rng.random((REPEATS, n)) < kept
    if scores == "graded":
        x, truth = rng.beta(4, 2, rare.shape), 4 / 6
    elif scores == "graded and unlike":
        x = np.where(rare, rng.beta(3, 4, rare.shape), rng.beta(4, 2, rare.shape))
        truth = share * 3 / 7 + (1 - share) * 4 / 6
    else:
        rates = (0.3, 0.7) if scores == "unlike" else (0.6, 0.6)
        x, truth = (
            (rng.random(rare.shape) < np.where(rare, *rates)).astype(float),
            share * rates[0] + (1 - share) * rates[1],
        )
    weights = np.where(rare, 1 / chance, 1.0)
    effective_n = np.median(weights.sum(1) ** 2 / (weights**2).sum(1))
    assert_covers(inside(of_means(x, weights), truth).mean(), effective_n, truth)


def test_what_stands_for_many_and_was_not_drawn_is_not_covered():
    """The limit that docs/statistics.md tells: of 150 kept ones 1 or 2 stand for a tenth of all,
    unlike the rest.
    """
    rng = np.random.default_rng(2)
    rare = rng.random((REPEATS, 150)) < 0.01 / 0.91
    x = np.where(rare, rng.beta(2, 4, rare.shape), rng.beta(4, 2, rare.shape))
    assert 0.8 < inside(of_means(x, np.where(rare, 10.0, 1.0)), 0.1 / 3 + 0.9 * 2 / 3).mean() < 0.9


@pytest.mark.parametrize("sessions", [10, 40, 120])
def test_a_rate_of_turns_in_sessions_is_covered(sessions):
    rng = np.random.default_rng(sessions)
    turns = rng.integers(1, 7, (REPEATS, sessions))
    passed = rng.binomial(turns, rng.beta(1.5, 1, (REPEATS, sessions)))
    shares = turns / turns.sum(1, keepdims=True)
    center = passed.sum(1) / turns.sum(1)
    pulls = passed / turns.sum(1, keepdims=True) - shares * center[:, None]
    assert_covers(inside(bounded_limits(center, shares, pulls, 0.95), 0.6).mean(), sessions, 0.6)


CHANGES = [
    x
    for x in itertools.product((0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.475, 0.525, 0.7, 0.85), repeat=2)
    if sum(x) <= 1
]


@pytest.mark.parametrize("n", [2, 5, 10, 20, 29, 30, 50, 100])
def test_a_paired_difference_of_rates_is_covered_whatever_changes(n):
    counts = np.array(
        [(up, down, n - up - down) for up in range(n + 1) for down in range(n + 1 - up)]
    )
    found = [
        paired_difference(
            [0] * up + [1] * down + [1] * same, [1] * up + [0] * down + [1] * same
        ).interval
        for up, down, same in counts
    ]
    limits = np.array([(x.low, x.high) for x in found]).T
    for up, down in CHANGES:
        chances = multinomial.pmf(counts, n, [up, down, max(0.0, 1 - up - down)])
        assert_covers(chances @ inside(limits, up - down), n, up + down)


LEVEL_OF_THREE = 1 - 0.05 / 3
"""Of each interval where three comparisons together are to hold at 95 %."""


PAGE = (Path(__file__).parents[2] / "docs/statistics.md").read_text(encoding="utf-8")
OF_SESSIONS = re.findall(
    r"^\| (\d+) sessions with (\d+) turns \| ([\d.]+) % \| ([\d.]+) % \|$", PAGE, re.MULTILINE
)


def tables_of(sessions):
    """How many sessions may gain, lose and stay."""
    return np.array(
        [
            (up, down, sessions - up - down)
            for up in range(sessions + 1)
            for down in range(sessions + 1 - up)
        ]
    )


def limits_of_alike_turns(sessions, turns, *, clustered):
    """The limits for each of `tables_of`, where a session has so many turns and all of them move
    alike.
    """
    clusters = np.repeat(np.arange(sessions), turns) if clustered else None
    found = []
    for up, down, same in turns * tables_of(sessions):
        before, after = [0] * up + [1] * down + [1] * same, [1] * up + [0] * down + [1] * same
        found.append(
            paired_difference(before, after, level=LEVEL_OF_THREE, clusters=clusters).interval
        )
    return np.array([(x.low, x.high) for x in found]).T


@pytest.mark.parametrize("sessions", [5, 10, 20, 40])
def test_a_paired_difference_is_covered_where_all_turns_of_a_session_move_alike(sessions):
    limits = limits_of_alike_turns(sessions, 5, clustered=True)
    for up, down in CHANGES:
        chances = multinomial.pmf(
            tables_of(sessions), sessions, [up, down, max(0.0, 1 - up - down)]
        )
        assert chances @ inside(limits, up - down) >= 0.97


@pytest.mark.parametrize(("sessions", "turns", "clustered", "independent"), OF_SESSIONS)
def test_the_coverages_of_turns_that_move_alike_are_right_in_the_docs(
    sessions, turns, clustered, independent
):
    count = int(sessions)
    chances = multinomial.pmf(tables_of(count), count, [0.2, 0.2, 0.6])
    found = [
        chances @ inside(limits_of_alike_turns(count, int(turns) // count, clustered=x), 0.0)
        for x in (True, False)
    ]
    assert [100 * x for x in found] == pytest.approx(
        [float(clustered), float(independent)], abs=0.06
    )


def test_the_docs_have_coverages_of_turns_that_move_alike():
    assert [x[0] for x in OF_SESSIONS] == ["5", "10", "20", "40"]


SIZES = {
    "of 1 to 8 turns": lambda rng, size: rng.integers(1, 9, size),
    "mostly short": lambda rng, size: rng.geometric(0.3, size),
    "a few of very many turns": lambda rng, size: np.minimum(np.ceil(rng.pareto(1.2, size)), 200),
}
MOVES = {
    "both ways": (lambda rng, size: rng.choice([-1, 0, 1], size, p=[0.2, 0.4, 0.4]), 0.2),
    "one way": (lambda rng, size: rng.choice([0, 1], size, p=[0.8, 0.2]), 0.2),
    "graded": (lambda rng, size: rng.beta(4, 2, size) - rng.beta(3, 3, size), 4 / 6 - 0.5),
}


@pytest.mark.parametrize("sessions", [6, 20, 100])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("moves", MOVES)
def test_a_paired_difference_is_covered_whatever_the_sizes_of_the_sessions_are(
    moves, sizes, sessions
):
    rng, (draw, truth) = np.random.default_rng(sessions), MOVES[moves]
    turns = SIZES[sizes](rng, (REPEATS, sessions))
    low, high = of_means((draw(rng, turns.shape) + 1) / 2, turns.astype(float))
    assert inside((2 * low - 1, 2 * high - 1), truth).mean() >= 0.93


def test_a_paired_difference_where_all_change_is_one_way_is_covered_a_little_more_often():
    """What docs/statistics.md says of 100 pairs."""
    limits = np.array([paired_rate_limits(gained, 0, 100, 0.95) for gained in range(101)]).T
    truths = np.arange(0.2, 0.8, 0.005)
    coverage = (
        binom.pmf(np.arange(101)[:, None], 100, truths) * inside(limits[:, :, None], truths)
    ).sum(0)
    assert coverage.min() >= 0.93
    assert 0.97 < coverage.max() <= 0.973


@pytest.mark.parametrize("n", [5, 20, 100])
def test_a_paired_difference_of_scores_is_covered(n):
    rng = np.random.default_rng(n)
    task = rng.random((REPEATS, n))
    a, b = (0.5 * task + 0.5 * rng.beta(k, 2, (REPEATS, n)) for k in (2, 4))
    low, high = of_means((b - a + 1) / 2)
    assert_covers(inside((low * 2 - 1, high * 2 - 1), (4 / 6 - 0.5) / 2).mean(), n, 0.5)


def coverage_of_differences(n, m):
    """At each pair of TRUTHS, exactly."""
    low, high = unpaired_rate_limits((np.arange(n + 1)[:, None], n), (np.arange(m + 1), m), 0.95)
    before, after = (binom.pmf(np.arange(k + 1), k, TRUTHS[:, None]) for k in (n, m))
    apart = np.rint(100 * (TRUTHS - TRUTHS[:, None])).astype(int)
    coverage = np.empty(apart.shape)
    for difference in np.unique(apart):
        at = apart == difference
        coverage[at] = (before @ inside((low, high), difference / 100) @ after.T)[at]
    return coverage


@pytest.mark.parametrize(
    ("n", "m"),
    [
        (1, 1),
        (2, 3),
        (3, 50),
        (4, 4),
        *itertools.combinations_with_replacement((5, 10, 20, 30, 50, 100, 200), 2),
    ],
)
def test_an_unpaired_difference_of_rates_is_covered_at_every_pair_of_truths(n, m):
    coverage = coverage_of_differences(n, m)
    assert coverage.min() >= 0.93
    if min(n, m) >= 100:
        assert coverage[np.ix_(MIDDLE, MIDDLE)].max() <= 0.97


@pytest.mark.parametrize("n", [5, 20, 100])
def test_an_unpaired_difference_of_scores_is_covered(n):
    rng = np.random.default_rng(n)
    before, after = rng.beta(2, 2, (REPEATS, n)), rng.beta(4, 2, (REPEATS, n))
    (a_low, a_high), (b_low, b_high) = of_means(before), of_means(after)
    a, b = before.mean(1), after.mean(1)
    low, high = b - a - np.hypot(b - b_low, a_high - a), b - a + np.hypot(b_high - b, a - a_low)
    assert_covers(inside((low, high), 4 / 6 - 0.5).mean(), n, 0.5)
