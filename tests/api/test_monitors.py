"""MonitorService: monitors are kept as they were asked for, changed field by field, and tell what
is wrong with one.
"""

import asyncio

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from spanscore.api.messages import encode
from spanscore.api.monitors import MonitorService, spec_of
from spanscore.api.servicer import Call
from spanscore.api.v1 import monitor_service_pb2 as pb, run_service_pb2 as run_pb
from spanscore.api.v1.clients import request
from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_TRACE
from spanscore.config import Settings
from spanscore.control.measurer import Measurers
from spanscore.control.monitors import Monitors
from spanscore.control.runs import Runs
from spanscore.errors import ConflictError, ExistsError, FieldError, NotFoundError, StateError
from spanscore.evaluation import Engine
from spanscore.export.sender import Sender
from spanscore.scoring import Scoring
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace
from spanscore.telemetry import Meter
from spanscore.testing.traces import agent_trace

CALL = Call()
METRIC = "check.errors_recovered"
SECOND = 10**9
FULL = pb.Monitor(
    display_name="nightly",
    watch=pb.MonitorWatch(
        metric=METRIC,
        scope=SCOPE_TRACE,
        of="pass_rate",
        service="shop",
        agent="planner",
        reference=pb.MonitorReference(sessions=50, tolerance=0.1),
        alpha=0.05,
        heaviest=10.0,
        settle_after_s=60.0,
        labels={"severity": "page"},
    ),
    schedule=pb.MonitorSchedule(
        cron="0 3 * * *", time_zone="Europe/Berlin", jitter_s=30.0, catch_up=False
    ),
    run=pb.MonitorRun(
        target=run_pb.RunTarget(
            scope=SCOPE_TRACE,
            filter=run_pb.TraceFilter(service="shop"),
            sampling=run_pb.RunSampling(count=5, seed=3),
        ),
        measure=run_pb.RunMeasure(metrics=[METRIC]),
        budget=run_pb.RunBudget(max_usd=2.0),
        export=True,
        look_back_s=86400.0,
        overlap=pb.MONITOR_OVERLAP_QUEUE,
        only_if_changed=True,
    ),
)
LIVE = pb.Monitor(watch=pb.MonitorWatch(metric=METRIC, floor=0.8))


class Backend:
    def __init__(self, store, now_ns):
        settings = Settings.model_validate(
            {"monitors": {"configured": {"metric": METRIC, "floor": 0.5}}}
        )
        scoring = Scoring(
            Engine(settings.evaluation, None, None),
            store,
            Sender(settings.export, {}, store, Meter()),
            Meter(),
        )
        self.runs = Runs(settings.evaluation.runs, Measurers(settings, None, None), scoring, store)
        given = (settings.monitors, settings.alerting, store.monitors, self.runs)
        self.monitors = Monitors(*given, clock_ns=now_ns)


class Service:
    """A service whose clock rises by a second with each look at it; its coroutines are run to their
    end.
    """

    def __init__(self, store):
        self.now_ns = 1_790_000_000 * SECOND
        self.backend = Backend(store, self.clock_ns)
        self.service = MonitorService(self.backend)

    def clock_ns(self):
        self.now_ns += SECOND
        return self.now_ns

    def __call__(self, method, call=CALL, **fields):
        answer = getattr(self.service, method)
        name = "".join(x.capitalize() for x in method.split("_"))
        return asyncio.run(answer(getattr(pb, f"{name}Request")(**fields), call))

    def create(self, monitor=LIVE, id_="m", **fields):
        return self("create_monitor", monitor=monitor, monitor_id=id_, **fields)


@pytest.fixture
def store(tmp_path):
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/store.db"))
    store.commit([StoredTrace(agent_trace(user_input=str(n)), 1, "") for n in range(3)], [])
    yield store
    store.close()


@pytest.fixture
def ask(store):
    return Service(store)


def names(ask, **fields):
    return [x.name for x in ask("list_monitors", **fields).monitors]


def test_what_was_asked_is_shown_again():
    assert encode(pb.Monitor, spec_of(FULL)) == FULL


def test_a_monitor_is_kept_under_its_id(ask):
    created = ask.create(FULL, "nightly")
    found = ask("get_monitor", name="monitors/nightly")
    assert found == created
    assert (found.name, found.state, found.configured) == (
        "monitors/nightly",
        pb.MONITOR_STATE_ACTIVE,
        False,
    )
    assert (found.watch, found.run) == (FULL.watch, FULL.run)
    assert found.next_tick_ns > ask.now_ns


def test_a_monitor_without_an_id_gets_one(ask):
    assert ask.create(id_="").name.startswith("monitors/")


