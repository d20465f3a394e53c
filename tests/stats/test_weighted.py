"""Weighted estimates: what they are by hand."""

import numpy as np
import pytest
from scipy.stats import gamma

from bench.coverage import by_cluster
from spanscore.stats import NotEstimableError, mean, moments, rate, weighted_mean
from spanscore.stats.agreement import Confusion
from spanscore.stats.correction import corrected_rate
from spanscore.stats.distributions import gamma_quantile
from spanscore.stats.means import weighted_means
from spanscore.stats.weighted import (
    corrected_mean,
    crossed,
    independent_verdicts,
    population_mean,
    weighted_difference,
    weighted_total,
)


def test_independent_units_of_equal_weight_have_the_interval_of_a_rate():
    assert weighted_mean(moments([1, 1, 0, 1], [1] * 4)) == rate(3, 4)


def test_the_value_and_the_effective_n_are_those_of_the_weighted_mean():
    values, chances, clusters = [0.2, 0.9, 1, 0.4], [1, 0.5, 0.5, 0.1], ["a", "a", "b", "c"]
    found = weighted_mean(moments(values, chances, clusters=clusters))
    known = mean(values, weights=[1 / x for x in chances], clusters=clusters)
    assert (found.value, found.n, found.effective_n) == pytest.approx(
        (known.value, known.n, known.effective_n)
    )


def test_moments_of_groups_that_share_no_session_add_up():
    a = moments([0.2, 0.9], [1, 0.5], clusters="aa")
    b = moments([1, 0.4], [0.5, 0.1], clusters="bc")
    whole = moments([0.2, 0.9, 1, 0.4], [1, 0.5, 0.5, 0.1], clusters="aabc")
    assert weighted_mean(a + b).interval.low == pytest.approx(weighted_mean(whole).interval.low)


def test_scores_that_nearly_agree_do_not_lose_their_interval_to_rounding():
    close = weighted_mean(moments(0.8 + 1e-7 * np.arange(50), np.full(50, 0.5)))
    assert 0.7 < close.interval.low < 0.8 < close.interval.high


def test_an_interval_is_wider_where_something_was_drawn_with_a_chance_of_which_nothing_was_seen():
    found = moments([1] * 200, [1] * 200)
    assert (
        weighted_mean(found, least_chance=0.02).interval.low
        < weighted_mean(found).interval.low - 0.1
    )


def test_other_bounds_scale_the_estimate():
    found = weighted_mean(moments([1, 5, 4], [1, 1, 0.5], bounds=(1, 5)), bounds=(1, 5))
    assert found.value == pytest.approx(3.5)
    assert 1 <= found.interval.low < 3.5 < found.interval.high <= 5


def test_without_units_there_is_no_mean():
    with pytest.raises(NotEstimableError, match="no values"):
        weighted_mean(moments([], []))


@pytest.mark.parametrize(
    ("values", "chances", "message"),
    [
        ([1, 0], [1], "a chance for each"),
        ([2], [1], "values"),
        ([float("nan")], [1], "values"),
        ([1], [0], "chances"),
    ],
)
def test_what_is_no_value_or_chance_is_refused(values, chances, message):
    with pytest.raises(ValueError, match=message):
        moments(values, chances)


def test_a_total_of_which_all_was_drawn_has_no_error():
    found = weighted_total([1, 0, 0.5], [1, 1, 1])
    assert (found.value, found.interval.low, found.interval.high) == (1.5, 1.5, 1.5)


def test_a_total_of_sessions_wants_one_chance_for_each():
    with pytest.raises(ValueError, match="have one chance"):
        weighted_total([1, 1], [0.5, 0.1], clusters="aa")


def test_the_mean_over_a_known_population_is_the_total_by_its_size():
    assert population_mean([1, 1], [0.5, 0.5], 10).value == pytest.approx(0.4)


def test_a_population_is_not_less_than_what_was_drawn_from_it():
    with pytest.raises(ValueError, match="population of 1"):
        population_mean([1, 1], [1, 1], 1)


def test_sessions_that_both_have_make_a_difference_surer():
    y = np.random.default_rng(1).random(60)
    sums = by_cluster(y, np.ones(60), range(60)), by_cluster(y * 0.9, np.ones(60), range(60))
    groups = moments(y, np.ones(60)), moments(y * 0.9, np.ones(60))
    paired, apart = (
        weighted_difference(*groups, shared=crossed(*sums)),
        weighted_difference(*groups),
    )
    assert paired.interval.high < 0 < apart.interval.high


def test_equal_verdicts_of_the_same_sessions_leave_a_difference_open():
    y = [1.0] * 20
    sums = by_cluster(y, y, range(20))
    found = weighted_difference(moments(y, y), moments(y, y), shared=crossed(sums, sums))
    assert found.interval.low < 0 < found.interval.high


JUDGE = Confusion(90, 10, 15, 85)


def test_verdicts_of_equal_weight_are_corrected_as_their_counts_are():
    found = corrected_mean(moments([1] * 60 + [0] * 40, [0.5] * 100), JUDGE)
    known = corrected_rate(60, 100, JUDGE)
    assert (found.value, found.interval.low) == pytest.approx(
        (known.value, known.interval.low), abs=0.003
    )


def test_verdicts_that_repeat_their_session_count_once():
    found = moments([1, 1, 0, 0] * 10, [1] * 40, clusters=[x // 2 for x in range(40)])
    assert independent_verdicts(found) == pytest.approx(19, abs=1.1)


@pytest.mark.parametrize("shape", [0.3, 1, 10, 1e4])
@pytest.mark.parametrize("share", [0.001, 0.025, 0.5, 0.975])
def test_quantiles_of_the_gamma_distribution_are_right(share, shape):
    assert gamma_quantile(share, shape) == pytest.approx(gamma.ppf(share, shape), rel=1e-4)


def test_means_in_one_go_are_those_that_each_has_alone():
    found = [
        moments([1, 0, 1, 1], [1, 1, 1, 1]),
        moments([0.2, 0.4, 0.9], [1, 0.5, 0.1], clusters=["a", "a", "b"]),
        moments([1, 1], [0.5, 0.5]),
    ]
    for least_chance in (1.0, 0.1):
        together = weighted_means(found, least_chance=least_chance)
        alone = [weighted_mean(x, least_chance=least_chance) for x in found]
        for one, other in zip(together, alone, strict=True):
            assert one.value == other.value
            assert (one.interval.low, one.interval.high) == pytest.approx(
                (other.interval.low, other.interval.high)
            )
