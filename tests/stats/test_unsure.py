"""Scores on which a judge is unsure: found around its threshold, and as many errors outside as were
allowed at most.
"""

import numpy as np
import pytest

from spanscore.stats import NotEstimableError, unsure_scores
from spanscore.stats.agreement import unsure_limits

PARTED = [False] * 20 + [True, False] * 5 + [True] * 20
SCORES = [0.1] * 20 + [0.6] * 10 + [0.9] * 20


def chance(x):
    """That people pass a unit of this score."""
    return 1 / (1 + np.exp(-12 * (x - 0.55)))


def drawn(rng, n):
    scores = np.round(rng.beta(0.8, 0.6, n), 2)
    return rng.random(n) < chance(scores), scores


def test_a_limit_lies_between_the_scores_that_were_seen():
    assert unsure_scores(PARTED, SCORES, threshold=0.5).limits == pytest.approx((0.35, 0.75))


def test_on_a_side_without_enough_labels_nothing_is_sure():
    few = unsure_scores([False] * 20 + [True] * 3, [0.1] * 20 + [0.9] * 3, threshold=0.5)
    assert few.limits == (0.5, 1)


def test_with_enough_labels_that_all_agree_nothing_is_unsure():
    found = unsure_scores([False] * 30 + [True] * 30, [0.1] * 30 + [0.9] * 30, threshold=0.5)
    assert (found.limits, found.share.value, found.wrong.value) == ((0.5, 0.5), 0.0, 0.0)


def test_a_judge_that_is_no_better_than_chance_is_sure_of_nothing():
    found = unsure_scores([True, False] * 40, [0.1, 0.1, 0.9, 0.9] * 20, threshold=0.5)
    assert (found.limits, found.share.value, found.wrong) == ((0, 1), 1.0, None)


def test_many_sure_scores_far_above_do_not_make_an_unsure_one_sure():
    labels, scores = (
        [True, False] * 5 + [True] * 500 + [False] * 30,
        [0.6] * 10 + [1.0] * 500 + [0.0] * 30,
    )
    assert unsure_scores(labels, scores, threshold=0.5).limits == pytest.approx((0.3, 0.8))


def test_the_limits_keep_to_the_scale_of_the_scores():
    labels, scores = [True, False] * 10, [0.2, 5.0] * 10
    assert unsure_scores(labels, scores, threshold=3, bounds=(0, 5)).limits == (0, 5)


def test_more_errors_allowed_make_fewer_scores_unsure():
    rng = np.random.default_rng(1)
    labels, scores = drawn(rng, 300)
    strict, loose = (unsure_limits(labels, scores, 0.5, (0, 1), x) for x in (0.02, 0.15))
    assert strict[0] <= loose[0] < loose[1] <= strict[1]


@pytest.mark.parametrize("n", [50, 200])
def test_outside_the_limits_verdicts_are_wrong_no_more_often_than_was_allowed(n):
    rng = np.random.default_rng(n)
    every = np.round(rng.beta(0.8, 0.6, 5000), 2)
    wrong_at = np.where(every >= 0.5, 1 - chance(every), chance(every))
    wrong = []
    for _ in range(100):
        low, high = unsure_limits(*drawn(rng, n), 0.5, (0, 1), 0.05)
        outside = (every < low) | (every > high)
        wrong += [wrong_at[outside].mean()] if outside.any() else []
    assert np.mean(wrong) <= 0.05


def test_the_share_that_is_wrong_is_of_units_that_did_not_choose_the_limits():
    """People answer at random: limits that fit a few of them by chance do not look good."""
    rng = np.random.default_rng(3)
    found = unsure_scores(
        list(rng.random(40) < 0.5), list(rng.random(40)), threshold=0.5, most_wrong=0.2
    )
    assert found.wrong is None or found.wrong.value > 0.2


def test_turns_of_a_session_are_left_out_together_and_count_once():
    clusters = [x // 5 for x in range(50)]
    found = unsure_scores(PARTED, SCORES, threshold=0.5, clusters=clusters)
    assert found.share.n == 10


@pytest.mark.parametrize("clusters", [None, ["one", "one"]])
def test_one_unit_is_not_enough(clusters):
    count = 1 if clusters is None else 2
    with pytest.raises(NotEstimableError, match="two sessions or traces at least"):
        unsure_scores([True] * count, [0.9] * count, threshold=0.5, clusters=clusters)