def test_those_of_the_configuration_are_shown_beside_them(ask):
    ask.create()
    assert names(ask) == ["monitors/configured", "monitors/m"]
    assert ask("get_monitor", name="monitors/configured").configured


@pytest.mark.parametrize("method", ["pause_monitor", "resume_monitor", "delete_monitor"])
def test_those_of_the_configuration_are_changed_there_alone(ask, method):
    with pytest.raises(StateError, match="configuration file"):
        ask(method, name="monitors/configured")


def test_an_id_is_taken_once(ask):
    ask.create()
    for id_ in ("m", "configured"):
        with pytest.raises(ExistsError):
            ask.create(id_=id_)


def test_pages_contain_each_monitor_once(ask):
    for id_ in ("b", "a.long-name", "a"):
        ask.create(id_=id_)
    first = ask("list_monitors", page_size=2)
    rest = ask("list_monitors", page_size=2, page_token=first.next_page_token)
    found = [x.name for x in (*first.monitors, *rest.monitors)]
    assert found == ["monitors/a", "monitors/a.long-name", "monitors/b", "monitors/configured"]
    assert not rest.next_page_token


def test_a_request_id_creates_one_monitor(ask):
    created = ask.create(id_="", request_id="once")
    assert ask.create(id_="", request_id="once").name == created.name
    with pytest.raises(ExistsError):
        ask.create(FULL, id_="", request_id="once")


def test_another_tenant_has_monitors_of_its_own(ask):
    ask.create()
    other = Call("acme")
    assert ask("list_monitors", call=other).monitors == []
    for method in (
        "get_monitor",
        "pause_monitor",
        "resume_monitor",
        "delete_monitor",
        "trigger_monitor",
    ):
        with pytest.raises(NotFoundError):
            ask(method, call=other, name="monitors/m")
    with pytest.raises(NotFoundError):
        ask("list_monitor_ticks", call=other, parent="monitors/m")
    with pytest.raises(NotFoundError):
        ask("update_monitor", call=other, monitor=pb.Monitor(name="monitors/m"))
    assert ask("create_monitor", call=other, monitor=FULL, monitor_id="m").watch == FULL.watch
    assert ask("get_monitor", name="monitors/m").watch.floor == 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "field", "problem"),
    [
        ({"schedule": {"cron": "61 * * * *"}}, "monitor.schedule.cron", "cron '61"),
        ({"schedule": {"cron": "0 0 30 2 *"}}, "monitor.schedule.cron", "day-of-month"),
        (
            {"schedule": {"cron": "* * * * *", "time_zone": "Mars"}},
            "monitor.schedule.time_zone",
            "no time zone",
        ),
        ({"schedule": {"cron": "* * * * *", "every_s": 60}}, "monitor.schedule", "not both"),
        ({"schedule": {"every_s": 0.5}}, "monitor.schedule.every_s", "from 10 to 34560000 "),
        (
            {"schedule": {"every_s": 9.9}},
            "monitor.schedule.every_s",
            "9.9 is no number of seconds from 10 ",
        ),
        ({"schedule": {"cron": "*/5 * * * * *"}}, "monitor.schedule.cron", "at least 10 apart"),
        ({"schedule": {"cron": "0,55 * * * * *"}}, "monitor.schedule.cron", "at least 10 apart"),
        (
            {"schedule": {"every_s": float("nan")}},
            "monitor.schedule.every_s",
            "no number of seconds",
        ),
        ({"schedule": {"jitter_s": -1}}, "monitor.schedule.jitter_s", "no number of seconds"),
        ({"watch": {"metric": ""}}, "monitor.watch.metric", "required"),
        (
            {"watch": {"metric": "nonsense"}},
            "monitor.watch.metric",
            "metric: there is no metric 'nonsense'",
        ),
        ({"watch": {"metric": METRIC, "scope": SCOPE_SESSION}}, "monitor.watch.metric", "session"),
        ({"watch": {"metric": METRIC, "floor": 2}}, "monitor.watch.floor", "less than or equal"),
        (
            {"watch": {"metric": METRIC, "heaviest": float("inf")}},
            "monitor.watch.heaviest",
            "less than|finite",
        ),
        (
            {"watch": {"metric": METRIC, "floor": float("nan")}},
            "monitor.watch.floor",
            "finite|greater",
        ),
        ({"watch": {"metric": METRIC, "of": "median"}}, "monitor.watch.of", "pass_rate"),
        ({"watch": {"metric": METRIC, "alpha": 1}}, "monitor.watch.alpha", "less than 1"),
        (
            {"watch": {"metric": METRIC, "reference": {"sessions": 5}}},
            "monitor.watch.reference.sessions",
            "20",
        ),
        (
            {"run": {"measure": {"metrics": ["nonsense"]}}},
            "monitor.run.measure.metrics",
            "nonsense",
        ),
        (
            {"run": {"measure": {"thresholds": {METRIC: float("nan")}}}},
            f"monitor.run.measure.thresholds.{METRIC}",
            "finite",
        ),
        (
            {"run": {"target": {"sampling": {"share": 2}}}},
            "monitor.run.target.sampling.share",
            "less than",
        ),
        (
            {"run": {"target": {"filter": {"started_after_ns": 2**63}}}},
            "monitor.run.target.filter.started_after_ns",
            "before the year 2262",
        ),
        ({"run": {"look_back_s": 60, "everything": True}}, "monitor.run", "not both"),
        ({"run": {"overlap": 9}}, "monitor.run.overlap", "none of its values"),
        (
            {"run": {"measure": {"metrics": ["coherence"]}}, "watch": {"metric": METRIC}},
            "monitor.watch.metric",
            "runs",
        ),
        ({}, "monitor", "give watch"),
    ],
)
def test_what_is_wrong_is_said_with_its_field_and_changes_nothing(ask, changed, field, problem):
    with pytest.raises(FieldError, match=problem) as raised:
        ask.create(pb.Monitor(**changed))
    assert raised.value.field == field
    assert names(ask) == ["monitors/configured"]

    before = ask.create()
    if changed:
        mask = FieldMask(paths=["watch", "schedule", "run"])
        with pytest.raises(FieldError, match=problem):
            ask(
                "update_monitor", monitor=pb.Monitor(name="monitors/m", **changed), update_mask=mask
            )
        assert ask("get_monitor", name="monitors/m").etag == before.etag


