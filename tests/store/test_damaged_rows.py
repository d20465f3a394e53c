"""Rows with damaged JSON are left out of lists, which lack no other."""

import sqlite3
from contextlib import closing

from spanscore.model.score import Undelivered
from spanscore.store import pending
from spanscore.store.config import Config
from spanscore.store.monitor_tables import StoredMonitor, Tick
from spanscore.store.runs import Run
from spanscore.store.store import Store


def test_a_damaged_monitor_tick_note_or_run_costs_no_other(tmp_path, make):
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/spanscore.db"))
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace, x) for x in ("m1", "m2")])
    for name in ("first", "second"):
        monitor = StoredMonitor("", name, "ACTIVE", "{}", 1, 1, 1, 0)
        store.monitors.write(lambda x, one=monitor: x.create(one))
        tick = Tick(tenant="", monitor="first", due_ns=len(name), looked_ns=1)
        store.monitors.write(lambda x, one=tick: x.add_tick(one))
        store.write_runs(lambda x, one=name: x.create(Run(one, "", "RUNNING", "{}", 1, 1)))
    notes = [Undelivered("otlp", x, ("traces",), "fault", "busy", 5) for x in (1, 2)]
    store.set_cursor("otlp", 2, notes)
    with closing(sqlite3.connect(tmp_path / "spanscore.db")) as db:
        for change in (
            "UPDATE monitors SET record = replace(record, '{', '[') WHERE id = 'first'",
            "UPDATE monitor_history SET record = replace(record, 'due', 'dve') WHERE at_ns = 5",
            "UPDATE pending SET record = substr(record, 2) WHERE number = 1",
            "UPDATE runs SET progress = replace(progress, 'items', 'itens') WHERE id = 'first'",
        ):
            assert db.execute(change).rowcount == 1
        db.commit()
    assert [x.id for x in store.monitors.read(lambda x: x.all())] == ["second"]
    assert [x.due_ns for x in store.monitors.read(lambda x: x.ticks("", "first", 10))] == [6]
    assert [x.note.seq for x in pending.undelivered(Config(url=store._config.url))] == [2]
    assert [x.id for x in store.read_runs(lambda x: x.page("", 10, None))] == ["second"]
    store.monitors.write(lambda x: x.create(StoredMonitor("", "first", "PAUSED", "{}", 2, 2, 2, 0)))
    again = Tick(tenant="", monitor="first", due_ns=5, looked_ns=2)
    assert store.monitors.write(lambda x: x.add_tick(again))
    assert [x.id for x in store.monitors.read(lambda x: x.all())] == ["first", "second"]
    store.close()
