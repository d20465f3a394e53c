"""Agreement and kappa: their intervals hold the true value as often as they say."""

import numpy as np
import pytest
from scipy.stats import binomtest

from spanscore.stats import Confusion, NotEstimableError, agreement, confusion, kappa
from spanscore.stats.agreement import kappa_limits

REPLICATIONS = 4000


def cells(first, second, value):
    """The shares of both yes, only the first, only the second, neither, for two rates of yes and a
    kappa.
    """
    chance = first * second + (1 - first) * (1 - second)
    both = (value * (1 - chance) + chance - 1 + first + second) / 2
    return np.array([both, first - both, second - both, 1 - first - second + both])


def held(n, first, second, value):
    """How often the interval holds kappa, of the samples that have both classes."""
    shares = cells(first, second, value)
    assert (shares >= -1e-12).all(), "no two people can agree like this"
    drawn = (
        np.random.default_rng(n)
        .multinomial(n, shares.clip(0) / shares.sum(), REPLICATIONS)
        .astype(float)
    )
    drawn = drawn[(drawn[:, 0] < n) & (drawn[:, 3] < n)]
    low, high = kappa_limits(drawn.reshape(-1, 2, 2), 0.95)
    return ((low <= value + 1e-9) & (value <= high + 1e-9)).mean()


@pytest.mark.parametrize("n", [100, 300])
@pytest.mark.parametrize(
    ("first", "second"), [(0.5, 0.5), (0.7, 0.6), (0.8, 0.7), (0.8, 0.8), (0.2, 0.3)]
)
@pytest.mark.parametrize("value", [0.0, 0.3, 0.6])
def test_kappas_interval_covers(n, first, second, value):
    assert 0.93 <= held(n, first, second, value) <= 0.97


@pytest.mark.parametrize("n", [10, 20, 50, 100])
@pytest.mark.parametrize(("first", "second"), [(0.5, 0.5), (0.9, 0.8), (0.95, 0.95), (0.1, 0.1)])
@pytest.mark.parametrize("value", [0.0, 0.3, 0.5])
def test_kappas_interval_covers_with_few_units_or_a_rare_class(n, first, second, value):
    assert held(n, first, second, value) >= 0.93


@pytest.mark.parametrize(("n", "rate"), [(20, 0.5), (50, 0.9), (100, 0.85), (100, 0.5)])
def test_kappas_interval_covers_where_nearly_all_agree(n, rate):
    assert held(n, rate, rate, 0.85) >= 0.93


def test_kappa_of_three_classes():
    # Fleiss, Cohen and Everitt 1969, table 1, two judges and three classes: kappa .429 with a
    # standard error of .053.
    shares = np.array([[0.53, 0.05, 0.02], [0.11, 0.14, 0.05], [0.01, 0.06, 0.03]])
    rows = [(i, j) for i in range(3) for j in range(3) for _ in range(round(200 * shares[i, j]))]
    found = kappa(*zip(*rows, strict=True))
    assert (found.n, found.value) == (200, pytest.approx(0.429, abs=5e-4))
    assert (found.interval.high - found.interval.low) / (2 * 1.96) == pytest.approx(
        0.053, abs=0.002
    )


def test_a_confusion_has_the_kappa_of_its_verdicts():
    truth, judged = [1, 1, 1, 0, 0, 1, 0], [1, 0, 1, 0, 1, 1, 0]
    assert confusion(truth, judged).kappa() == kappa(truth, judged)


def test_a_confusion_has_the_agreement_of_its_verdicts():
    truth, judged = [1, 1, 1, 0, 0, 1, 0], [1, 0, 1, 0, 1, 1, 0]
    assert confusion(truth, judged).agreement() == agreement(truth, judged)


def test_a_confusion_tells_the_two_ways_to_be_wrong_apart():
    table = Confusion(true_pass=6, false_fail=2, false_pass=1, true_fail=3)
    found = [x.value for x in (table.sensitivity(), table.specificity(), table.precision())]
    assert found == [6 / 8, 3 / 4, 6 / 7]


def test_a_share_of_clustered_units_has_the_limits_of_as_many_as_tell_the_same():
    found = Confusion(true_pass=60, false_fail=20, false_pass=5, true_fail=9).sensitivity(
        effect=2.0
    )
    exact = binomtest(30, 40).proportion_ci(method="exact")
    assert (found.value, found.effective_n) == (0.75, 40)
    assert (found.interval.low, found.interval.high) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize(
    ("table", "measure", "why"),
    [
        (Confusion(0, 0, 2, 3), "sensitivity", "no label says pass"),
        (Confusion(2, 3, 0, 0), "specificity", "no label says fail"),
        (Confusion(0, 3, 0, 2), "precision", "the judge passed nothing"),
        (Confusion(9, 0, 0, 0), "kappa", "all verdicts are of one class"),
        (Confusion(0, 0, 0, 0), "kappa", "no pairs"),
    ],
)
def test_a_measure_that_cannot_be_had_says_why(table, measure, why):
    with pytest.raises(NotEstimableError, match=why):
        getattr(table, measure)()
