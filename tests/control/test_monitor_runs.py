"""Monitors that start runs: what each run is about, what happens while one is going, and what its
scores raise.
"""

import asyncio
import threading

import pytest
from monitored import METRICS, MINUTE, START, World

from spanscore.control import runs as control_runs
from spanscore.control.monitors import Monitors
from spanscore.errors import (
    FieldError,
    InputError,
    JudgeUnavailableError,
    NotFoundError,
    PermanentError,
)
from spanscore.export.config import Alerting
from spanscore.model.options import read_spec
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.specs import MonitorSpec
from spanscore.store.monitors import MonitorStore

WEBHOOK = {"webhook": {"endpoint": "http://127.0.0.1:9/x"}}


class HeldStore:
    """A store of monitors whose first write waits until it is `released`."""

    def __init__(self, store):
        self._store = store
        self.reached, self.released = threading.Event(), threading.Event()

    def __getattr__(self, name):
        return getattr(self._store, name)

    def write(self, change):
        if not self.reached.is_set():
            self.reached.set()
            self.released.wait()
        return self._store.write(change)


def failing(trace):
    """A score of a trace that does not pass."""
    return Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric="helpful",
        outcome=Score(0.1, ""),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("CODE", "helpful", "1"),
        target=trace.target,
        session_id=trace.session_id,
    )


@pytest.fixture
def world(server):
    return World(server)


@pytest.mark.slow
def test_each_run_is_about_what_was_stored_since_the_one_before(world, server, traces):
    server.keep(traces(2))  # before the monitor was created
    world.create()
    found = []
    for count in (3, 0, 4):
        ids = server.keep(traces(count))
        tick = world.worked_off(world.later())
        found.append((tick.outcome, world.subjects(tick) == sorted(ids)))
    assert found == [("done", True)] * 3


@pytest.mark.slow
def test_a_trace_that_has_changed_is_evaluated_again(world, server, traces):
    [trace] = traces(1)
    world.create()
    server.keep([trace])
    first = world.worked_off(world.later())
    server.keep([trace])
    second = world.worked_off(world.later())
    assert world.subjects(first) == world.subjects(second) == [trace.id]


@pytest.mark.slow
def test_a_look_back_takes_what_was_stored_in_that_time(world, server, traces, monkeypatch):
    ids = []
    for minutes in (90, 30, 10):
        monkeypatch.setattr(
            server.store, "_clock_ns", lambda ago=minutes: START + MINUTE - ago * MINUTE
        )
        ids.append(server.keep(traces(2)))
    world.create(look_back="1h")
    expected = sorted(ids[1] + ids[2])
    assert [world.subjects(world.worked_off(world.later())) for _ in range(2)] == [expected] * 2


@pytest.mark.slow
def test_everything_and_named_ids_are_evaluated_each_time(world, server, traces):
    ids = server.keep(traces(3))
    world.create(everything=True)
    assert [world.subjects(world.worked_off(world.later())) for _ in range(2)] == [sorted(ids)] * 2


@pytest.mark.slow
def test_ids_are_evaluated_each_time(world, server, traces):
    ids = server.keep(traces(3))
    world.create(target={"trace_ids": ids[:2]})
    assert [world.subjects(world.worked_off(world.later())) for _ in range(2)] == [
        sorted(ids[:2])
    ] * 2


@pytest.mark.slow
def test_sessions_with_a_new_turn_are_evaluated(world, server, traces):
    server.keep(traces(2, session_id="old"))
    world.create(target={"scope": "session"}, measure={"metrics": ["agent_reliability"]})
    server.keep(traces(2, session_id="new"))
    tick = world.worked_off(world.later())
    assert {x for x in world.subjects(tick) if not x.startswith("0") and len(x) < 32} == {"new"}


@pytest.mark.slow
def test_a_filter_and_a_sample_hold_in_each_run(world, server, traces):
    world.create(target={"filter": {"service": "bank"}, "sampling": {"count": 2}})
    server.keep(traces(5))
    bank = server.keep(traces(5, service_name="bank"))
    tick = world.worked_off(world.later())
    assert len(world.subjects(tick)) == 2
    assert set(world.subjects(tick)) < set(bank)


