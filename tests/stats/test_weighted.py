"""Weighted estimates: what they are by hand, and how often their intervals hold the truth.

Simulated from fixed seeds; a coverage of 95 % is known to a standard error of .007, of .015 with
`FEW` data sets. The longer simulations are in bench/weighted.py.
"""

import numpy as np
import pytest
from scipy.stats import gamma

from spanscore.stats import NotEstimableError, mean, rate
from spanscore.stats.agreement import Confusion
from spanscore.stats.correction import corrected_rate
from spanscore.stats.distributions import gamma_quantile
from spanscore.stats.means import limits_from_sums
from spanscore.stats.weighted import (
    corrected_mean,
    crossed,
    independent_verdicts,
    moments,
    population_mean,
    weighted_difference,
    weighted_mean,
    weighted_means,
    weighted_total,
)

REPEATS = 1000
FEW = 200


def holds(estimate, truth):
    return estimate.interval.low - 1e-9 <= truth <= estimate.interval.high + 1e-9


def means(y, weights, least_chance):
    """The limits that `weighted_mean` has for each row, of independent units; those of weight 0
    were not drawn.
    """
    total = weights.sum(1)
    center = (weights * y).sum(1) / total
    shares = weights / total[:, None]
    pulls = shares * (y - center[:, None])
    of_shares, of_pulls = (((x**2).sum(1), (x**4).sum(1)) for x in (shares, pulls))
    heaviest = np.maximum(weights.max(1), 1 / least_chance) / total
    return limits_from_sums(center, of_shares, of_pulls, 0.95, heaviest=heaviest)


DRAWN = {
    "a tenth at 1 in 10": (0.1, 0.1),
    "a fiftieth at 1 in 50": (0.02, 0.02),
    "a third at 1 in 10": (0.3, 0.1),
    "all but errors at 1 in 20": (0.97, 0.05),
    "half at 1 in 2": (0.5, 0.5),
}
VALUES = {
    "pass or fail": (0.6, 0.6),
    "pass or fail, unlike": (0.3, 0.7),
    "all rare ones fail": (0.0, 1.0),
    "all pass": (1.0, 1.0),
    "hardly any pass": (0.05, 0.05),
    "graded, unlike": ((2, 4), (4, 2)),
}