@pytest.mark.parametrize(
    "schedule", [{"every_s": 10.0}, {"cron": "*/10 * * * * *"}, {"cron": "* * * * *"}]
)
def test_a_monitor_may_tick_each_ten_seconds(ask, schedule):
    assert ask.create(pb.Monitor(watch=LIVE.watch, schedule=schedule)).schedule.time_zone == "UTC"


def test_all_fields_that_are_wrong_are_named_at_once(ask):
    wrong = pb.Monitor(
        watch={"metric": METRIC, "alpha": 2}, schedule={"time_zone": "Mars", "every_s": 0.1}
    )
    with pytest.raises(FieldError) as raised:
        ask.create(wrong)
    fields = [raised.value.field, *(x.field for x in raised.value.others)]
    assert sorted(fields) == [
        "monitor.schedule.every_s",
        "monitor.schedule.time_zone",
        "monitor.watch.alpha",
    ]


@pytest.mark.parametrize("id_", ["a/b", "-a", "a b", "ü", "a" * 65])
def test_what_is_no_id_is_refused(ask, id_):
    with pytest.raises(FieldError, match="is no id"):
        ask.create(id_=id_)


@pytest.mark.parametrize("id_", ["nothing", "%00", "a" * 300, "ü"])
def test_a_name_under_which_there_is_nothing_is_named(ask, id_):
    with pytest.raises(NotFoundError, match="there is no monitor"):
        ask("get_monitor", name=f"monitors/{id_}")


def test_ids_that_are_not_stored_are_refused(ask):
    run = pb.MonitorRun(target=run_pb.RunTarget(trace_ids=["f" * 32]))
    with pytest.raises(NotFoundError):
        ask.create(pb.Monitor(run=run))


def update(ask, paths, etag="", **fields):
    return ask(
        "update_monitor",
        monitor=pb.Monitor(name="monitors/m", etag=etag, **fields),
        update_mask=FieldMask(paths=paths),
    )


def test_a_mask_changes_its_fields_alone(ask):
    ask.create(FULL)
    changed = update(
        ask, ["watch.alpha", "display_name"], watch={"alpha": 0.5, "metric": "coherence"}
    )
    assert (changed.watch.alpha, changed.watch.metric, changed.display_name) == (0.5, METRIC, "")


def test_a_keyword_of_the_first_sessions_leaves_the_other_as_it_was(ask):
    ask.create(FULL)
    changed = ask("update_monitor", **_fields(_update(tolerance=0.05)))
    assert changed.watch.reference == pb.MonitorReference(sessions=50, tolerance=0.05)
    changed = ask("update_monitor", **_fields(_update(sessions=90)))
    assert changed.watch.reference == pb.MonitorReference(sessions=90, tolerance=0.05)


def test_first_sessions_take_the_place_of_a_floor(ask):
    ask.create(LIVE)
    changed = ask("update_monitor", **_fields(_update(sessions=90)))
    assert (changed.watch.HasField("floor"), changed.watch.reference.sessions) == (False, 90)


