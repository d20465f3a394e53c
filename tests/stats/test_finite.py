"""The rate in a finite population: exact, so its coverage is counted and not simulated."""

from math import comb

import pytest

from spanscore.stats import NotEstimableError, finite_rate


def covered(yes, n, total, level):
    """The chance that the interval of a sample of `n` holds `yes` of `total`."""
    chance = 0.0
    for c in range(max(0, n - (total - yes)), min(n, yes) + 1):
        if yes / total in finite_rate(c, n, total, level=level).interval:
            chance += comb(yes, c) * comb(total - yes, n - c) / comb(total, n)
    return chance


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize(("n", "total"), [(1, 7), (5, 12), (11, 30), (29, 30), (25, 80)])
def test_the_interval_covers_at_least_its_level_whatever_the_share_is(n, total, level):
    assert min(covered(yes, n, total, level) for yes in range(total + 1)) >= level


def test_what_was_all_looked_at_is_known():
    limits = finite_rate(3, 4, 4).interval
    assert (limits.low, limits.high) == (0.75, 0.75)


def test_a_yes_and_a_no_that_were_seen_are_within_the_limits():
    limits = finite_rate(1, 2, 10).interval
    assert (limits.low, limits.high) >= (0.1, 0.0)
    assert limits.high <= 0.9


def test_a_large_population_gives_what_a_rate_of_independent_units_does():
    limits = finite_rate(270, 300, 10**7).interval
    assert (round(limits.low, 3), round(limits.high, 3)) == (0.86, 0.932)


def test_nothing_looked_at_gives_no_rate():
    with pytest.raises(NotEstimableError):
        finite_rate(0, 0, 10)


@pytest.mark.parametrize(("c", "n", "total"), [(-1, 2, 3), (3, 2, 4), (1, 5, 4)])
def test_counts_that_cannot_be_are_refused(c, n, total):
    with pytest.raises(ValueError, match="each is from 0 to the next"):
        finite_rate(c, n, total)