@pytest.mark.slow
def test_while_a_run_is_going_a_tick_is_skipped_and_its_traces_belong_to_the_next(
    world, server, traces
):
    world.create(overlap="skip")
    first = world.later()
    ids = server.keep(traces(2))
    skipped = world.later()
    assert (skipped.outcome, skipped.run) == ("skipped", None)
    assert skipped.reason == f"run {first.run} was still PENDING"
    world.worked_off(first)
    assert world.subjects(world.worked_off(world.later())) == sorted(ids)


@pytest.mark.slow
def test_a_tick_that_waits_gets_its_run_when_the_one_before_has_ended(world, server, traces):
    world.create(overlap="queue")
    server.keep(traces(2))
    first = world.later()
    ids = server.keep(traces(3))
    second, third = world.later(), world.later()
    assert [x.outcome for x in (second, third)] == ["queued"] * 2
    world.worked_off(first)
    second = next(x for x in world.ticks() if x.due_ns == second.due_ns)
    assert world.ticks()[0].outcome == "queued"
    assert world.subjects(world.worked_off(second)) == sorted(ids)
    assert [x.outcome for x in world.ticks()] == ["running", "done", "done"]


@pytest.mark.slow
def test_of_ticks_that_wait_there_are_ten_at_most(world):
    world.create(overlap="queue")
    made = [world.later() for _ in range(12)]
    assert [x.outcome for x in made] == ["running", *["queued"] * 10, "skipped"]
    assert "10 ticks wait" in made[-1].reason


@pytest.mark.slow
def test_a_run_that_is_cancelled_for_the_next_leaves_it_what_it_was_about(world, server, traces):
    world.create(overlap="cancel_previous")
    one = server.keep(traces(2))
    first = world.later()
    two = server.keep(traces(2))
    second = world.later()
    world.do(world.monitors.look())
    assert world.run(first.run).state == "CANCELLED"
    assert "next tick of monitor m" in world.run(first.run).progress.reason
    assert [x.outcome for x in world.ticks()] == ["running", "cancelled"]
    assert first.run in second.reason
    assert world.subjects(world.worked_off(second)) == sorted(one + two)


@pytest.mark.slow
def test_no_run_is_cancelled_for_one_that_may_not_start(world, server, traces, monkeypatch):
    world.create(overlap="cancel_previous")
    ids = server.keep(traces(2))
    first = world.later()
    with monkeypatch.context() as patch:
        patch.setattr(control_runs, "MAX_UNFINISHED", 0)
        assert world.later().outcome == "skipped"
    assert world.run(first.run).state == "PENDING"
    assert world.subjects(world.worked_off(world.later())) == sorted(ids)


def test_a_condition_over_scores_needs_a_window_in_which_later_scores_are_seen(world):
    for number, window in enumerate(({"look_back": "1h"}, {"everything": True})):
        given = {"run": {**METRICS, "target": {"where": "failing = true"}, **window}}
        assert world.do(world.monitors.create("", read_spec(MonitorSpec, given), f"m{number}"))
    with pytest.raises(FieldError, match="look_back or everything") as caught:
        world.create(target={"where": "failing = true"})
    assert caught.value.field == "run.target.where"


@pytest.mark.slow
@pytest.mark.parametrize("target", [{}, {"filter": {"service": "shop"}}, {"scope": "session"}])
def test_a_tick_is_skipped_where_nothing_has_changed(world, server, traces, target):
    metrics = {"metrics": ["agent_reliability" if "scope" in target else "task_completion"]}
    [trace] = traces(1, session_id="s")
    server.keep([trace])
    world.create(target=target, only_if_changed=True, measure=metrics)
    assert world.worked_off(world.later()).outcome == "done"  # the first
    assert world.later().outcome == "skipped"
    server.keep(traces(1, service_name="bank", session_id="t") if "filter" in target else [])
    unchanged = world.later()
    assert (unchanged.outcome, unchanged.reason) == (
        "skipped",
        "nothing has changed since the run before",
    )
    server.keep([trace])
    assert world.worked_off(world.later()).outcome == "done"