def test_a_tolerance_alone_does_not_take_the_place_of_a_floor(ask):
    ask.create(LIVE)
    with pytest.raises(FieldError, match="floor"):
        ask("update_monitor", **_fields(_update(tolerance=0.05)))
    assert ask("get_monitor", name="monitors/m").watch.floor == 0.8


def _update(**fields):
    return request(pb.UpdateMonitorRequest, fields, {"monitor.name": "monitors/m"})


def _fields(request):
    return {field.name: value for field, value in request.ListFields()}


def test_without_a_mask_what_is_set_is_changed(ask):
    ask.create(FULL)
    changed = update(ask, [], schedule={"cron": "0 4 * * *"})
    assert (changed.schedule.cron, changed.schedule.time_zone, changed.watch) == (
        "0 4 * * *",
        "Europe/Berlin",
        FULL.watch,
    )


def test_a_star_clears_what_is_not_set(ask):
    ask.create(FULL)
    changed = update(ask, ["*"], watch=LIVE.watch)
    assert (changed.display_name, changed.HasField("run"), changed.schedule.cron) == ("", False, "")


@pytest.mark.parametrize("path", ["state", "nonsense", "watch.nonsense", "name"])
def test_what_cannot_be_changed_is_named(ask, path):
    ask.create()
    with pytest.raises(FieldError, match=path) as raised:
        update(ask, [path])
    assert raised.value.field == "update_mask"


def test_an_old_etag_changes_nothing(ask):
    old = ask.create().etag
    update(ask, ["display_name"], old, display_name="one")
    with pytest.raises(ConflictError):
        update(ask, ["display_name"], old, display_name="other")
    with pytest.raises(ConflictError):
        ask("delete_monitor", name="monitors/m", etag=old)
    assert ask("get_monitor", name="monitors/m").display_name == "one"


def test_a_deleted_monitor_is_gone_with_its_history(ask):
    ask.create()
    ask("trigger_monitor", name="monitors/m")
    ask("delete_monitor", name="monitors/m")
    assert names(ask) == ["monitors/configured"]
    ask.create()
    assert ask("list_monitor_ticks", parent="monitors/m").ticks == []


def test_a_paused_monitor_has_no_next_tick_until_it_is_resumed(ask):
    ask.create()
    paused = ask("pause_monitor", name="monitors/m")
    assert (paused.state, paused.HasField("next_tick_ns")) == (pb.MONITOR_STATE_PAUSED, False)
    resumed = ask("resume_monitor", name="monitors/m")
    assert (resumed.state, resumed.HasField("next_tick_ns")) == (pb.MONITOR_STATE_ACTIVE, True)


def test_pausing_again_changes_nothing(ask):
    ask.create()
    assert (
        ask("pause_monitor", name="monitors/m").etag == ask("pause_monitor", name="monitors/m").etag
    )


def test_a_trigger_makes_a_tick_once_for_its_request_id(ask):
    ask.create()
    first = ask("trigger_monitor", name="monitors/m", request_id="once")
    assert (first.cause, first.state) == (pb.MONITOR_TICK_CAUSE_MANUAL, pb.MONITOR_TICK_STATE_DONE)
    assert ask("trigger_monitor", name="monitors/m", request_id="once") == first
    assert ask("trigger_monitor", name="monitors/m").due_ns != first.due_ns


def test_the_history_comes_in_pages_the_newest_first(ask):
    ask.create()
    made = [ask("trigger_monitor", name="monitors/m") for _ in range(3)][::-1]
    first = ask("list_monitor_ticks", parent="monitors/m", page_size=2)
    rest = ask(
        "list_monitor_ticks", parent="monitors/m", page_size=2, page_token=first.next_page_token
    )
    assert [*first.ticks, *rest.ticks] == made
    assert ask("get_monitor", name="monitors/m").last_tick == made[0]


def test_a_tick_that_starts_a_run_names_it(ask):
    ask.create(FULL)
    tick = ask("trigger_monitor", name="monitors/m")
    assert (tick.state, tick.run_state) == (pb.MONITOR_TICK_STATE_RUNNING, run_pb.RUN_STATE_PENDING)
    run = asyncio.run(ask.backend.runs.get("", tick.run.removeprefix("runs/")))
    assert run.state == "PENDING"


def test_a_live_monitor_shows_what_it_knows(ask):
    ask.create(pb.Monitor(watch=pb.MonitorWatch(metric=METRIC, floor=0.8, heaviest=1)))
    ask("trigger_monitor", name="monitors/m")
    found = ask("get_monitor", name="monitors/m").findings
    assert (found.phase, found.floor, found.sessions, found.evidence_for_alert) == (
        "watching",
        0.8,
        0,
        200.0,
    )
