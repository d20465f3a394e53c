"""Monitors and their ticks in the store, on both databases."""

from dataclasses import replace

import pytest

from spanscore.errors import PermanentError, RetryableError
from spanscore.store import monitor_tables
from spanscore.store.config import Config
from spanscore.store.monitor_tables import Advanced, Look, StoredMonitor, Tick, last_seq
from spanscore.store.monitors import begin_anew
from spanscore.store.store import Store

NIGHTLY = StoredMonitor("", "nightly", "ACTIVE", "{}", 1, 1, 1, 0, request_id="once")


@pytest.fixture
def monitors(any_store):
    any_store.monitors.write(lambda x: x.create(NIGHTLY))
    return any_store.monitors


def tick(number, **facts):
    return Tick(
        **{"tenant": "", "monitor": "nightly", "due_ns": number, "looked_ns": number, **facts}
    )


def add(monitors, *ticks):
    return [monitors.write(lambda x, one=one: x.add_tick(one)) for one in ticks]


def test_a_monitor_is_found_as_it_was_kept(monitors):
    changed = replace(
        NIGHTLY,
        state="PAUSED",
        revision=2,
        until_row=7,
        last_run="ab",
        from_row=3,
        measured="digest",
    )
    monitors.write(lambda x: x.change(changed))
    assert monitors.read(lambda x: (x.get("", "nightly"), x.of_request("", "once"), x.all())) == (
        changed,
        changed,
        [changed],
    )


def test_monitors_of_another_tenant_are_not_there(monitors):
    monitors.write(lambda x: x.create(replace(NIGHTLY, tenant="acme")))
    assert monitors.read(lambda x: (x.get("other", "nightly"), x.of_request("other", "once"))) == (
        None,
        None,
    )
    assert monitors.read(lambda x: (x.count(""), x.count("acme"), x.count("other"))) == (1, 1, 0)


def test_a_request_id_is_kept_once(monitors):
    with pytest.raises((PermanentError, RetryableError)):
        monitors.write(lambda x: x.create(replace(NIGHTLY, id="other")))


def test_a_tick_of_a_time_is_kept_once(monitors):
    assert add(monitors, tick(5), tick(5), tick(6)) == [True, False, True]


def test_ticks_come_the_newest_first(monitors):
    add(monitors, *map(tick, (5, 7, 6)))
    assert [x.due_ns for x in monitors.read(lambda x: x.ticks("", "nightly", 2))] == [7, 6]
    assert [x.due_ns for x in monitors.read(lambda x: x.ticks("", "nightly", 9, before_ns=7))] == [
        6,
        5,
    ]


def test_a_tick_is_found_as_it_was_kept(monitors):
    made = tick(
        5, outcome="running", run="ab", request_id="once", cause="manual", reason="why", read_seq=12
    )
    add(monitors, made)
    assert monitors.read(lambda x: x.tick_of_request("", "nightly", "once")) == made
    assert monitors.read(lambda x: (x.open_ticks(), x.open_ticks_of("", "nightly"))) == (
        [made],
        [made],
    )
    monitors.write(lambda x: x.change_tick(made.ended("done", 9)))
    assert monitors.read(lambda x: x.open_ticks()) == []


def test_what_somebody_asked_for_does_not_count_as_the_last_tick_of_the_schedule(monitors):
    add(monitors, tick(5), tick(8, request_id="by-hand"))
    assert monitors.read(lambda x: x.last_tick_ns("", "nightly")) == 5


@pytest.mark.slow
def test_the_history_is_bounded_and_what_is_open_stays(monitors):
    add(monitors, tick(1, outcome="running"), *(tick(x, outcome="done") for x in range(2, 1004)))
    kept = [x.due_ns for x in monitors.read(lambda x: x.ticks("", "nightly", 2000))]
    assert (len(kept), kept[-1], kept[-2]) == (1001, 1, 4)


def test_a_new_tick_is_kept_where_the_clock_was_set_back_behind_all_that_are_kept(
    monitors, monkeypatch
):
    monkeypatch.setattr(monitor_tables, "_MAX_TICKS", 3)
    add(monitors, *(tick(x, outcome="done") for x in range(10, 14)), tick(5))
    assert monitors.read(lambda x: x.tick("", "nightly", 5)) == tick(5)


def test_a_paused_monitor_may_tick_where_somebody_asks_for_it(monitors):
    monitors.write(lambda x: x.change(replace(NIGHTLY, state="PAUSED")))
    asked = tick(5, cause="manual")
    assert not monitors.read(lambda x: x.ticking(tick(5), 1))
    assert monitors.read(lambda x: x.ticking(asked, 1))
    assert not monitors.read(lambda x: x.ticking(replace(asked, monitor="other"), 1))


def test_a_monitor_that_was_changed_since_it_was_read_may_not_tick(monitors):
    changed = replace(NIGHTLY, revision=2)
    monitors.write(lambda x: x.change(changed))
    assert monitors.read(lambda x: (x.ticking(tick(5), 1), x.ticking(tick(5), 2))) == (
        None,
        changed,
    )


def test_rows_tell_what_was_stored_before_a_time_and_what_is_newer(any_store, make, monkeypatch):
    traces = [make.trace(number) for number in range(1, 4)]
    for trace, stored_ns in zip(traces, (10, 20, 30), strict=True):
        monkeypatch.setattr(any_store, "_clock_ns", lambda now_ns=stored_ns: now_ns)
        any_store.commit([make.stored(trace)], [])
    read = any_store.monitors.read
    assert read(lambda x: [x.row_before(time_ns) for time_ns in (5, 10, 11, 30, 99)]) == [
        0,
        0,
        1,
        2,
        3,
    ]
    ids = [x.id for x in traces]
    assert read(
        lambda x: [x.has_newer("", ids[:2], row, are_sessions=False) for row in (0, 1, 2)]
    ) == [True, True, False]
    assert not read(lambda x: x.has_newer("acme", ids, 0, are_sessions=False))


def test_rows_rise_on_where_all_traces_are_gone(database_url, make):
    store = Store.open(Config(url=database_url))
    store.monitors.write(lambda x: x.create(replace(NIGHTLY, until_row=40)))
    store.close()
    store = Store.open(Config(url=database_url))
    trace = make.trace(1)
    store.commit([make.stored(trace)], [])
    assert store.monitors.read(lambda x: x.last_row) == 41
    store.close()


def test_scores_are_numbered_on_from_those_that_the_tick_of_a_run_has_read(database_url, make):
    store = Store.open(Config(url=database_url))
    add(store.monitors, tick(5, outcome="running", run="ab", read_seq=40))
    store.close()
    store = Store.open(Config(url=database_url))
    trace = make.trace(1)
    store.commit([make.stored(trace)], [make.score(trace)])
    assert store.monitors.read(lambda x: last_seq(x.connection)) == 41
    store.close()


def test_what_a_monitor_knows_goes_with_the_alerts_that_are_no_longer_true(monitors):
    def look(_findings, _is_same, _sessions):
        return Advanced({"n": 1}, "firing", [("webhook", {"id": "nightly/1", "status": "firing"})])

    monitors.look(tick(5), 0, Look("coherence", "trace", lambda x: x.value, "digest", look, 1))

    end = ("webhook", {"id": "nightly/1", "status": "resolved"})
    monitors.write(lambda x: begin_anew(x, x.get("", "nightly"), 6, [end]))
    assert [(x.status, x.record["id"]) for x in monitors.notices.due(6)] == [
        ("resolved", "nightly/1")
    ]
