"""A corrected pass rate's interval holds the true rate as often as it says, and what cannot be
corrected is refused.
"""

import itertools
from functools import lru_cache

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom, binomtest

from spanscore.stats import Confusion, NotEstimableError, corrected_rate
from spanscore.stats.correction import Counted, corrected_distance

REACH = 1.959964
JUDGES = list(itertools.product((0.7, 0.9, 0.95), repeat=2))
OTHERS = [(0.65, 0.65), (0.9, 0.8), (0.95, 1.0), (0.99, 0.99), (1.0, 0.8), (1.0, 1.0)]


def counted(passed, n, judge):
    of_passes = Counted(judge.true_pass, judge.true_pass + judge.false_fail)
    return (
        Counted(passed, n),
        of_passes,
        Counted(judge.false_pass, judge.false_pass + judge.true_fail),
    )


@lru_cache
def outcomes(n, passes, fails):
    """All counts of what a judge passes, of n and of the labelled, that leave it better than
    chance.
    """
    passed, right, wrong = (
        x.ravel()
        for x in np.meshgrid(*(np.arange(k + 1.0) for k in (n, passes, fails)), indexing="ij")
    )
    told = right / passes - wrong / fails > 1e-9
    return told, (
        Counted(passed[told], n),
        Counted(right[told], passes),
        Counted(wrong[told], fails),
    )


def covered(n, passes, fails, rate, judges):
    """How often the interval holds the rate, exactly, for each of the judges; of the counts that
    are not refused.
    """
    told, counts = outcomes(n, passes, fails)
    held = abs(corrected_distance(counts, rate)) <= REACH
    for sensitivity, specificity in judges:
        chances = [
            binom.pmf(np.arange(of + 1), of, share)
            for of, share in (
                (n, rate * sensitivity + (1 - rate) * (1 - specificity)),
                (passes, sensitivity),
                (fails, 1 - specificity),
            )
        ]
        of_each = np.einsum("i,j,k->ijk", *chances).ravel()[told]
        yield float(of_each @ held / of_each.sum())


@pytest.mark.slow
@pytest.mark.parametrize(("n", "passes", "fails"), [(100, 50, 50), (100, 80, 20), (100, 20, 80)])
@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_the_interval_covers(n, passes, fails, rate):
    found = list(covered(n, passes, fails, rate, JUDGES))
    assert 0.94 <= min(found) <= max(found) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "passes", "fails"),
    [(5, 5, 5), (20, 2, 2), (20, 10, 10), (100, 5, 5), (100, 40, 10), (100, 95, 5), (200, 20, 20)],
)
@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5, 0.9])
def test_the_interval_covers_with_few_labels_or_a_rate_near_its_bounds(n, passes, fails, rate):
    assert min(covered(n, passes, fails, rate, OTHERS)) >= 0.93


@pytest.mark.parametrize(
    ("passed", "n", "judge"),
    [
        (60, 100, Confusion(45, 5, 10, 40)),
        (3, 40, Confusion(9, 1, 2, 18)),
        (37.4, 61.5, Confusion(30, 3, 1, 4)),
    ],
)
def test_the_limits_are_where_the_score_test_begins_to_refuse(passed, n, judge):
    limits = corrected_rate(passed, n, judge).interval
    rates = np.linspace(0, 1, 5001)
    held = rates[abs(corrected_distance(counted(passed, n, judge), rates)) <= REACH]
    assert (limits.low, limits.high) == pytest.approx((held.min(), held.max()), abs=2.1e-4)


def test_the_distance_is_taken_at_the_likeliest_shares():
    """Against a search over the two shares that the third follows from."""
    rate, counts = 0.4, ((60, 100), (45, 50), (10, 50))

    def shares(sensitivity, false_passes):
        return rate * sensitivity + (1 - rate) * false_passes, sensitivity, false_passes

    def unlikeliness(sensitivity, false_passes):
        own = shares(sensitivity, false_passes)
        return -sum(
            c * np.log(p) + (k - c) * np.log(1 - p) for (c, k), p in zip(counts, own, strict=True)
        )

    def least(sensitivity):
        return minimize_scalar(
            lambda x: unlikeliness(sensitivity, x), bounds=(1e-6, 1 - 1e-6), method="bounded"
        )

    sensitivity = minimize_scalar(
        lambda x: least(x).fun, bounds=(1e-6, 1 - 1e-6), method="bounded"
    ).x
    best = shares(sensitivity, least(sensitivity).x)
    factors = (1, -rate, rate - 1)
    variance = (
        sum(f * f * p * (1 - p) / k for f, p, (_, k) in zip(factors, best, counts, strict=True))
        * 200
        / 199
    )
    apart = sum(f * c / k for f, (c, k) in zip(factors, counts, strict=True))
    found = corrected_distance(tuple(Counted(*x) for x in counts), rate)
    assert float(found) == pytest.approx(apart / variance**0.5, abs=1e-5)


