"""Estimates and intervals against numbers that others print, each with its source, or against
scipy.
"""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from spanscore.stats import (
    Confusion,
    Estimate,
    Interval,
    NotEstimableError,
    corrected_rate,
    kappa,
    kappa_standard_error,
    prediction_powered_mean,
    rate,
    unpaired_difference,
)
from spanscore.stats.agreement import hanley_mcneil_variance
from spanscore.stats.correction import Counted, corrected_distance
from spanscore.stats.differences import (
    added_limits,
    agresti_caffo_limits,
    exact_limits,
    tango_limits,
)
from spanscore.stats.means import rate_limits

DATA = Path(__file__).parent / "data"


def test_no_success_in_n_trials_is_bounded_by_about_three_in_n():
    # The rule of three (Hanley and Lippman-Hand 1983, "If nothing goes wrong, is everything all
    # right?"): the one-sided limit is 1 - .05^(1/n), and Blaker's at 90 % lies within that.
    assert 0.0027 < rate_limits(0, 1000, 0.9)[1] <= 1 - 0.05 ** (1 / 1000) < 3 / 1000


def test_blakers_limits_are_those_of_his_algorithms_author():
    # The example of the R package BlakerCI 1.0-6, whose algorithm is Klaschka's:
    # binom.blaker.limits(3, 10).
    assert rate_limits(3, 10, 0.95) == pytest.approx((0.08726443, 0.61941066), abs=1e-8)


@pytest.mark.parametrize(("c", "n"), [(81, 263), (15, 148), (0, 20), (1, 29), (20, 20)])
def test_the_interval_of_a_rate_lies_within_that_of_clopper_and_pearson(c, n):
    exact = binomtest(c, n).proportion_ci(method="exact")
    low, high = rate_limits(c, n, 0.95)
    assert exact.low - 1e-9 <= low <= c / n <= high <= exact.high + 1e-9


@pytest.mark.parametrize(("c", "n"), [(81, 263), (0, 20), (29, 29)])
def test_the_limits_of_clopper_and_pearson_are_those_of_scipy(c, n):
    exact = binomtest(c, n).proportion_ci(method="exact")
    assert [float(x) for x in exact_limits(c, n, 0.95)] == pytest.approx(
        [exact.low, exact.high], abs=1e-9
    )


def wilsons(c, n):
    found = binomtest(c, n).proportion_ci(method="wilson")
    return Estimate(c / n, n, Interval(found.low, found.high), "Wilson")


@pytest.mark.parametrize(
    ("b", "a", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.809),
        ((7, 34), (1, 34), 0.0189, 0.3404),
    ],
)
def test_square_and_add_gives_newcombes_numbers(b, a, low, high):
    # Newcombe 1998, "Interval estimation for the difference between independent proportions",
    # method 10, as the tests of the R package propint quote it; the third is of the R package
    # contingencytables, of Perondi and others 2004.
    assert added_limits(wilsons(*b), wilsons(*a)) == pytest.approx((low, high), abs=5e-5)


def test_agresti_and_caffos_limits_are_those_of_others():
    # As the tests of the R package contingencytables have them, of Perondi and others 2004: 7 of 34
    # and 1 of 34.
    found = [float(x) for x in agresti_caffo_limits((1, 34), (7, 34), 0.95)]
    assert found == pytest.approx([0.0116, 0.3217], abs=5e-5)


@pytest.mark.parametrize(("m", "n", "error"), [(110, 110, 0.03282048), (20, 20, 0.07789072)])
def test_the_standard_error_of_an_area_is_hanley_and_mcneils(m, n, error):
    # As the R package auctestr 1.0.0 prints it for an area of .75; with classes of one size
    # Newcombe's is the same.
    assert hanley_mcneil_variance(0.75, m, n) ** 0.5 == pytest.approx(error, abs=5e-9)


def test_a_difference_of_rates_has_the_limits_of_its_formulas():
    # 56/70 - 48/80: square and add with scipy's exact limits is the wider one of the two here.
    (a, a_limits), (b, b_limits) = (
        (c / n, binomtest(c, n).proportion_ci(method="exact")) for c, n in ((48, 80), (56, 70))
    )
    found = unpaired_difference([1] * 48 + [0] * 32, [1] * 56 + [0] * 14)
    assert found.value == pytest.approx(0.2)
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (
            b - a - np.hypot(b - b_limits.low, a_limits.high - a),
            b - a + np.hypot(b_limits.high - b, a - a_limits.low),
        )
    )


@pytest.mark.parametrize(
    ("gained", "lost", "n", "level", "low", "high"),
    [
        (28, 25, 618, 0.9, -0.0148, 0.0247),
        (1, 7, 21, 0.95, -0.517, -0.026),
        (0, 0, 50, 0.95, -0.0713, 0.0713),
    ],
)
def test_tangos_limits_are_those_of_others(gained, lost, n, level, low, high):
    # As the R package PropCIs gives them, scoreci.mp(25, 28, 618) and (7, 1, 21); with no
    # discordant pair they are z^2 / (n + z^2) either side of 0.
    assert tango_limits(gained, lost, n, level) == pytest.approx(
        (low, high), abs=5e-4 if n == 21 else 5e-5
    )


