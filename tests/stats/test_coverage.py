"""How often 95 % intervals of rates and of their differences hold the truth, exactly, over all that
can be.
"""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from spanscore.stats import paired_difference
from spanscore.stats.differences import paired_rate_limits, unpaired_rate_limits
from spanscore.stats.means import rate_limits

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


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 5, 30, 100])
def test_a_rate_is_covered_at_every_truth(n):
    limits = np.array([rate_limits(c, n, 0.95) for c in range(n + 1)])
    truths = np.linspace(0.002, 0.998, 499)
    coverage = (
        binom.pmf(np.arange(n + 1)[:, None], n, truths) * inside(limits.T[:, :, None], truths)
    ).sum(0)
    assert coverage.min() >= 0.95 - 1e-9
    if n >= 100:
        assert coverage[(truths >= 0.2) & (truths <= 0.8)].max() <= 0.97


CHANGES = [
    x
    for x in itertools.product((0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.475, 0.525, 0.7, 0.85), repeat=2)
    if sum(x) <= 1
]


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 5, 10, 30, 100])
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


def limits_of_alike_turns(tables, turns, *, clustered):
    """The limits for each of `tables`, where a session has so many turns and all of them move
    alike.
    """
    sessions = tables[0].sum()
    clusters = np.repeat(np.arange(sessions), turns) if clustered else None
    found = []
    for up, down, same in turns * tables:
        before, after = [0] * up + [1] * down + [1] * same, [1] * up + [0] * down + [1] * same
        found.append(
            paired_difference(before, after, level=LEVEL_OF_THREE, clusters=clusters).interval
        )
    return np.array([(x.low, x.high) for x in found]).T


@pytest.mark.slow
@pytest.mark.parametrize("sessions", [5, 10])
def test_a_paired_difference_is_covered_where_all_turns_of_a_session_move_alike(sessions):
    tables = tables_of(sessions)
    limits = limits_of_alike_turns(tables, 5, clustered=True)
    for up, down in CHANGES:
        chances = multinomial.pmf(tables, sessions, [up, down, max(0.0, 1 - up - down)])
        assert chances @ inside(limits, up - down) >= 0.97


@pytest.mark.slow
@pytest.mark.parametrize(("sessions", "turns", "clustered", "independent"), OF_SESSIONS)
def test_the_coverages_of_turns_that_move_alike_are_right_in_the_docs(
    sessions, turns, clustered, independent
):
    count = int(sessions)
    tables = tables_of(count)
    chances = multinomial.pmf(tables, count, [0.2, 0.2, 0.6])
    likely = chances > 1e-6  # all others together have a chance below .001
    found = [
        1
        - chances[likely]
        @ (1 - inside(limits_of_alike_turns(tables[likely], int(turns) // count, clustered=x), 0.0))
        for x in (True, False)
    ]
    assert [100 * x for x in found] == pytest.approx(
        [float(clustered), float(independent)], abs=0.06
    )


def test_the_docs_have_coverages_of_turns_that_move_alike():
    assert [x[0] for x in OF_SESSIONS] == ["5", "10", "20", "40"]


def test_a_paired_difference_where_all_change_is_one_way_is_covered_a_little_more_often():
    """What docs/statistics.md says of 100 pairs."""
    limits = np.array([paired_rate_limits(gained, 0, 100, 0.95) for gained in range(101)]).T
    truths = np.arange(0.2, 0.8, 0.005)
    coverage = (
        binom.pmf(np.arange(101)[:, None], 100, truths) * inside(limits[:, :, None], truths)
    ).sum(0)
    assert coverage.min() >= 0.93
    assert 0.97 < coverage.max() <= 0.973


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
        *itertools.combinations_with_replacement((5, 10, 30, 100), 2),
        (5, 200),
    ],
)
def test_an_unpaired_difference_of_rates_is_covered_at_every_pair_of_truths(n, m):
    coverage = coverage_of_differences(n, m)
    assert coverage.min() >= 0.93
    if min(n, m) >= 100:
        assert coverage[np.ix_(MIDDLE, MIDDLE)].max() <= 0.97