@pytest.mark.slow
def test_a_condition_over_scores_that_another_trace_meets_is_a_change(world, server, traces):
    first, second = traces(2)
    server.keep([first, second])
    server.store.commit([], [failing(first)])
    world.create(target={"where": "failing = true"}, everything=True, only_if_changed=True)
    assert world.worked_off(world.later()).outcome == "done"
    assert world.later().outcome == "skipped"
    server.store.commit([], [failing(second)])
    assert world.worked_off(world.later()).outcome == "done"
    assert world.later().outcome == "skipped"


def test_named_traces_count_as_changed_where_one_is_stored_anew(world, server, traces):
    some = traces(3)
    ids = server.keep(some)
    world.create(target={"trace_ids": ids[:1]}, only_if_changed=True)
    world.worked_off(world.later())
    server.keep(some[1:])
    assert world.later().outcome == "skipped"
    server.keep(some[:1])
    assert world.later().outcome == "running"


@pytest.mark.slow
def test_a_changed_measure_and_another_judge_are_changes(world, server, traces):
    server.keep(traces(1))
    world.create(only_if_changed=True)
    world.worked_off(world.later())
    assert world.later().outcome == "skipped"
    known = world.known()
    run = known.spec.run.model_copy(
        update={"measure": read_spec(type(known.spec.run.measure), {"model": "other"})}
    )
    world.do(world.monitors.update(known, known.spec.model_copy(update={"run": run})))
    world.do(world.monitors.look())
    tick = world.later()
    assert tick.outcome == "running"
    world.worked_off(tick)
    assert world.later().outcome == "skipped"
    judge = server.settings.judge.model_copy(update={"model": "gpt-next"})
    server.runs.measurers.settings = server.settings.model_copy(update={"judge": judge})
    assert world.later().outcome == "running"


def test_a_tick_that_somebody_asks_for_is_made_though_nothing_has_changed(world, server, traces):
    server.keep(traces(1))
    world.create(only_if_changed=True)
    world.worked_off(world.later())
    made = world.do(world.monitors.trigger(world.known(), "by-hand"))
    assert (made.tick.outcome, made.tick.cause) == ("running", "manual")


def test_a_paused_monitor_makes_no_tick_and_goes_on_with_the_next_of_its_times(
    world, server, traces
):
    world.create()
    world.do(world.monitors.set_paused(world.known(), is_paused=True))
    ids = server.keep(traces(2))
    world.now_ns += 10 * MINUTE
    world.do(world.monitors.look())
    assert world.ticks() == []
    world.do(world.monitors.set_paused(world.known(), is_paused=False))
    world.do(world.monitors.look())
    assert world.ticks() == []
    tick = world.later()
    assert (tick.due_ns, tick.cause) == (START + 11 * MINUTE, "schedule")
    assert world.subjects(world.worked_off(tick)) == sorted(ids)


def test_ticks_that_were_missed_while_the_server_was_down_are_made_up_for_by_one(world):
    world.create()
    world.now_ns += 10 * MINUTE + 5 * 10**9
    world.restart()
    world.do(world.monitors.look())
    world.do(world.monitors.look())
    [tick] = world.ticks()
    assert (tick.due_ns, tick.cause) == (START + 10 * MINUTE, "catch_up")


def test_a_tick_that_another_process_has_made_is_not_made_again(world):
    world.create()
    world.later()
    world.restart()
    world.do(world.monitors.look())
    assert len(world.ticks()) == 1


def test_a_run_is_followed_by_another_process_too(world, server, traces):
    server.keep(traces(1))
    world.create(everything=True)
    tick = world.later()
    world.restart()
    assert world.worked_off(tick).outcome == "done"


def test_the_history_says_why_a_run_came_to_nothing(world, server, traces):
    server.keep(traces(1))
    world.create(everything=True)
    first = world.later()
    world.do(server.runs.cancel("", first.run))
    second = world.later()
    world.do(server.runs.delete("", second.run, with_scores=True))
    world.do(world.monitors.look())
    found = {x.due_ns: (x.outcome, x.reason) for x in world.ticks()}
    assert found[first.due_ns] == ("cancelled", f"run {first.run} was cancelled")
    assert found[second.due_ns] == ("failed", f"run {second.run} was deleted")


