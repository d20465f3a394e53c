"""Looks of monitors: each is made once, as a whole, from scores that are read once."""

import pytest

from spanscore.errors import PermanentError
from spanscore.model.score import Skip
from spanscore.store import monitor_tables
from spanscore.store.config import Config
from spanscore.store.monitor_tables import Advanced, Look, StoredMonitor, Tick
from spanscore.store.store import Store

MINUTE = 60 * 10**9


def look_of(digest, advance):
    return Look("coherence", "trace", lambda x: x.value, digest, advance, 1)


class Looking:
    """Monitors that keep all that they are given."""

    def __init__(self, store):
        self.store, self.kept, self.sessions = store, [], []
        self.due_ns = 0

    def __call__(self, due_ns=None, *, until_ns=2 * 10**18, digest="a", notices=(), name="m"):
        self.due_ns = self.due_ns + MINUTE if due_ns is None else due_ns
        self.store.monitors.write(lambda tables: create_unless_there(tables, name))

        def advance(findings, is_same, sessions):
            kept = findings if is_same else None
            self.kept.append(kept)
            self.sessions.append([x.values for x in sessions])
            return Advanced({"looks": (kept or {"looks": 0})["looks"] + 1}, "watching", notices)

        return self.store.monitors.look(
            Tick("", name, self.due_ns, 10**18), 10**18 - until_ns, look_of(digest, advance)
        )


def create_unless_there(tables, name):
    if tables.get("", name) is None:
        tables.create(StoredMonitor("", name, "ACTIVE", "{}", 0, 0, 0, 0))


@pytest.fixture
def look(any_store):
    found = Looking(any_store)
    found()  # what is stored before the first look is left out
    return found


def put(store, make, number, value, *, session=None, at_ns=10**18, **facts):
    trace = make.trace(number, session_id=session)
    score = make.score(trace, value=value, session_key=session, evaluated_at_ns=at_ns, **facts)
    store.commit([make.stored(trace)], [score])


def test_a_damaged_score_holds_up_no_monitor(look, any_store, make, sql):
    for number, value in enumerate((0.5, 0.75)):
        put(any_store, make, number, value)
    sql("UPDATE scores SET record = '{' WHERE number = 1")
    look()
    assert look.sessions[-1] == [(0.75,)]


def test_a_look_is_made_once(look):
    assert look(5 * MINUTE)
    assert not look(5 * MINUTE)
    assert len(look.kept) == 2


@pytest.mark.slow
def test_looks_of_other_monitors_are_their_own(look):
    assert look(5 * MINUTE)
    assert look(5 * MINUTE, name="other")


def test_a_monitor_begins_with_the_scores_after_its_first_look(any_store, make):
    put(any_store, make, 1, 0.5)
    look = Looking(any_store)
    look()
    put(any_store, make, 2, 0.75)
    look()
    assert look.sessions == [[], [(0.75,)]]


def test_a_session_counts_once_with_all_of_its_scores(any_store, make, look):
    for number, value in ((1, 0.25), (2, 0.5)):
        put(any_store, make, number, value, session="s")
    look()
    put(any_store, make, 3, 0.75, session="s")
    look()
    assert [sorted(x) for x in look.sessions[1][0:1]] == [[0.25, 0.5]]
    assert look.sessions[2] == []


def test_a_session_counts_when_it_has_settled(any_store, make, look):
    put(any_store, make, 1, 0.25, session="s", at_ns=10**18)
    look(until_ns=10**18 - 1)
    look(until_ns=10**18)
    assert look.sessions[1:] == [[], [(0.25,)]]


def test_a_session_that_goes_on_for_a_day_counts_anyway(any_store, make, look):
    put(any_store, make, 1, 0.25, session="s", at_ns=10**18 - 25 * 60 * MINUTE)
    put(any_store, make, 2, 0.25, session="s", at_ns=10**18)
    look(until_ns=10**18 - 1)
    assert look.sessions[1] == [(0.25, 0.25)]


def test_the_later_revision_takes_the_place_of_the_earlier(any_store, make, look):
    put(any_store, make, 1, 0.25, at_ns=10**18)
    look(until_ns=0)
    put(any_store, make, 1, 0.75, revision=2)
    look()
    assert look.sessions[2] == [(0.75,)]


def test_a_revision_without_a_value_takes_the_score_out(any_store, make, look):
    put(any_store, make, 1, 0.25)
    look(until_ns=0)
    trace = make.trace(1)
    any_store.commit([], [make.score(trace, outcome=Skip("none", "not_recorded"), revision=2)])
    look()
    assert look.sessions[2] == []


