"""Monitors of the configuration: kept in the store as the last start had them, changed nowhere
else.
"""

import pytest
from monitored import METRICS, MINUTE, World
from pydantic import ValidationError

from spanscore.config import Settings
from spanscore.errors import ConfigError, ExistsError, NotFoundError, StateError
from spanscore.model.options import read_spec
from spanscore.specs import Monitor, MonitorSpec

RUN = {"every": "1m", "run": METRICS}


class Configured(World):
    """A server whose configuration has one monitor `m`."""

    def start(self, **configured):
        self.restart(**configured)
        self.do(self.monitors.look())


@pytest.fixture
def world(server):
    return Configured(server)


@pytest.mark.slow
def test_each_run_is_about_what_was_stored_since_the_one_before(world, server, traces):
    server.keep(traces(2))  # before the monitor was configured
    world.start(m=RUN)
    found = []
    for count in (3, 0, 4):
        ids = server.keep(traces(count))
        tick = world.worked_off(world.later())
        found.append((tick.outcome, world.subjects(tick) == sorted(ids)))
    assert found == [("done", True)] * 3


@pytest.mark.slow
def test_a_restart_goes_on_where_the_last_run_ended(world, server, traces):
    world.start(m=RUN)
    server.keep(traces(1))
    world.worked_off(world.later())
    world.start(m=RUN)
    ids = server.keep(traces(2))
    tick = world.worked_off(world.later())
    assert world.subjects(tick) == sorted(ids)


def test_what_the_configuration_says_by_now_holds_from_the_next_tick_on(world, server, traces):
    world.start(m=RUN)
    server.keep(traces(3))
    world.start(m={**RUN, "run": {**METRICS, "target": {"sampling": {"count": 1}}}})
    tick = world.worked_off(world.later())
    assert len(world.subjects(tick)) == 1
    assert world.known().stored.revision == 2


def test_one_that_has_not_changed_is_not_written_again(world):
    world.start(m=RUN)
    before = world.known().stored
    world.now_ns += MINUTE // 2
    world.start(m=RUN)
    assert world.known().stored == before


@pytest.mark.slow
def test_one_that_was_taken_out_ticks_no_more_and_its_runs_stay(world, server, traces):
    world.start(m=RUN)
    server.keep(traces(1))
    tick = world.worked_off(world.later())
    world.start()
    with pytest.raises(NotFoundError):
        world.known()
    assert world.run(tick.run).state == "SUCCEEDED"


def test_one_that_comes_back_begins_anew(world, server, traces):
    world.start(m=RUN)
    world.start()
    server.keep(traces(2))
    world.start(m=RUN)
    ids = server.keep(traces(1))
    tick = world.worked_off(world.later())
    assert world.subjects(tick) == ids


@pytest.mark.slow
def test_while_it_is_paused_nothing_is_due_and_no_trace_is_left_out(world, server, traces):
    world.start(m={**RUN, "paused": True})
    ids = server.keep(traces(2))
    world.now_ns += 5 * MINUTE
    world.do(world.monitors.look())
    assert not world.ticks()
    world.start(m=RUN)
    assert not world.ticks()
    assert world.subjects(world.worked_off(world.later())) == sorted(ids)


@pytest.mark.parametrize("change", ["update", "pause", "delete"])
def test_no_request_changes_it(world, change):
    world.start(m=RUN)
    known, monitors = world.known(), world.monitors
    asked = {
        "update": lambda: monitors.update(known, known.spec),
        "pause": lambda: monitors.set_paused(known, is_paused=True),
        "delete": lambda: monitors.delete(known),
    }
    with pytest.raises(StateError, match="is one of the configuration file; change it there"):
        world.do(asked[change]())


def test_its_id_is_taken_for_the_api(world):
    world.start(m=RUN)
    with pytest.raises(ExistsError, match="is one of the configuration file"):
        world.create()


@pytest.mark.parametrize(
    ("tenant", "problem"),
    [
        ("", r"monitors\.m: a monitor 'm' was created through the API; give this one another name"),
        ("acme", r"monitors\.m: a monitor 'm' of tenant acme was created through the API"),
    ],
)
def test_one_with_the_id_of_one_of_the_api_is_refused_at_the_start(world, tenant, problem):
    world.create(tenant)
    with pytest.raises(ConfigError, match=problem):
        world.restart(m={**RUN, "tenant": tenant})