@pytest.mark.parametrize(("c", "n"), [(30, 100), (0, 20), (7, 8)])
def test_a_judge_that_never_errs_leaves_wilsons_interval(c, n):
    wilson = binomtest(c, n).proportion_ci(method="wilson")
    limits = corrected_rate(c, n, Confusion(10**5, 0, 0, 10**5)).interval
    assert (limits.low, limits.high) == pytest.approx((wilson.low, wilson.high), abs=1e-4)


def test_a_judge_whose_error_is_known_leaves_wilsons_interval_stretched():
    wilson = binomtest(60, 100).proportion_ci(method="wilson")
    limits = corrected_rate(60, 100, Confusion(90_000, 10_000, 20_000, 80_000)).interval
    assert (limits.low, limits.high) == pytest.approx(
        ((wilson.low - 0.2) / 0.7, (wilson.high - 0.2) / 0.7), abs=1e-3
    )


def test_few_labels_make_the_interval_wider():
    few, many = (corrected_rate(60, 1000, Confusion(9 * x, x, x, 9 * x)).interval for x in (1, 20))
    assert few.high - few.low > many.high - many.low


def test_the_interval_of_what_fails_is_that_of_what_passes_turned_around():
    one, other = (
        corrected_rate(30, 100, Confusion(45, 5, 2, 18)),
        corrected_rate(70, 100, Confusion(18, 2, 5, 45)),
    )
    assert (one.interval.low, one.interval.high) == pytest.approx(
        (1 - other.interval.high, 1 - other.interval.low)
    )


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (Confusion(10, 0, 0, 0), "no label says fail"),
        (Confusion(0, 0, 0, 10), "no label says pass"),
        (
            Confusion(20, 0, 20, 0),
            "no better than chance: it passes 100% of what passes and 100% of what fails",
        ),
        (Confusion(1, 9, 9, 1), "no better than chance"),
    ],
)
def test_what_no_correction_can_mend_is_refused(table, why):
    with pytest.raises(NotEstimableError, match=why):
        corrected_rate(40, 100, table)


def test_a_judge_that_may_be_no_better_than_chance_is_noted():
    found = corrected_rate(50, 100, Confusion(6, 4, 5, 5))
    assert found.note == "the labels leave it open whether the judge is better than chance"
    assert found.interval.high - found.interval.low > 0.9


@pytest.mark.parametrize(("passed", "value"), [(0, 0.0), (200, 1.0)])
def test_labels_and_verdicts_at_odds_are_noted_and_leave_doubt(passed, value):
    found = corrected_rate(passed, 200, Confusion(40, 10, 10, 40))
    assert found.value == value
    assert "no rate goes well with both" in found.note
    assert found.interval.high - found.interval.low > 0.05


def test_at_a_rate_of_one_it_is_pearsons_test_of_two_rates():
    """Then judged units and labelled passes are alike; 3 of 4 and 1 of 4 have a chi-squared of
    2.
    """
    found = corrected_distance((Counted(3, 4), Counted(1, 4), Counted(5, 10)), 1.0)
    assert float(found) ** 2 == pytest.approx(2 * 17 / 18)


def test_labels_that_come_in_clusters_make_the_interval_wider():
    alone, together = (
        corrected_rate(60, 100, Confusion(45, 5, 10, 40), design_effects=x).interval
        for x in ((1, 1), (2, 2))
    )
    halved = corrected_rate(60, 100, Confusion(22.5, 2.5, 5, 20)).interval
    assert together == halved
    assert together.high - together.low > alone.high - alone.low
