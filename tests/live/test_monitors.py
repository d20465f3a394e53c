"""Monitors of a real server: killed at each step from a due tick to a sent alert, and through
changes of the clock.
"""

import json
import signal
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
import pytest

from spanscore.api.v1 import monitor_service_pb2 as pb, run_service_pb2 as run_pb
from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceStub
from spanscore.store.config import Config
from spanscore.store.listing import ScoreQuery
from spanscore.store.store import Store, StoredTrace
from spanscore.testing.traces import agent_trace

pytestmark = pytest.mark.slow

DEADLINE_S = 300
TRACES = 8
METRIC = "coherence"  # which needs no judge; of these traces it is low
LIVE = pb.MonitorWatch(metric=METRIC, floor=0.99, heaviest=1.0)
MONITOR = pb.Monitor(
    schedule=pb.MonitorSchedule(every_s=10.0),
    run=pb.MonitorRun(
        measure=run_pb.RunMeasure(metrics=[METRIC]),
        overlap=pb.MONITOR_OVERLAP_QUEUE,
        only_if_changed=True,
    ),
    watch=LIVE,
)
TABLES, STORE = (
    "spanscore.store.monitor_tables MonitorTables",
    "spanscore.store.monitors MonitorStore",
)
# in the order in which a tick comes to them
POINTS = {
    "a tick is due": f"{TABLES} add_tick before",
    "the tick is written, its run is not": "spanscore.store.runs RunTables create before",
    "the run is written, nothing is committed": "spanscore.store.runs RunTables create after",
    "tick and run are committed": f"{STORE} write after",
    "the run is listed": "spanscore.control.run_items Work _list_items after",
    "scores of the run are to be committed": "spanscore.control.run_items Work _commit_all before",
    "scores of the run are committed": "spanscore.control.run_items Work _commit_all after",
    "the run has ended": f"{STORE} assess before",
    "its scores were looked at": f"{STORE} assess after",
    "an alert is to be sent": "spanscore.export.http Connection send before",
    "an alert was sent": "spanscore.export.http Connection send after",
    "an alert was noted as sent": "spanscore.store.monitors AlertNotices settle after",
}


class Webhook:
    """Takes alerts at a port of its own."""

    def __init__(self):
        alerts = self.alerts = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                alerts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alerts"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def webhook():
    found = Webhook()
    yield found
    found.close()


def ask(running, method, request):
    with grpc.insecure_channel(f"127.0.0.1:{running.api}") as channel:
        return getattr(MonitorServiceStub(channel), method)(
            request, timeout=DEADLINE_S, wait_for_ready=True
        )


def ticks(running, monitor="m"):
    return list(
        ask(
            running, "ListMonitorTicks", pb.ListMonitorTicksRequest(parent=f"monitors/{monitor}")
        ).ticks
    )


def wait_until(holds):
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def keep(folder, count):
    """Store so many traces, while no server runs; their ids."""
    store = Store.open(Config(url=f"sqlite:///{folder}/store.db"))
    made = [
        agent_trace(user_input=f"Where is order {n}?", final_output="Blue whales sing.")
        for n in range(count)
    ]
    store.commit([StoredTrace(x, 1, "digest") for x in made], [])
    store.close()
    return sorted(x.id for x in made)


def tick_each_second(folder):
    """Have the monitor `m` tick more often than the API permits, while no server runs."""

    def change(tables):
        kept = tables.get("", "m")
        spec = json.loads(kept.spec)
        spec["schedule"]["every"] = "1s"
        tables.change(replace(kept, spec=json.dumps(spec)))

    store = Store.open(Config(url=f"sqlite:///{folder}/store.db"))
    store.monitors.write(change)
    store.close()