def test_a_monitor_whose_metric_is_no_longer_there_says_so_in_its_history(world):
    world.create()
    world.server.runs.measurers.of = refuse
    tick = world.later()
    assert (tick.outcome, tick.reason) == (
        "failed",
        "no run can be started: there is no such metric",
    )


def test_a_monitor_that_cannot_tick_says_so_in_its_history_and_holds_up_no_other(
    world, monkeypatch
):
    world.create()
    spec = world.known().spec
    faulty = world.do(world.monitors.create("", spec, "faulty"))
    world.do(world.monitors.look())
    starting = world.server.runs.starting

    def starts(tenant, spec):
        if spec.display_name.startswith("faulty"):
            raise KeyError("no such option")
        return starting(tenant, spec)

    monkeypatch.setattr(world.server.runs, "starting", starts)
    assert world.later().outcome == "running"
    [tick] = [x.tick for x in world.do(world.monitors.ticks(faulty, 10))]
    assert (tick.outcome, tick.reason) == ("failed", "it cannot tick: KeyError: 'no such option'")
    world.do(world.monitors.look())
    assert len(world.do(world.monitors.ticks(faulty, 10))) == 1


@pytest.mark.slow
def test_a_tick_whose_scores_cannot_be_read_fails_and_holds_up_no_other(world, traces, monkeypatch):
    world.server.keep(traces(1))
    faulty = world.create(everything=True, watch={"floor": 0.95})
    other = world.do(world.monitors.create("", faulty.spec, "other"))
    world.do(world.monitors.look())
    world.later()
    assess = MonitorStore.assess

    def assesses(store, tick, *given):
        if tick.monitor == "m":
            raise PermanentError("value too long")
        return assess(store, tick, *given)

    monkeypatch.setattr(MonitorStore, "assess", assesses)
    ticks = [world.do(world.monitors.ticks(x, 1))[0].tick for x in (faulty, other)]
    for tick in ticks:
        world.do(world.server.ended(tick.run))
    world.do(world.monitors.look())
    first, second = (world.do(world.monitors.ticks(x, 1))[0].tick for x in (faulty, other))
    assert (first.outcome, first.reason) == ("failed", "it cannot be followed: value too long")
    assert second.scores == 1


def refuse(*_given):
    raise InputError("there is no such metric")


@pytest.mark.slow
def test_the_scores_of_runs_raise_an_alert_and_a_session_counts_once(server, traces, judge):
    world = World(server, WEBHOOK)
    server.keep(traces(60))
    world.create(everything=True, watch={"floor": 0.95})  # the judge of these tests gives .8
    first = world.worked_off(world.later())
    assert (first.outcome, first.scores, first.sessions) == ("firing", 60, 60)
    [notice] = server.store.monitors.notices.due(world.now_ns)
    assert (notice.status, notice.record["run"], notice.record["mean"]) == (
        "firing",
        first.run,
        0.8,
    )

    again = world.worked_off(world.later())
    assert (again.outcome, again.sessions) == ("unchanged", 0)


@pytest.mark.slow
def test_a_tick_says_what_its_run_says_of_its_end(server, traces, judge):
    world = World(server)
    server.keep(traces(3))
    judge.errors["order 1?"] = JudgeUnavailableError("no")
    world.create(everything=True, watch={"floor": 0.95})
    tick = world.worked_off(world.later())
    assert (tick.scores, tick.reason) == (2, "1 of 3 failed")


@pytest.mark.slow
def test_live_scores_are_no_matter_to_a_monitor_of_runs(server, traces):
    world = World(server, WEBHOOK)
    world.create(everything=True, watch={"floor": 0.95})
    trace = traces(1)[0]
    server.keep([trace])
    server.do(server.scoring.reevaluate(trace.id, None))
    first = world.worked_off(world.later())
    assert (first.scores, first.sessions) == (1, 1)


@pytest.mark.slow
def test_the_alert_of_a_monitor_that_is_deleted_or_watches_something_else_ends(server, traces):
    world = World(server, WEBHOOK)
    server.keep(traces(60))
    for number, end in enumerate((world_without_watch, world_deleted)):
        world.create(everything=True, watch={"floor": 0.95})
        world.worked_off(world.later())
        end(world)
        notices = server.store.monitors.notices.due(world.now_ns)
        assert [x.status for x in notices] == ["resolved"], number
        server.store.monitors.notices.settle(notices[0], None)
        if number == 0:
            world_deleted(world)


