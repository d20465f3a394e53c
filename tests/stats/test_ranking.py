"""The area under the ROC curve and the best threshold."""

import numpy as np
import pytest
from scipy import stats

from spanscore.stats import NotEstimableError, auc, best_threshold


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