def test_one_of_the_api_that_took_its_id_keeps_its_history(world, server, traces):
    world.create()
    server.keep(traces(1))
    before = world.worked_off(world.later())
    with pytest.raises(ConfigError):
        world.restart(m=RUN)
    world.start()
    assert world.ticks() == [before]


def test_one_with_the_id_that_another_tenant_uses_is_not_refused(world):
    world.create("acme")
    world.start(m=RUN)
    assert world.known().stored.is_configured


@pytest.mark.slow
def test_one_whose_runs_are_taken_out_of_the_file_begins_with_the_scores_after_that(
    world, server, traces
):
    watched = {"every": "1m", "metric": "task_completion", "floor": 0.95, "heaviest": 1}
    for trace in traces(40):
        server.keep([trace])
        server.do(server.scoring.reevaluate(trace.id, None))
    run = {**METRICS, "everything": True, "target": {"sampling": {"count": 2}}}
    world.start(m={**watched, "run": run})
    assert world.worked_off(world.later()).scores == 2
    world.start(m=watched)
    look = world.later()
    assert (look.outcome, look.scores) == ("unchanged", 0)


@pytest.mark.slow
def test_somebody_may_trigger_it(world, server, traces):
    world.start(m=RUN)
    ids = server.keep(traces(2))
    made = world.do(world.monitors.trigger(world.known(), "by-hand"))
    assert world.subjects(world.worked_off(made.tick)) == sorted(ids)


def test_it_has_the_same_settings_as_through_the_api(world):
    world.start(
        m={
            "cron": "0 3 * * *",
            "time_zone": "Europe/Berlin",
            "metric": "task_completion",
            "floor": 0.8,
            "labels": {"severity": "page"},
            "run": {**METRICS, "overlap": "queue", "only_if_changed": True, "look_back": "1d"},
        }
    )
    assert world.known().spec == read_spec(
        MonitorSpec,
        {
            "schedule": {"cron": "0 3 * * *", "time_zone": "Europe/Berlin"},
            "watch": {"metric": "task_completion", "floor": 0.8, "labels": {"severity": "page"}},
            "run": {**METRICS, "overlap": "queue", "only_if_changed": True, "look_back": "1d"},
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("monitor", "problem"),
    [
        (
            {"run": {"measure": {"metrics": ["task_completoin"]}}},
            r"monitors\.m\.run\.measure.*task_completoin",
        ),
        (
            {"run": {**METRICS, "look_back": "1d", "target": {"source": "elsewhere"}}},
            r"monitors\.m\.run\.target\.source: no source 'elsewhere'",
        ),
        (
            {"run": METRICS, "metric": "coherence"},
            r"monitors\.m\.metric: coherence is not measured by its runs",
        ),
    ],
)
def test_one_whose_runs_cannot_be_is_refused_at_the_start(world, monitor, problem):
    with pytest.raises(ConfigError, match=problem):
        world.restart(m=monitor)


@pytest.mark.parametrize(
    ("monitor", "problem"),
    [
        ({"every": "1m"}, "give metric, which is watched, or run, or both"),
        ({"run": METRICS, "floor": 0.5}, "floor is of a metric that is watched: give metric"),
        (
            {"run": {**METRICS, "target": {"where": "label.task_completion = fail"}}},
            "give look_back or everything beside it",
        ),
        ({"run": {**METRICS, "overlap": "wait"}}, "'skip', 'queue' or 'cancel_previous'"),
        ({"run": {**METRICS, "target": {"where": "tokenz > 3"}}}, "tokenz"),
    ],
)
def test_what_is_wrong_with_its_settings_is_said(monitor, problem):
    with pytest.raises(ValidationError, match=problem):
        Monitor.model_validate(monitor)


def test_its_runs_may_measure_what_is_not_measured_of_all_that_comes():
    Settings.model_validate(
        {"monitors": {"m": {"metric": "faithfulness", "floor": 0.8, "run": METRICS}}}
    )


@pytest.mark.slow
def test_traces_that_come_after_all_others_were_deleted_are_in_the_next_run(
    world, server, open_server, traces
):
    world.start(m=RUN)
    server.keep(traces(3))
    world.worked_off(world.later())
    server.store.prune(now_ns=2**62)
    server.store.close()
    again = Configured(open_server())
    again.now_ns = world.now_ns
    again.start(m=RUN)
    ids = again.server.keep(traces(1))
    assert again.subjects(again.worked_off(again.later())) == ids
