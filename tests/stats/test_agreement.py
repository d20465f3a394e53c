"""Agreement, kappa and the errors of a judge."""

import numpy as np
import pytest
from scipy.stats import binomtest

from spanscore.stats import Confusion, NotEstimableError, agreement, confusion, kappa


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
