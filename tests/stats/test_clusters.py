"""Units that come in clusters tell less, and intervals that know of it hold the truth as often as
they say.
"""

import numpy as np
import pytest

from spanscore.stats import agreement, best_threshold, design_effect, effective_number, kappa
from spanscore.stats.agreement import kappa_limits, kappa_pulls
from spanscore.stats.clusters import effect_between
from spanscore.stats.ranking import area_limits, area_pulls

REPLICATIONS = 4000
# both pass, only the truth does, only the judge does, neither
SHARES = np.array([0.5, 0.1, 0.1, 0.3])
KAPPA = (0.8 - 0.52) / (1 - 0.52)


def turns(rng, count):
    """Of which session each turn is, of 1 to 5 turns, and where each session begins."""
    of_session = rng.integers(1, 6, count)
    return np.repeat(np.arange(count), of_session), np.cumsum(of_session) - of_session


def tables(count, alike):
    """Drawn tables, and the design effect in each; in a share of the sessions all turns are
    `alike`.
    """
    rng = np.random.default_rng(count)
    of_turn, starts = turns(rng, count)
    drawn, common = (
        rng.choice(4, (REPLICATIONS, size), p=SHARES) for size in (len(of_turn), count)
    )
    cells = np.where(
        (rng.random((REPLICATIONS, count)) < alike)[:, of_turn], common[:, of_turn], drawn
    )
    counts = np.stack([(cells == x).sum(1) for x in range(4)], -1).reshape(-1, 2, 2).astype(float)
    pulls = np.take_along_axis(kappa_pulls(counts).reshape(-1, 4), cells, 1)
    return counts, effect_between(pulls, np.add.reduceat(pulls, starts, 1))


def held(counts):
    low, high = kappa_limits(counts, 0.95)
    return ((low <= KAPPA) & (high >= KAPPA)).mean()


@pytest.mark.parametrize(("count", "alike"), [(25, 0.6), (100, 0.0), (100, 0.6)])
def test_kappas_interval_covers_where_turns_of_a_session_are_alike(count, alike):
    counts, effect = tables(count, alike)
    assert 0.93 <= held(counts / effect[:, None, None]) <= (0.97 if count >= 100 else 1)


def test_kappas_interval_does_not_cover_where_turns_are_taken_as_independent():
    counts, _ = tables(100, 0.6)
    assert held(counts) < 0.9


@pytest.mark.parametrize("count", [30, 100])
def test_an_areas_interval_covers_where_turns_of_a_session_are_alike(placements, count):
    rng = np.random.default_rng(count)
    area = 0.7602  # of normals 1 apart
    own, common = (
        rng.normal(size=(REPLICATIONS, count, 3)),
        rng.normal(size=(REPLICATIONS, count, 1)),
    )
    scores = 0.8**0.5 * common + 0.2**0.5 * own
    half = count // 2
    wins, losses = placements(
        1 + scores[:, :half].reshape(REPLICATIONS, -1), scores[:, half:].reshape(REPLICATIONS, -1)
    )
    pulls = area_pulls(wins, 1 - losses)
    low, high = area_limits(
        wins, losses, 0.95, effect_between(pulls, pulls.reshape(REPLICATIONS, count, 3).sum(-1))
    )
    assert 0.93 <= ((low <= area) & (area <= high)).mean() <= (0.97 if count >= 100 else 1)


def test_turns_that_repeat_their_session_tell_no_more_than_one():
    a, b = [1, 1, 0, 0, 1, 0, 1, 1, 0, 0] * 5, [1, 0, 0, 0, 1, 1, 1, 1, 0, 1] * 5
    once, thrice = kappa(a, b), kappa(a * 3, b * 3, clusters=[*range(50)] * 3)
    assert thrice.n == 50
    assert (thrice.interval.low, thrice.interval.high) == pytest.approx(
        (once.interval.low, once.interval.high), abs=0.005
    )


def test_turns_of_sessions_that_tell_as_much_as_independent_ones_have_no_effect():
    assert design_effect(np.array([0.5, -0.5, 0.5, -0.5]), ["a", "a", "b", "b"]) == 1


@pytest.mark.parametrize("clusters", ["aaaa", "abcd"])
def test_one_cluster_tells_as_much_as_one_unit_and_clusters_of_one_as_much_as_all(clusters):
    assert effective_number([1, 0, 1, 0], clusters=clusters) == pytest.approx(len(set(clusters)))


def test_agreement_counts_clusters():
    assert agreement([1, 1, 0, 0], [1, 1, 0, 1], clusters="aabb").n == 2


def test_turns_of_few_sessions_leave_the_whole_scale_to_a_threshold():
    labels, scores = [True] * 20 + [False] * 20, [0.8] * 20 + [0.3] * 20
    found = best_threshold(
        labels, scores, bounds=(0, 1), clusters=["a"] * 10 + ["b"] * 20 + ["c"] * 10
    )
    assert (found.interval.low, found.interval.high, found.n) == (0, 1, 3)
