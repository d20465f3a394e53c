"""Units that come in clusters tell less."""

import numpy as np
import pytest

from bench.coverage import kappas_of_sessions
from spanscore.stats import agreement, best_threshold, design_effect, effective_number, kappa


def test_kappas_interval_does_not_cover_where_turns_are_taken_as_independent():
    unaware = kappas_of_sessions(100, 0.6, np.random.default_rng(1), 500, by_turns=True)
    assert unaware.coverage < 0.9


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