def world_without_watch(world):
    known = world.known()
    world.do(world.monitors.update(known, known.spec.model_copy(update={"watch": None})))


def world_deleted(world):
    world.do(world.monitors.delete(world.known()))


def changed_meanwhile(world, floor, monitors=None):
    """Change the monitor as a request does, by default of another server, while `world` has read
    it, but not yet what it looks at.
    """
    given = {}, world.alerting, world.server.store.monitors, world.server.runs
    other = monitors or Monitors(*given)
    known = world.do(other.get("", "m"))
    watch = known.spec.watch.model_copy(update={"floor": floor})
    world.do(other.update(known, known.spec.model_copy(update={"watch": watch})))


@pytest.mark.slow
def test_the_scores_of_a_run_are_not_looked_at_under_settings_that_were_changed_meanwhile(
    server, traces
):
    world = World(server, WEBHOOK)
    server.keep(traces(60))
    world.create(everything=True, watch={"floor": 0.95})
    tick = world.later()
    changed_meanwhile(world, 0.5)
    assert world.worked_off(tick).outcome == "running"
    world.restart()
    assert world.worked_off(tick).outcome == "watching"
    assert server.store.monitors.notices.due(world.now_ns) == []


def test_a_tick_that_is_due_is_made_under_the_settings_that_a_monitor_has_by_then(world):
    world.create(watch={"floor": 0.95})
    changed_meanwhile(world, 0.5)
    world.now_ns += MINUTE
    world.do(world.monitors.look())
    assert world.ticks() == []
    world.do(world.monitors.look())
    assert [x.due_ns for x in world.ticks()] == [world.now_ns]


@pytest.mark.parametrize("by_this_server", [True, False])
def test_a_tick_that_is_due_is_made_though_its_monitor_was_changed_and_makes_up_for_none(
    world, by_this_server
):
    world.create(catch_up=False, watch={"floor": 0.95})
    world.now_ns += MINUTE
    changed_meanwhile(world, 0.5, world.monitors if by_this_server else None)
    world.do(world.monitors.look())
    world.do(world.monitors.look())
    assert [x.due_ns for x in world.ticks()] == [world.now_ns]


def test_a_monitor_goes_on_though_the_request_that_resumed_it_was_cancelled(world):
    known = world.create()
    world.do(world.monitors.set_paused(known, is_paused=True))
    held = HeldStore(world.server.store.monitors)
    held.reached.set()  # what is written before the request
    world.monitors = Monitors(
        {}, world.alerting, held, world.server.runs, clock_ns=lambda: world.now_ns
    )
    world.do(world.monitors.look())

    async def resume_cancelled():
        held.reached.clear()
        resuming = asyncio.create_task(world.monitors.set_paused(known, is_paused=False))
        await asyncio.to_thread(held.reached.wait)
        resuming.cancel()
        await asyncio.wait([resuming])
        await world.monitors.look()
        held.released.set()
        async with asyncio.timeout(60):
            while (await world.monitors.all_of(""))[0].is_paused:  # noqa: ASYNC110 - it has no events
                await asyncio.sleep(0.01)

    world.do(resume_cancelled())
    assert world.later().outcome == "running"


def test_a_tick_that_somebody_asks_for_is_made_though_the_monitor_was_changed_meanwhile(world):
    known = world.create(watch={"floor": 0.95})
    changed_meanwhile(world, 0.5)
    made = world.do(world.monitors.trigger(known))
    assert (made.tick.outcome, made.tick.cause) == ("running", "manual")


@pytest.mark.slow
def test_a_changed_test_ends_the_alert_and_the_next_has_another_id(server, traces):
    world = World(server, WEBHOOK)
    server.keep(traces(60))
    world.create(everything=True, watch={"floor": 0.95})
    world.worked_off(world.later())
    known = world.known()
    watch = known.spec.watch.model_copy(update={"floor": 0.9})
    world.do(world.monitors.update(known, known.spec.model_copy(update={"watch": watch})))
    world.do(world.monitors.look())
    world.worked_off(world.later())
    notices = []
    while due := server.store.monitors.notices.due(world.now_ns):
        notices += [(x.status, x.record["id"]) for x in due]
        for x in due:
            server.store.monitors.notices.settle(x, None)
    assert notices == [("resolved", "m/1"), ("firing", "m/2")]


