"""What a monitor makes of sessions."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from spanscore.monitoring import State, Unit, advance, alpha_of, start_watch
from spanscore.specs import Monitor


def units(rate, count, seed=1):
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 6, count)
    return [Unit(float(rng.binomial(x, rate) / x), float(x)) for x in weights]


def watched(monitor, *parts):
    state, changes = start_watch(monitor), []
    for part in parts:
        state, more = advance(monitor, state, part)
        changes += more
    return state, changes


FLOOR = Monitor(metric="task_completion", floor=0.8)


@pytest.mark.slow
def test_fifty_monitors_of_agents_that_do_not_change_raise_no_more_alarms_than_alpha_allows():
    monitor = Monitor(metric="task_completion", alpha=0.05, reference={"sessions": 200})
    assert sum(len(watched(monitor, units(0.85, 800, seed))[1]) for seed in range(50)) <= 5


def test_a_drop_below_the_floor_is_an_alarm_that_ends_when_the_mean_is_back():
    _, changes = watched(FLOOR, units(0.9, 500), units(0.4, 300, 2), units(0.9, 500, 3))
    assert [x.status for x in changes] == ["firing", "resolved"]


def test_an_alarm_says_what_the_mean_fell_to():
    _, [change] = watched(FLOOR, units(0.9, 500), units(0.4, 300, 2))
    assert change.state.low_mean == pytest.approx(0.4, abs=0.15)
    assert change.state.floor == 0.8


def test_a_drop_against_the_reference_is_found():
    monitor = Monitor(metric="task_completion", reference={"sessions": 300})
    state, _ = watched(monitor, units(0.9, 340))
    assert 0.8 < state.floor < 0.9
    assert [x.status for x in advance(monitor, state, units(0.5, 400, 2))[1]] == ["firing"]


def test_a_drop_within_the_tolerance_is_none():
    monitor = Monitor(metric="task_completion", reference={"sessions": 300, "tolerance": 0.6})
    assert not watched(monitor, units(0.9, 340), units(0.5, 1000, 2))[1]


def test_an_alarm_lasts_while_the_mean_is_low():
    _, changes = watched(FLOOR, units(0.9, 500), units(0.4, 3000, 2))
    assert [x.status for x in changes] == ["firing"]


def test_a_second_drop_is_a_second_alarm():
    low, high = units(0.3, 400, 2), units(0.9, 400)
    _, changes = watched(FLOOR, high, low, high, low)
    assert [(x.status, x.state.alarms) for x in changes] == [
        ("firing", 1),
        ("resolved", 1),
        ("firing", 2),
    ]


def test_the_chances_of_all_alarms_together_are_alpha():
    assert sum(alpha_of(FLOOR, alarms) for alarms in range(100_000)) == pytest.approx(
        FLOOR.alpha, rel=1e-4
    )


def test_a_state_is_the_same_after_it_was_stored():
    for count in (10, 100, 600):
        state, _ = watched(FLOOR, units(0.7, count))
        assert State.from_json(json.loads(json.dumps(state.to_json()))) == state


def test_batches_are_as_good_as_all_at_once():
    monitor = Monitor(metric="task_completion", reference={"sessions": 100})
    given = units(0.9, 400) + units(0.3, 300, 2)
    parts = [given[first : first + 37] for first in range(0, len(given), 37)]
    assert watched(monitor, *parts) == watched(monitor, given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"floor": 0.5, "reference": {}}, "floor or reference"),
        ({"every": "1m", "cron": "* * * * *"}, "every or cron"),
        ({"cron": "* * *"}, "cron"),
        ({"floor": 1.5}, "floor"),
        ({"alpha": 0}, "alpha"),
        ({"every": "10ms"}, "every"),
    ],
)
def test_what_is_no_monitor_is_refused(given, message):
    with pytest.raises(ValidationError, match=message):
        Monitor(metric="task_completion", **given)