@pytest.mark.parametrize("n", [20, 200, 1000])
@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.parametrize("values", VALUES)
def test_a_weighted_mean_is_covered_for_few_units_and_extreme_weights(values, drawn, n):
    (share, chance), kinds = DRAWN[drawn], VALUES[values]
    rng = np.random.default_rng(n)
    rare = rng.random((REPEATS, n)) < share
    if isinstance(kinds[0], tuple):
        y = np.where(rare, *(rng.beta(*x, rare.shape) for x in kinds))
        of_kinds = [a / (a + b) for a, b in kinds]
    else:
        y, of_kinds = (rng.random(rare.shape) < np.where(rare, *kinds)).astype(float), kinds
    weights = np.where(~rare, 1.0, np.where(rng.random(rare.shape) < chance, 1 / chance, 0.0))
    some = weights.sum(1) > 0
    low, high = means(y[some], weights[some], chance)
    truth = share * of_kinds[0] + (1 - share) * of_kinds[1]
    assert ((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean() >= 0.92


@pytest.mark.parametrize("sessions", [8, 30, 150])
@pytest.mark.parametrize("alike", [0.0, 0.6, 1.0])
def test_a_weighted_mean_of_turns_in_sessions_is_covered(sessions, alike):
    rng, chance, hits = np.random.default_rng(sessions), 0.2, 0
    for _ in range(FEW):
        turns = rng.integers(1, 7, sessions)
        errs = np.repeat(rng.random(sessions) < 0.3, turns)
        common = np.repeat(rng.random(sessions), turns)
        luck = np.where(rng.random(len(errs)) < alike, common, rng.random(len(errs)))
        kept = np.repeat(rng.random(sessions) < chance, turns) | errs
        y, chances = (luck < np.where(errs, 0.2, 0.8)).astype(float), np.where(errs, 1.0, chance)
        found = moments(
            y[kept], chances[kept], clusters=np.repeat(range(sessions), turns)[kept].tolist()
        )
        hits += found.units == 0 or holds(weighted_mean(found, least_chance=chance), 0.62)
    assert hits / FEW >= 0.92


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


@pytest.mark.parametrize("total", [20, 200])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("chances", [(1.0, 0.05), (1.0, 0.3), (0.5, 0.5)])
def test_a_weighted_total_is_covered(chances, share, total):
    rng, hits = np.random.default_rng(total), 0
    y, chance = (
        (rng.random(total) < share).astype(float),
        np.where(rng.random(total) < 0.3, *chances),
    )
    for _ in range(FEW):
        kept = rng.random(total) < chance
        hits += holds(weighted_total(y[kept], chance[kept], least_chance=min(chances)), y.sum())
    assert hits / FEW >= 0.92


def test_a_total_of_which_all_was_drawn_has_no_error():
    found = weighted_total([1, 0, 0.5], [1, 1, 1])
    assert (found.value, found.interval.low, found.interval.high) == (1.5, 1.5, 1.5)


def test_a_total_of_sessions_that_were_drawn_as_wholes_is_covered():
    rng, hits = np.random.default_rng(3), 0
    turns = rng.integers(1, 6, 80)
    of_turn = np.repeat(np.arange(80), turns)
    y = np.repeat(rng.random(80) < 0.2, turns).astype(float)
    for _ in range(FEW):
        kept = (rng.random(80) < 0.25)[of_turn]
        found = weighted_total(
            y[kept], np.full(kept.sum(), 0.25), clusters=of_turn[kept].tolist(), least_chance=0.25
        )
        hits += holds(found, y.sum())
    assert hits / FEW >= 0.92


def test_a_total_of_sessions_wants_one_chance_for_each():
    with pytest.raises(ValueError, match="have one chance"):
        weighted_total([1, 1], [0.5, 0.1], clusters="aa")


def test_the_mean_over_a_known_population_is_the_total_by_its_size():
    assert population_mean([1, 1], [0.5, 0.5], 10).value == pytest.approx(0.4)


def test_a_population_is_not_less_than_what_was_drawn_from_it():
    with pytest.raises(ValueError, match="population of 1"):
        population_mean([1, 1], [1, 1], 1)


def by_cluster(y, chances, clusters):
    sums = {}
    for value, chance, cluster in zip(y, chances, clusters, strict=True):
        a, b = sums.get(cluster, (0.0, 0.0))
        sums[cluster] = (a + value / chance, b + 1 / chance)
    return sums


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sessions", [6, 25, 100])
def test_a_difference_is_covered_whatever_share_of_the_sessions_is_in_both(sessions, shared):
    rng, hits = np.random.default_rng(sessions), 0
    for _ in range(FEW):
        kind = rng.random((2, sessions))
        kind[1] = np.where(np.arange(sessions) < shared * sessions, kind[0], kind[1])
        names = [
            np.arange(sessions),
            np.where(np.arange(sessions) < shared * sessions, 0, 1000) + np.arange(sessions),
        ]
        groups = []
        for own, of, better in zip(kind, names, (0.0, 0.15), strict=True):
            chance = np.where(own < 0.4, 1.0, 0.4)
            kept = rng.random(sessions) < chance
            y = (rng.random(sessions) < 0.1 + better + 0.7 * own).astype(float)
            groups.append((y[kept], chance[kept], of[kept].tolist()))
        if not all(len(x[0]) for x in groups):
            hits += 1
            continue
        before, after = (moments(*x[:2], clusters=x[2]) for x in groups)
        common = crossed(*(by_cluster(*x) for x in groups))
        hits += holds(weighted_difference(before, after, shared=common, least_chance=0.4), 0.15)
    assert hits / FEW >= 0.92


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


def test_a_corrected_rate_of_weighted_verdicts_in_sessions_is_covered():
    rng, hits = np.random.default_rng(5), 0
    for _ in range(FEW):
        labels = rng.binomial(80, [0.9, 0.15])
        judge = Confusion(labels[0], 80 - labels[0], labels[1], 80 - labels[1])
        turns = rng.integers(1, 5, 120)
        errs = np.repeat(rng.random(120) < 0.3, turns)
        passes = np.repeat(rng.random(120), turns) < np.where(errs, 0.2, 0.8)
        y = (rng.random(len(passes)) < np.where(passes, 0.9, 0.15)).astype(float)
        kept = errs | np.repeat(rng.random(120) < 0.4, turns)
        chances = np.where(errs, 1.0, 0.4)
        found = moments(
            y[kept], chances[kept], clusters=np.repeat(range(120), turns)[kept].tolist()
        )
        hits += holds(corrected_mean(found, judge), 0.62)
    assert hits / FEW >= 0.92


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
