"""What estimates refuse, and what they never do."""

import numpy as np
import pytest

from spanscore.stats import (
    Interval,
    NotEstimableError,
    mean,
    over_tasks,
    paired_difference,
    rate,
    unpaired_difference,
)


@pytest.mark.parametrize(
    "estimate", [lambda: mean([]), lambda: rate(0, 0), lambda: over_tasks([], 1)]
)
def test_nothing_has_no_estimate(estimate):
    with pytest.raises(NotEstimableError, match=r"there (are no|is nothing)"):
        estimate()


def test_no_pairs_have_no_difference():
    with pytest.raises(NotEstimableError, match="there are no pairs"):
        paired_difference([], [])


@pytest.mark.parametrize("values", [[1.2], [-0.1, 0.5], [float("nan")]])
def test_a_value_out_of_bounds_is_refused(values):
    with pytest.raises(ValueError, match="each must lie from 0 to 1"):
        mean(values)


@pytest.mark.parametrize("weights", [[1, 0], [1], [1, float("inf")]])
def test_a_weight_that_is_none_is_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        mean([0.5, 0.6], weights=weights)


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_that_is_no_share_is_refused(level):
    with pytest.raises(ValueError, match="level"):
        rate(1, 2, level=level)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_values_that_are_all_equal_leave_doubt(value):
    interval = mean([value] * 10).interval
    assert interval.low <= value <= interval.high
    assert interval.high - interval.low > 0.2


def test_passes_and_fails_have_the_interval_of_a_rate():
    assert mean([1, 1, 0, 1]).interval == rate(3, 4).interval


def test_other_bounds_only_stretch_the_interval():
    one, other = mean([0.2, 0.7, 0.4]).interval, mean([1.0, 3.5, 2.0], bounds=(0, 5)).interval
    assert (other.low, other.high) == pytest.approx((one.low * 5, one.high * 5))


def test_equal_weights_are_as_none():
    values = [0.2, 0.7, 0.4, 0.9]
    one, other = mean(values).interval, mean(values, weights=[3, 3, 3, 3]).interval
    assert (one.low, one.high) == pytest.approx((other.low, other.high))


def test_weights_have_an_effective_n_by_kish():
    assert mean([0.2, 0.7, 0.4], weights=[1, 1, 2]).effective_n == pytest.approx(16 / 6)


def test_turns_that_repeat_their_session_tell_no_more_than_one():
    alone = mean([0.2, 0.7, 0.4]).interval
    repeated = mean(np.repeat([0.2, 0.7, 0.4], 5).tolist(), clusters=[*"aaaaabbbbbccccc"]).interval
    assert (repeated.low, repeated.high) == pytest.approx((alone.low, alone.high))


def test_a_difference_is_the_other_way_round_when_its_sides_are():
    a, b = [1, 1, 0, 1, 0], [0, 1, 0, 0, 0]
    for difference in (paired_difference, unpaired_difference):
        one, other = difference(a, b).interval, difference(b, a).interval
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low))


def test_limits_belong_to_an_interval():
    assert [x in Interval(0.2, 0.4) for x in (0.1, 0.2, 0.4, 0.5)] == [False, True, True, False]
