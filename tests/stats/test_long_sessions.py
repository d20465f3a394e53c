"""One long session costs an interval of the size of its share."""

import numpy as np
import pytest

from bench.long_sessions import rows
from spanscore.stats import mean, moments, weighted_mean


def of_sessions(turns, value):
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(len(turns)), turns)
    return value(rng, len(clusters)), clusters.tolist()


def passing(rng, count):
    return (rng.random(count) < 0.8).astype(float)


def width(values, clusters):
    interval = mean(values, clusters=clusters).interval
    return interval.high - interval.low


@pytest.mark.parametrize("turns", [[200], [220, 220]])
def test_long_sessions_whose_turns_are_independent_leave_the_interval_narrow(turns):
    assert width(*of_sessions([2] * 1900 + turns, passing)) < 0.035


def test_of_scores_that_all_fail_a_session_of_a_fifth_costs_less_than_its_share():
    values, clusters = of_sessions([2] * 358 + [179], lambda _, count: np.zeros(count))
    interval = mean(values, clusters=clusters).interval
    assert interval.low == 0
    assert interval.high < 0.2


def test_a_long_session_whose_turns_are_alike_widens_the_interval():
    values, clusters = of_sessions([2] * 1900 + [200], passing)
    alike = values.copy()
    alike[-200:] = 0
    assert width(alike, clusters) > 2 * width(values, clusters)


def test_a_mean_has_the_interval_of_its_sums():
    values, clusters = of_sessions([2] * 20 + [9], passing)
    sums = weighted_mean(moments(values, [1] * len(values), clusters=clusters))
    assert mean(values, clusters=clusters).interval == sums.interval


@pytest.mark.parametrize(
    ("turns", "share"),
    [
        ([2] * 1900 + [200], 0.05),
        ([2] * 1900 + [220, 220], 220 / 4240),
        ([2] * 1901, 0),
        (list(range(1, 9)) * 10, 0),
        ([90, 10], 0),
    ],
)
def test_a_session_outweighs_where_without_it_more_would_count(turns, share):
    values, clusters = of_sessions(turns, passing)
    assert moments(values, [1] * len(values), clusters=clusters).outweighing == pytest.approx(share)


@pytest.mark.slow
def test_the_mean_is_held_whatever_share_of_the_turns_one_session_has():
    repeats = 300
    found = rows(repeats, 1, counts=(30,), methods=("used",))
    least = 0.93 - 3 * (0.93 * 0.07 / repeats) ** 0.5
    assert [x.name for x in found if x.found["used"][0] < least] == []
