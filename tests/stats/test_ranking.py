"""The area under the ROC curve and the best threshold: their intervals hold the true value as often
as they say.
"""

from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from spanscore.stats import NotEstimableError, auc, best_threshold
from spanscore.stats.ranking import area_limits

REPLICATIONS = 4000
NORMAL = NormalDist()


def held(placements, m, n, area, *, spread=1.0, grades=None):
    """How often the interval holds the area: m passes and n fails, normal, maybe of unequal spread
    or in grades.
    """
    rng = np.random.default_rng(m + n)
    shift = (1 + spread**2) ** 0.5 * NORMAL.inv_cdf(area)
    high, low = rng.normal(shift, spread, (REPLICATIONS, m)), rng.normal(0, 1, (REPLICATIONS, n))
    if grades is not None:
        high, low = (np.digitize(x, grades).astype(float) for x in (high, low))
        of_high = np.diff([0, *(NORMAL.cdf((x - shift) / spread) for x in grades), 1])
        of_low = np.diff([0, *(NORMAL.cdf(x) for x in grades), 1])
        area = of_high @ (np.cumsum(of_low) - of_low / 2)
    least, most = area_limits(*placements(high, low), 0.95)
    return ((least <= area) & (area <= most)).mean()


@pytest.mark.parametrize(("m", "n"), [(50, 50), (30, 70)])
@pytest.mark.parametrize("area", [0.6, 0.8])
@pytest.mark.parametrize(
    "how", [{}, {"spread": 2.0}, {"grades": [-1, 0, 1, 2]}, {"grades": [0.5, 2.5]}], ids=str
)
def test_the_interval_of_an_area_covers(placements, m, n, area, how):
    assert 0.93 <= held(placements, m, n, area, **how) <= 0.97


@pytest.mark.parametrize(("m", "n"), [(5, 5), (10, 10), (5, 15), (10, 40)])
@pytest.mark.parametrize("area", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("how", [{}, {"grades": [-1, 0, 1, 2]}], ids=str)
def test_the_interval_of_an_area_covers_with_few_labels(placements, m, n, area, how):
    assert held(placements, m, n, area, **how) >= 0.93


@pytest.mark.parametrize("area", [0.95, 0.99])
def test_the_interval_of_an_area_near_1_covers(placements, area):
    assert held(placements, 50, 50, area) >= 0.93


def test_an_area_is_mann_and_whitneys():
    rng = np.random.default_rng(3)
    high, low = rng.integers(2, 8, 30), rng.integers(0, 6, 40)
    expected = stats.mannwhitneyu(high, low).statistic / (30 * 40)
    assert auc([True] * 30 + [False] * 40, [*high, *low]).value == pytest.approx(expected)


def test_an_area_of_1_has_a_lower_limit():
    found = auc([True] * 20 + [False] * 20, [1.0] * 20 + [0.0] * 20)
    assert (found.value, found.interval.high) == (1.0, 1.0)
    assert 0.8 < found.interval.low < 1


def test_turned_around_the_interval_is_too():
    labels, scores = [True] * 6 + [False] * 9, list(np.random.default_rng(1).normal(size=15))
    one, other = auc(labels, scores).interval, auc([not x for x in labels], scores).interval
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low))


# Labels of each class, what is best, and how far apart the scores are: two normals, whose densities
# cross there.
THRESHOLDS = {
    "50 and 50": (50, 50, "youden", 1.5),
    "agreement": (60, 40, "agreement", 1.5),
}
FEW = {"5 and 20": (5, 20, "youden", 1.5)}


def threshold_held(m, n, by, apart):
    rng = np.random.default_rng(5)
    best = apart / 2 - (np.log(m / n) / apart if by == "agreement" else 0)
    labels = [True] * m + [False] * n
    held = 0
    for _ in range(REPLICATIONS):
        scores = np.concatenate((rng.normal(apart, 1, m), rng.normal(0, 1, n)))
        held += (
            best in best_threshold(labels, scores, by=by, bounds=(-5, 8), resamples=120).interval
        )
    return held / REPLICATIONS


@pytest.mark.parametrize("name", THRESHOLDS)
def test_the_interval_of_a_threshold_covers(name):
    assert 0.93 <= threshold_held(*THRESHOLDS[name]) <= 0.97


@pytest.mark.parametrize("name", FEW)
def test_the_interval_of_a_threshold_covers_with_few_labels_of_a_class(name):
    assert threshold_held(*FEW[name]) >= 0.93


def test_the_interval_of_a_threshold_between_grades_covers_more_often_than_it_says():
    """Five grades of the normals above: there are four thresholds between them, of which the second
    is best.
    """
    rng = np.random.default_rng(5)
    labels = [True] * 50 + [False] * 50
    held = 0
    for _ in range(REPLICATIONS):
        scores = np.digitize(
            np.concatenate((rng.normal(1.5, 1, 50), rng.normal(0, 1, 50))), [-0.5, 0.5, 1.3, 2.0]
        )
        held += 1.5 in best_threshold(labels, scores, bounds=(0, 4), resamples=50).interval
    assert held / REPLICATIONS >= 0.97


def test_with_few_labels_of_a_class_the_interval_is_the_scale():
    found = best_threshold([True] * 4 + [False] * 40, np.linspace(0.9, 0.1, 44), bounds=(0, 1))
    assert (found.interval.low, found.interval.high) == (0, 1)


def test_scores_that_tell_nothing_are_best_passed_or_failed_as_a_whole():
    labels = [True] * 30 + [False] * 10
    assert best_threshold(labels, [0.2, 0.8] * 20, by="agreement", bounds=(0, 1)).value == 0


@pytest.mark.parametrize("by", ["youden", "agreement"])
def test_a_threshold_that_parts_all_lies_between(by):
    assert 0.4 < best_threshold([True, False, True, False], [0.9, 0.1, 0.8, 0.4], by=by).value < 0.8


def test_youden_weighs_the_classes_alike_and_agreement_by_their_size():
    labels = [True] * 90 + [False] * 10
    scores = [0.8] * 60 + [0.4] * 30 + [0.4] * 8 + [0.2] * 2
    assert best_threshold(labels, scores).value > 0.4
    assert best_threshold(labels, scores, by="agreement").value < 0.4


def test_the_same_labels_give_the_same_interval():
    labels, scores = [True] * 8 + [False] * 8, list(np.random.default_rng(2).normal(size=16))
    assert best_threshold(labels, scores) == best_threshold(labels, scores)


@pytest.mark.parametrize("measure", [auc, best_threshold])
@pytest.mark.parametrize(
    ("labels", "why"), [([True, True], "no label says fail"), ([False, False], "says pass")]
)
def test_one_class_alone_is_refused(measure, labels, why):
    with pytest.raises(NotEstimableError, match=why):
        measure(labels, [0.1, 0.2])
