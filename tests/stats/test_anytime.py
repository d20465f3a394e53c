"""The test for a drop may be looked at after every unit. Years of it are in bench/anytime.py."""

import json

import numpy as np
import pytest

from bench.coverage import HEAVIEST, sessions
from spanscore.stats import NotEstimableError
from spanscore.stats.anytime import (
    BETS,
    DropTest,
    Evidence,
    confidence_sequence,
    grown,
    lower_limit,
    unspent,
    watch,
)

MONITORS = 50


def alarms(floor, alpha, values, weights):
    """For each row after which unit the alarm comes; the number of units where none does."""
    test = DropTest(floor, alpha, HEAVIEST)
    factors = test.factors(values, weights)
    capital = np.zeros((len(values), len(BETS)))
    found = np.full(len(values), values.shape[1])
    for unit in range(values.shape[1]):
        capital = np.minimum(grown(capital, unit, factors[:, unit]), 1e12)
        fell = capital.sum(1) + unspent(unit + 1) >= 1 / alpha
        found = np.where(fell, np.minimum(found, unit), found)
    return found


def test_fifty_monitors_that_look_at_every_session_raise_no_more_false_alarms_than_alpha_allows():
    values, weights = sessions(np.random.default_rng(1), (MONITORS, 2000), 0.8)
    assert (alarms(0.8, 0.05, values, weights) < 2000).sum() <= 5  # 2.5 are allowed on average


def test_the_mean_evidence_does_not_rise_while_nothing_changes():
    values, weights = sessions(np.random.default_rng(2), (2000, 200), 0.8)
    factors = DropTest(0.8, 0.01, HEAVIEST).factors(values, weights)
    capital = np.zeros((2000, len(BETS)))
    for unit in range(200):
        capital = grown(capital, unit, factors[:, unit])
    assert (capital.sum(1) + unspent(200)).mean() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(("rate", "soon"), [(0.3, 60), (0.5, 150), (0.65, 700)])
def test_a_drop_after_many_units_is_found_soon(rate, soon):
    rng = np.random.default_rng(3)
    parts = [sessions(rng, (MONITORS, size), x) for size, x in ((2000, 0.85), (1500, rate))]
    values, weights = (np.concatenate(x, 1) for x in zip(*parts, strict=True))
    found = alarms(0.8, 0.01, values, weights)
    assert (found >= 2000).all()
    assert np.median(found) - 2000 <= soon


def test_watching_in_batches_is_watching_all_at_once():
    values, weights = sessions(np.random.default_rng(4), 300, 0.6)
    test = DropTest(0.55, 0.001, HEAVIEST)
    whole, _ = watch(test, Evidence(), values, weights)
    part = Evidence()
    for first in range(0, 300, 70):
        part, _ = watch(test, part, values[first : first + 70], weights[first : first + 70])
    assert part == whole


def test_evidence_is_the_same_after_it_was_stored():
    found, _ = watch(DropTest(0.8, 0.01, 1), Evidence(), [1, 0.5, 0.9], [1, 1, 0.5])
    assert Evidence.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_an_alarm_says_since_when_the_values_are_low_and_what_their_mean_is():
    found, fell = watch(DropTest(0.8, 0.01, 1), Evidence(), [0.95] * 500 + [0.4] * 100, [1] * 600)
    assert fell
    assert found.units - found.low_units == pytest.approx(500, abs=3)
    assert found.low_mean == pytest.approx(0.4, abs=0.01)


def test_watching_stops_at_the_unit_that_raises_the_alarm():
    found, fell = watch(DropTest(0.8, 0.01, 1), Evidence(), [0] * 1000, [1] * 1000)
    assert fell
    assert found.units < 30


def test_a_floor_of_one_is_broken_by_the_first_failure():
    assert watch(DropTest(1, 0.01, 1), Evidence(), [1] * 50 + [0], [1] * 51)[1]


def test_what_is_heavier_than_the_heaviest_counts_as_that():
    test = DropTest(0.8, 0.01, 2)
    assert watch(test, Evidence(), [0.1], [50]) == watch(test, Evidence(), [0.1], [2])


def test_a_light_unit_moves_the_evidence_less():
    test = DropTest(0.8, 0.01, 10)
    light, heavy = (watch(test, Evidence(), [0.1], [x])[0].value for x in (1, 10))
    assert 1 < light < heavy


def test_the_limits_of_a_mean_close_in():
    values, weights = sessions(np.random.default_rng(6), 2000, 0.9)
    interval = confidence_sequence(values, weights, heaviest=HEAVIEST).interval
    assert interval.high - interval.low < 0.08


def test_all_passes_leave_room_below():
    assert 0.9 < lower_limit([1] * 100, [1] * 100, heaviest=1, alpha=0.025) < 1


def test_without_units_there_are_no_limits():
    with pytest.raises(NotEstimableError, match="no units"):
        confidence_sequence([], [], heaviest=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((2, 0.01, 1), "floor"),
        ((0.8, 0, 1), "alpha"),
        ((0.8, 1, 1), "alpha"),
        ((0.8, 0.01, 0), "heaviest"),
    ],
)
def test_what_is_no_test_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        DropTest(*given)


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ([1], [1, 1], "a weight for each"),
        ([1.5], [1], "values"),
        ([float("nan")], [1], "values"),
        ([1], [0], "above 0"),
    ],
)
def test_what_is_no_unit_is_refused(values, weights, message):
    with pytest.raises(ValueError, match=message):
        watch(DropTest(0.8, 0.01, 1), Evidence(), values, weights)


def test_evidence_of_other_bets_is_refused():
    stored = Evidence().to_json() | {"capital": [0.0]}
    with pytest.raises(ValueError, match="16 bets"):
        Evidence.from_json(stored)
