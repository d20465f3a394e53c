"""Prediction-powered means gain from a good judge, and lose nothing to a bad one."""

import numpy as np
import pytest

from spanscore.stats import NotEstimableError, mean, prediction_powered_mean


def test_a_good_judge_makes_the_interval_narrower():
    rng = np.random.default_rng(4)
    truth = (rng.random(1100) < 0.5).astype(float)
    judged = np.where(rng.random(1100) < 0.95, truth, 1 - truth)
    powered = prediction_powered_mean(truth[:100], judged[:100], judged[100:]).interval
    alone = mean(list(truth[:100])).interval
    assert powered.high - powered.low < 0.65 * (alone.high - alone.low)


def test_a_judge_that_knows_nothing_leaves_the_mean_of_the_labels():
    labels = [1.0, 0.0] * 20
    found = prediction_powered_mean(labels, [1.0, 1.0, 0.0, 0.0] * 10, [1.0, 0.0, 0.0] * 50)
    assert (found.value, found.method) == (0.5, "PPI++ with power 0.00")


def test_the_estimate_is_what_the_formula_says():
    # Angelopoulos, Duchi and Zrnic 2023: mean(y - t f) + t mean(F), t = cov(y, f) / ((1 + n / N)
    # var(f)); var of all f.
    y, f, rest = [1, 1, 0, 0, 1, 0], [1, 1, 0, 1, 0, 0], [1, 0, 1, 1, 1, 0, 1, 1, 1]
    tuning = np.cov(y, f)[0, 1] / ((1 + 6 / 9) * np.var([*f, *rest], ddof=1))
    expected = np.mean(y) - tuning * np.mean(f) + tuning * np.mean(rest)
    assert prediction_powered_mean(y, f, rest).value == pytest.approx(expected)


def test_without_other_units_it_is_the_mean_of_the_labels():
    assert prediction_powered_mean([1, 0, 1, 1], [1, 1, 1, 0], []).value == 0.75


def test_one_label_is_too_few():
    with pytest.raises(NotEstimableError, match="two labelled units at least"):
        prediction_powered_mean([1], [1], [0, 1])
