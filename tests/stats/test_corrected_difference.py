"""Differences of pass rates freed of the judge's error."""

import pytest

from spanscore.stats import Confusion, Estimate, Interval, NotEstimableError, corrected_difference

JUDGE = Confusion(90, 10, 20, 80)


def _judged(value, low, high):
    return Estimate(value, 400, Interval(low, high, 0.95), "")


@pytest.mark.slow
def test_a_judge_that_is_always_right_changes_nothing_but_for_its_labels():
    found = corrected_difference(_judged(0.2, 0.1, 0.3), Confusion(10**7, 0, 0, 10**7))
    assert (found.value, found.interval.low, found.interval.high) == pytest.approx(
        (0.2, 0.1, 0.3), abs=1e-5
    )


def test_exchanged_sides_have_the_same_difference_with_the_other_sign():
    one, other = (
        corrected_difference(_judged(*x), JUDGE) for x in ((0.2, 0.1, 0.35), (-0.2, -0.35, -0.1))
    )
    assert (one.value, one.interval.low, one.interval.high) == pytest.approx(
        (-other.value, -other.interval.high, -other.interval.low)
    )


def test_fewer_labels_give_a_wider_interval():
    few = corrected_difference(_judged(0.2, 0.1, 0.3), Confusion(9, 1, 2, 8)).interval
    many = corrected_difference(_judged(0.2, 0.1, 0.3), Confusion(900, 100, 200, 800)).interval
    assert few.low < many.low < many.high < few.high


def test_a_difference_that_the_judges_error_alone_would_explain_is_cut_and_noted():
    found = corrected_difference(_judged(0.9, 0.85, 0.95), JUDGE)
    assert (found.value, found.interval.high) == (1.0, 1.0)
    assert "cut to 1" in found.note


def test_a_judge_that_may_be_no_better_than_chance_is_noted():
    found = corrected_difference(_judged(0.1, 0.0, 0.2), Confusion(6, 4, 5, 5))
    assert "whether the judge is better than chance" in found.note
    assert (found.interval.low, found.interval.high) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("judged", "judge", "problem"),
    [
        (_judged(0.1, 0.0, 0.2), Confusion(5, 5, 6, 4), "no better than chance"),
        (_judged(0.1, 0.0, 0.2), Confusion(5, 5, 0, 0), "no label says fail"),
        (Estimate(0.1, 4, None, "", note="one session"), JUDGE, "one session"),
    ],
)
def test_what_cannot_be_corrected_is_refused_with_the_reason(judged, judge, problem):
    with pytest.raises(NotEstimableError, match=problem):
        corrected_difference(judged, judge)