@pytest.mark.parametrize("text", ["x" * 300, "nul \0", "half a pair \ud83d"])
def test_a_session_whose_id_no_column_can_hold_counts_as_any_other(any_store, make, look, text):
    put(any_store, make, 1, 0.25, session=text)
    put(any_store, make, 2, 0.5)
    look()
    assert sorted(look.sessions[1]) == [(0.25,), (0.5,)]


@pytest.mark.parametrize("text", ["x" * 300, "nul \0", "half a pair \ud83d"])
def test_a_score_whose_subject_no_column_can_hold_counts_as_any_other(any_store, make, look, text):
    put(any_store, make, 1, 0.25, subject_id=text)
    look()
    assert look.sessions[1] == [(0.25,)]


def test_sessions_whose_long_ids_begin_alike_count_each(any_store, make, look):
    for number in (1, 2):
        put(any_store, make, number, number / 4, session="s" * 250 + str(number))
    look()
    assert sorted(look.sessions[1]) == [(0.25,), (0.5,)]


@pytest.mark.slow
def test_scores_of_other_metrics_are_left_out(any_store, make, look):
    put(any_store, make, 1, 0.25, metric="loop_detection")
    look()
    assert look.sessions[1] == []


def test_more_scores_than_are_read_at_once_are_all_read(any_store, make, look, monkeypatch):
    monkeypatch.setattr(monitor_tables, "_READ_AT_ONCE", 5)
    traces = [make.trace(number) for number in range(1, 13)]
    scores = [make.score(x, evaluated_at_ns=10**18) for x in traces]
    any_store.commit([make.stored(x) for x in traces], scores)
    look()
    assert len(look.sessions[1]) == 12


def test_a_look_that_fails_leaves_nothing(any_store, make, look):
    put(any_store, make, 1, 0.25)

    def fails(_findings, _is_same, _sessions):
        raise PermanentError("no")

    with pytest.raises(PermanentError):
        any_store.monitors.look(Tick("", "m", 9 * MINUTE, 10**18), -(10**18), look_of("a", fails))
    assert look(9 * MINUTE)
    assert look.sessions[1] == [(0.25,)]


def test_the_state_survives_the_process(database_url):
    for looks in (None, {"looks": 1}):
        store = Store.open(Config(url=database_url))
        look = Looking(store)
        look.due_ns = 0 if looks is None else MINUTE
        look()
        assert look.kept == [looks]
        store.close()


def test_no_score_is_left_out_after_a_restart_where_those_before_are_deleted(database_url, make):
    config = Config(url=database_url, retention={"max_age": "1h"})
    store = Store.open(config)
    for number in (1, 2, 3):
        put(store, make, number, 0.25)
    Looking(store)()
    store.prune(9 * 10**18)
    store.close()
    store = Store.open(config)
    put(store, make, 4, 0.75)
    look = Looking(store)
    look(5 * MINUTE)
    store.close()
    assert look.sessions == [[(0.75,)]]


def test_another_configuration_begins_anew_and_takes_its_alerts_back(any_store, look):
    look(notices=[("webhook", {"id": "m/1", "status": "firing"})])
    look(digest="b")
    assert look.kept[-1] is None
    assert any_store.monitors.notices.due(2 * 10**18) == []


def test_alerts_are_due_in_their_order(any_store, look):
    look(
        notices=[
            ("webhook", {"id": "m/1", "status": "firing"}),
            ("webhook", {"id": "m/1", "status": "resolved"}),
        ]
    )
    store = any_store.monitors.notices
    [first] = store.due(10**18)
    assert (first.status, first.is_superseded, first.record["id"]) == ("firing", True, "m/1")
    store.settle(first, None)
    assert [x.status for x in store.due(10**18)] == ["resolved"]


def test_an_alert_that_was_not_taken_comes_again_later(any_store, look):
    look(notices=[("webhook", {"status": "firing"})])
    store = any_store.monitors.notices
    [notice] = store.due(10**18)
    store.put_off(notice, 10**18 + MINUTE)
    assert store.due(10**18) == []
    [again] = store.due(10**18 + MINUTE)
    assert again.tries == 1


def test_an_alert_that_lasts_stands_in_the_way_of_no_later_one(any_store, look):
    look(notices=[("alertmanager", {"status": "firing"})])
    store = any_store.monitors.notices
    [notice] = store.due(10**18)
    store.settle(notice, 10**18 + MINUTE)
    look(notices=[("alertmanager", {"status": "resolved"})])
    [first] = store.due(10**18)
    assert (first.status, first.delivered, first.is_superseded) == ("firing", True, True)


def test_a_monitor_that_never_looked_has_no_last_tick(any_store, look):
    assert any_store.monitors.read(lambda x: x.last_tick_ns("", "other")) is None
    assert any_store.monitors.read(lambda x: x.last_tick_ns("", "m")) == 10**18