def scored_live(server, traces):
    server.keep(traces)
    for trace in traces:
        server.do(server.scoring.reevaluate(trace.id, None))


@pytest.mark.slow
def test_one_whose_runs_are_taken_out_begins_with_the_scores_after_that(server, traces):
    world = World(server)
    first, *others = traces(41)
    scored_live(server, others)
    world.create(everything=True, target={"sampling": {"count": 2}}, watch={"floor": 0.95})
    world.worked_off(world.later())
    known = world.known()
    world.do(world.monitors.update(known, known.spec.model_copy(update={"run": None})))
    looks = [world.later()]
    scored_live(server, [first])
    looks.append(world.later())
    assert [(x.outcome, x.scores) for x in looks] == [("unchanged", 0), ("unchanged", 1)]


@pytest.mark.slow
def test_one_that_gets_runs_begins_anew_and_its_alert_ends(server, traces):
    world = World(server, WEBHOOK)
    world.now_ns = 2 * 10**18  # whenever this is run, later than its scores
    watch = {"metric": "task_completion", "heaviest": 1, "floor": 0.95}
    given = {"watch": watch, "schedule": {"every": "1m"}}
    known = world.do(world.monitors.create("", read_spec(MonitorSpec, given), "m"))
    world.do(world.monitors.look())
    world.later()
    scored_live(server, traces(60))
    assert world.later().outcome == "firing"
    with_runs = read_spec(MonitorSpec, {**given, "run": {**METRICS, "everything": True}})
    world.do(world.monitors.update(known, with_runs))
    world.do(world.monitors.look())
    tick = world.worked_off(world.later())
    assert (tick.outcome, tick.sessions) == ("firing", 60)
    [notice] = server.store.monitors.notices.due(world.now_ns)
    assert (notice.status, notice.record["id"]) == ("resolved", "m/1")


def test_monitors_of_another_tenant_evaluate_what_that_one_has(world, server, traces):
    server.keep(traces(3))
    spec = read_spec(
        MonitorSpec, {"run": {**METRICS, "everything": True}, "schedule": {"every": "1m"}}
    )
    known = world.do(world.monitors.create("acme", spec, "m"))
    world.do(world.monitors.look())
    world.now_ns += MINUTE
    world.do(world.monitors.look())
    [tick] = world.do(world.monitors.ticks(known, 10))
    run = world.do(server.runs.get("acme", tick.tick.run))
    assert run.tenant == "acme"
    with pytest.raises(NotFoundError):
        world.run(run.id)

    async def ended():
        working = asyncio.create_task(server.runs.run())
        while not (found := await server.runs.get("acme", run.id)).is_ended:
            await asyncio.to_thread(lambda: None)
        working.cancel()
        await asyncio.wait([working])
        return found

    assert world.do(ended()).progress.candidates == 0


def test_a_trigger_that_takes_long_holds_up_none_of_another_monitor(server):
    now_ns = iter(range(START, START + 10**6))
    spec = read_spec(MonitorSpec, {"run": METRICS})
    made = Monitors(
        {}, Alerting(), server.store.monitors, server.runs, clock_ns=lambda: next(now_ns)
    )
    slow, other = (server.do(made.create(tenant, spec, "m")) for tenant in ("acme", "other"))
    held = HeldStore(server.store.monitors)
    monitors = Monitors({}, Alerting(), held, server.runs, clock_ns=lambda: next(now_ns))

    async def scenario():
        first = asyncio.create_task(monitors.trigger(slow))
        await asyncio.to_thread(held.reached.wait)
        second = asyncio.create_task(monitors.trigger(other))
        try:
            async with asyncio.timeout(60):
                await second
            return first.done()
        finally:
            held.released.set()
            await asyncio.gather(first, second)

    assert not server.do(scenario())


def test_a_tick_whose_run_had_nothing_to_score_has_not_failed(world):
    world.create()
    tick = world.worked_off(world.later())
    assert (world.run(tick.run).state, tick.outcome) == ("FAILED", "done")