def scored(folder, found):
    """How often each trace was scored by the runs of these ticks."""
    store = Store.open(Config(url=f"sqlite:///{folder}/store.db"))
    runs = [x.run.removeprefix("runs/") for x in found if x.run]
    scores = [
        y for x in runs for y in store.list_scores(ScoreQuery(run=x, skipped=True), 100_000).items
    ]
    store.close()
    return Counter(x.subject_id for x in scores)


def is_at_rest(running):
    opened = (pb.MONITOR_TICK_STATE_QUEUED, pb.MONITOR_TICK_STATE_RUNNING)
    return not any(x.state in opened for x in ticks(running))


def test_kills_at_each_step_lose_no_tick_and_start_no_run_twice(server, webhook):
    """One tick is killed at all points, each time the farther it has come."""
    running = server(alerting={"receivers": {"webhook": {"endpoint": webhook.url}}})
    running.program = str(Path(__file__).with_name("killed.py"))
    running.start()
    ask(running, "CreateMonitor", pb.CreateMonitorRequest(monitor=MONITOR, monitor_id="m"))
    running.stop()
    ids = keep(running.folder, TRACES)
    tick_each_second(running.folder)

    for step, point in POINTS.items():
        (running.folder / "kill").write_text(point)
        killed = running.run()
        assert killed.returncode == -signal.SIGKILL, f"{step}\n{killed.stderr}"
    running.start()
    wait_until(lambda: webhook.alerts and is_at_rest(running))
    found = ticks(running)
    running.stop()

    assert scored(running.folder, found) == dict.fromkeys(ids, 1)
    started = [x.run for x in found if x.run]
    assert len(started) == len(set(started))
    assert len({x.due_ns for x in found}) == len(found)
    assert sum(x.finding == "firing" for x in found) == 1
    assert {json.dumps(x) for x in webhook.alerts} == {json.dumps(webhook.alerts[0])}
    assert (webhook.alerts[0]["id"], webhook.alerts[0]["status"]) == ("m/1", "firing")


def utc(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9


ZONES = {
    "berlin": ("30 2 * * *", "Europe/Berlin"),
    "london": ("30 1 * * *", "Europe/London"),
    "hourly": ("0 * * * *", "Europe/Berlin"),
    "abroad": ("30 1 * * *", "America/New_York"),
}
CHANGES = {
    # Clocks go forward at 01:00 UTC: what falls into the hour that there is not comes right after
    # it.
    "forward": (
        "2026-03-28T23:50",
        {
            "berlin": ["2026-03-29T01:00"],
            "london": ["2026-03-29T01:00"],
            "hourly": [f"2026-03-29T0{hour}:00" for hour in range(4)],
            "abroad": [],
        },
    ),
    # They go back at 01:00 UTC: what falls into the hour that there is twice comes once.
    "back": (
        "2026-10-24T23:50",
        {
            "berlin": ["2026-10-25T00:30"],
            "london": ["2026-10-25T00:30"],
            "hourly": [f"2026-10-25T0{hour}:00" for hour in range(4)],
            "abroad": [],
        },
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_monitors_tick_as_their_zones_clocks_go(server, change):
    begin, expected = CHANGES[change]
    running = server()
    running._set_clock(utc(begin))
    running.stop_clock().start()
    for name, (cron, zone) in ZONES.items():
        monitor = pb.Monitor(watch=LIVE, schedule=pb.MonitorSchedule(cron=cron, time_zone=zone))
        ask(running, "CreateMonitor", pb.CreateMonitorRequest(monitor=monitor, monitor_id=name))
    for _ in range(7):
        running.pass_time(30 * 60)
        now_ns = running._shown_ns()
        due = {
            name: {utc(x) for x in times if utc(x) <= now_ns} for name, times in expected.items()
        }
        wait_until(lambda due=due: all(times <= dues(running, name) for name, times in due.items()))
    found = {name: dues(running, name) for name in ZONES}
    running.stop()

    assert found == {name: set(map(utc, times)) for name, times in expected.items()}


def dues(running, name):
    return {x.due_ns for x in ticks(running, name)}