def test_kappa_of_a_worked_example():
    # By hand: of 50 both say yes to 20, only one to 5, only the other to 10: (.7 - .5) / (1 - .5).
    table = Confusion(20, 5, 10, 15)
    assert table.kappa().value == pytest.approx(0.4)


def test_the_standard_error_of_kappa_is_the_delta_methods():
    cells = np.array([20, 5, 10, 15], float)

    def value(shares):
        row, column = shares[0] + shares[1], shares[0] + shares[2]
        chance = row * column + (1 - row) * (1 - column)
        return (shares[0] + shares[3] - chance) / (1 - chance)

    p = cells / 50
    slopes = np.array([(value(p + step) - value(p - step)) / 2e-6 for step in np.eye(4) * 1e-6])
    slopes -= slopes @ p
    assert kappa_standard_error(Confusion(20, 5, 10, 15)) == pytest.approx(
        np.sqrt((p * slopes**2).sum() / 50), rel=1e-4
    )


def test_a_perfect_judge_changes_nothing():
    found = corrected_rate(30, 100, Confusion(500, 0, 0, 500))
    assert found.value == pytest.approx(0.3)


def test_the_rate_behind_a_screening_test():
    # The example of epi.prev in the R package epiR, a herd tested for brucellosis: 23 of 150
    # positive, sensitivity .96 and specificity .89; Rogan and Gladen's (23/150 + .89 - 1) / .85 is
    # 5.1 %.
    assert corrected_rate(23, 150, Confusion(96, 4, 11, 89)).value == pytest.approx(0.051, abs=5e-4)


def test_a_prevalence_below_what_false_positives_explain_is_cut_to_none():
    # The second example of epi.prev, Helicobacter pylori in Australia (Moujaber and others 2008): 6
    # of 151 positive, sensitivity .964 and specificity .927: none, and at most 1.3 % with both
    # known exactly. Of Wilson's limit that is (upper limit - .073) / .891.
    found = corrected_rate(6, 151, Confusion(96_400, 3_600, 7_300, 92_700))
    upper = (binomtest(6, 151).proportion_ci(method="wilson").high - 0.073) / 0.891
    assert (found.value, found.interval.low) == (0.0, 0.0)
    assert found.interval.high == pytest.approx(upper, abs=5e-4)
    assert upper == pytest.approx(0.013, abs=0.002)


def test_a_cut_estimate_says_so():
    found = corrected_rate(1, 100, Confusion(80, 20, 20, 80))
    assert (found.value, found.note[:8]) == (0.0, "cut to 0")


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (Confusion(10, 5, 10, 5), "no better than chance"),
        (Confusion(10, 2, 0, 0), "no label says fail"),
    ],
)
def test_a_judge_that_tells_nothing_corrects_nothing(table, why):
    with pytest.raises(NotEstimableError, match=why):
        corrected_rate(40, 100, table)


def verdicts(prompt):
    with (DATA / "tau2_verdicts.csv").open() as file:
        rows = [x for x in csv.DictReader(file) if x["prompt"] == prompt]
    return np.array([(x["success"] == "1", x["judge"] == "pass") for x in rows])


@pytest.mark.parametrize("prompt", ["quick_triage_v1", "policy_conversation_v1"])
def test_corrected_rates_of_real_verdicts_hold_the_true_rate(prompt):
    """Labels and unlabelled verdicts are drawn from the simulations of tau2-bench, whose true rate
    is known.
    """
    both = verdicts(prompt)
    rng = np.random.default_rng(7)
    passes, judged = rng.choice(both, (4000, 139)).transpose(2, 0, 1)
    counts = (
        Counted(rng.choice(both[:, 1], (4000, 139)).sum(1), 139),
        Counted((passes & judged).sum(1), passes.sum(1)),
        Counted((~passes & judged).sum(1), (~passes).sum(1)),
    )
    assert (abs(corrected_distance(counts, both[:, 0].mean())) <= 1.96).mean() >= 0.93


def test_the_rate_of_a_lenient_judge_does_not_hold_the_true_rate_uncorrected():
    both = verdicts("quick_triage_v1")
    assert both[:, 0].mean() not in rate(int(both[:, 1].sum()), len(both)).interval


@pytest.mark.slow
def test_prediction_powered_rates_of_real_verdicts_hold_the_true_rate():
    both = verdicts("quick_triage_v1").astype(float)
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(100):
        labelled, rest = rng.choice(both, 100), rng.choice(both, 178)
        found = prediction_powered_mean(labelled[:, 0], labelled[:, 1], rest[:, 1])
        held += both[:, 0].mean() in found.interval
    assert held >= 92


def test_kappa_is_1_with_an_upper_limit_of_1_where_all_agree():
    found = kappa([True] * 10 + [False] * 10, [True] * 10 + [False] * 10)
    assert (found.value, found.interval.high) == (1.0, 1.0)
    assert 0.5 < found.interval.low < 1
