"""Estimates and intervals against numbers that papers print, each with its source."""

import csv
from pathlib import Path

import numpy as np
import pytest

from spanscore.stats import (
    Confusion,
    NotEstimableError,
    confusion,
    corrected_rate,
    kappa,
    kappa_standard_error,
    paired_difference,
    prediction_powered_mean,
    rate,
    unpaired_difference,
)
from spanscore.stats.ranking import hanley_mcneil_variance
from spanscore.stats.rates import rate_limits

DATA = Path(__file__).parent / "data"


def test_no_success_in_n_trials_is_bounded_by_about_three_in_n():
    # Hanley and Lippman-Hand 1983, "If nothing goes wrong, is everything all right?", the rule of three; one-sided.
    assert 0.0027 < rate_limits(0, 1000, 0.9)[1] < 3 / 1000


@pytest.mark.parametrize(("c", "n"), [(81, 263), (15, 148), (0, 20), (1, 29)])
def test_the_interval_of_a_rate_lies_within_that_of_clopper_and_pearson(c, n):
    # The four cases of Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, whose
    # Clopper-Pearson limits are (.2527, .3676), (.0578, .1617), (.0000, .1684) and (.0009, .1776).
    exact = {81: (0.2527, 0.3676), 15: (0.0578, 0.1617), 0: (0.0, 0.1684), 1: (0.0009, 0.1776)}[c]
    low, high = rate_limits(c, n, 0.95)
    assert exact[0] - 5e-5 <= low <= c / n <= high <= exact[1] + 5e-5


# Newcombe 1998, "Interval estimation for the difference between independent proportions", table II: method 10 gives
# (.0524, .3339) for 56/70 - 48/80; ours has exact limits in place of Wilson's, so it is a little wider.
def test_a_difference_of_rates_is_close_to_newcombes_example():
    found = unpaired_difference([1] * 48 + [0] * 32, [1] * 56 + [0] * 14)
    assert found.value == pytest.approx(0.2)
    assert found.interval.low == pytest.approx(0.0524, abs=0.012)
    assert found.interval.high == pytest.approx(0.3339, abs=0.012)


def test_a_paired_difference_without_discordant_pairs_has_width():
    # Tango 1998: with no discordant pair the limits are -+ z^2 / (n + z^2).
    found = paired_difference([1] * 50, [1] * 50)
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.07135, 0.07135), abs=1e-5)


def test_kappa_of_a_worked_example():
    # Two readers, 50 proposals: both yes 20, only the first 5, only the second 10, both no 15; kappa 0.4 (Cohen 1960).
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


def test_the_standard_error_of_an_area_is_near_that_of_hanley_and_mcneil():
    # Hanley and McNeil 1982, section III: 58 normal and 51 abnormal images, area .893, standard error .032.
    assert hanley_mcneil_variance(0.893, 51, 58) ** 0.5 == pytest.approx(0.032, abs=0.001)


def test_a_perfect_judge_changes_nothing():
    found = corrected_rate(30, 100, Confusion(500, 0, 0, 500))
    assert found.value == pytest.approx(0.3)


def test_the_rate_behind_a_screening_test():
    # Rogan and Gladen 1978; the herd of Dohoo et al.: 23 of 150 positive, sensitivity .96, specificity .89 gives 5.1 %.
    assert corrected_rate(23, 150, Confusion(96, 4, 11, 89)).value == pytest.approx(0.051, abs=5e-4)


def test_a_cut_estimate_says_so():
    found = corrected_rate(1, 100, Confusion(80, 20, 20, 80))
    assert (found.value, found.note[:8]) == (0.0, "cut to 0")


@pytest.mark.parametrize(
    ("table", "why"),
    [(Confusion(10, 5, 10, 5), "no better than chance"), (Confusion(10, 2, 0, 0), "no label says fail")],
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
    """Labels and unlabelled verdicts are drawn from the simulations of tau2-bench, whose true rate is known."""
    both = verdicts(prompt)
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(40):
        labelled, rest = rng.choice(both, 139), rng.choice(both, 139)
        found = corrected_rate(int(rest[:, 1].sum()), len(rest), confusion(*map(list, labelled.T)))
        held += both[:, 0].mean() in found.interval
    assert held >= 36


def test_the_rate_of_a_lenient_judge_does_not_hold_the_true_rate_uncorrected():
    both = verdicts("quick_triage_v1")
    assert both[:, 0].mean() not in rate(int(both[:, 1].sum()), len(both)).interval


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
