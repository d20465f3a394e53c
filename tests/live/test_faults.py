"""A disk that is full, a store that cannot be used, a second server: what is acknowledged is kept,
and goes on.
"""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import urllib.request
from collections import Counter

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from spanscore.api.v1 import monitor_service_pb2 as monitor_pb, run_service_pb2 as pb
from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceStub
from spanscore.api.v1.run_service_pb2_grpc import RunServiceStub
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace
from spanscore.testing.traces import agent_trace

pytestmark = pytest.mark.slow


def send(running, requests):
    """How many of these were acknowledged; all others must have been told to come back."""
    told = Counter()
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        for request in requests:
            try:
                TraceServiceStub(channel).Export(request)
                told[grpc.StatusCode.OK] += 1
            except grpc.RpcError as error:
                told[error.code()] += 1
    assert told.keys() <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    return told[grpc.StatusCode.OK]


def traces_of(requests):
    return {request.resource_spans[0].scope_spans[0].spans[0].trace_id for request in requests}


def ready(running):
    with urllib.request.urlopen(f"http://127.0.0.1:{running.health}/readyz") as answer:
        return answer.read().decode()


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 32 MiB: several times what a test writes when nothing is slow."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if (
        not mount
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)], check=False
        ).returncode
    ):
        pytest.skip("mounting needs root")
    yield folder
    subprocess.run([umount, "-l", str(folder)], check=True)


def fill(folder):
    """Leave no room; returns the file to remove for it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    return ballast


def test_a_server_goes_on_by_itself_after_its_disk_was_full(server, recording, small_disk):
    running = server(
        journal={"path": str(small_disk / "journal.db")},
        store={"url": f"sqlite:///{small_disk}/store.db"},
        assemble={
            "complete_after": "700ms",
            "idle_after": "700ms",
            "session_idle_after": "1s",
            "late_window": "1s",
        },
    ).start()
    requests = recording("semconv/message-attributes").copies(6)
    assert send(running, requests[:60]) == 60
    ballast = fill(small_disk)
    refused = send(running, requests[60:]) < len(requests) - 60
    ballast.unlink()
    running.wait_until(
        lambda state: state["status"] == "Server available" and state["store"] == "ok"
    )
    assert refused
    assert send(running, requests) == len(requests)
    running.wait_until_finished(len(traces_of(requests)))
    # also what could not be removed meanwhile
    running.wait_until(lambda state: not state["journal_bytes"])
    assert running.stop() == 0


def test_a_store_that_cannot_be_used_costs_no_request(server, recording):
    running = server(store={"busy_timeout": "10ms"}).start()
    requests = recording("semconv/message-attributes").copies(6)
    other = sqlite3.connect(running.folder / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert send(running, requests) == len(requests)
    running.wait_until(
        lambda state: (
            "locked" in state["store"]
            and state["status"] == "Server available"
            and "scoring waits for the store" in (running.folder / "log").read_text()
        )
    )
    told = ready(running)
    other.close()
    running.wait_until_finished(len(traces_of(requests)))
    running.stop()
    assert "ok\nnothing is scored or sent, requests wait in the journal" in told
    log = (running.folder / "log").read_text()
    assert log.count("scoring waits for the store") == 1
    assert "Traceback" not in log


def test_a_store_whose_file_vanishes_stops_no_server(server, recording):
    running = server().start()
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (running.folder / name).unlink()
    requests = recording("semconv/message-attributes").copies(3)
    assert send(running, requests) == len(requests)
    running.wait_until_finished(len(traces_of(requests)))
    assert running.stop() == 0
    assert running.committed()


@pytest.mark.parametrize("shared", ["journal.db", "store.db"])
def test_a_second_server_on_the_same_file_does_not_start_and_names_the_first(server, shared):
    first = server().start()
    paths = {"journal.db": {"journal": {"path": str(first.folder / shared)}}}
    other = server(**paths.get(shared, {"store": {"url": f"sqlite:///{first.folder}/{shared}"}}))
    found = other.run()
    assert found.returncode == 2
    assert f"in use by another spanscore (process {first.process.pid} on " in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert first.state()["status"] == "Server available"


def test_the_next_server_starts_at_once_after_a_kill(server):
    running = server().start()
    running.kill()
    assert (
        (running.folder / "store.db.lock")
        .read_text()
        .startswith(f"process {running.process.pid} on {os.uname()[1]}")
    )
    running.start()


@pytest.fixture
def killed(server, recording):
    """A server that was killed with 60 acknowledged requests in its journal."""
    running = server(assemble={"complete_after": "1h", "idle_after": "1h"}).start()
    assert send(running, recording("semconv/message-attributes").copies(3)[:60]) == 60
    running.kill()
    return running


def lost(running):
    with urllib.request.urlopen(f"http://127.0.0.1:{running.health}/metrics") as answer:
        page = answer.read().decode()
    return [
        line.rsplit(" ", 1)[1]
        for line in page.splitlines()
        if line.startswith("spanscore_journal_lost_requests")
    ]


def test_a_flipped_byte_in_the_journals_log_loses_nothing(killed):
    log = killed.folder / "journal.db-wal"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    killed.start()
    assert (
        killed.state()["counters"]["journal_replayed_requests"] + sum(map(int, lost(killed))) == 60
    )
    assert killed.state()["counters"]["journal_replayed_requests"] >= 59


def test_what_a_journal_without_its_log_lacks_is_told_and_counted(killed):
    (killed.folder / "journal.db-wal").unlink()
    killed.start()
    assert lost(killed) == ["60"]
    assert "60 acknowledged requests are lost" in ready(killed)
    assert "60 acknowledged requests are lost" in (killed.folder / "log").read_text()


def test_after_a_repair_a_server_with_a_damaged_store_and_journal_starts(server, recording):
    running = server().start()
    requests = recording("semconv/message-attributes").copies(3)
    send(running, requests)
    running.wait_until_finished(len(traces_of(requests)))
    running.stop()
    before = running.committed()
    for name in ("journal.db", "store.db"):
        with (running.folder / name).open("r+b") as file:
            file.write(b"\0" * 4096)
    refused = running.run()
    assert (refused.returncode, refused.stderr.count("spanscore repair")) == (2, 1)
    repaired = running.run("repair")
    assert (repaired.returncode, repaired.stdout.count("the damaged file is kept")) == (0, 2)
    running.start()
    send(running, requests)
    running.wait_until_finished(len(traces_of(requests)))
    assert running.committed().keys() == before.keys()


def create_until_refused(runs, request):
    """The runs that could still be created, and the code with which the next one was refused."""
    created = []
    while True:
        try:
            created.append(runs.CreateRun(request, wait_for_ready=True))
        except grpc.RpcError as error:
            return created, error.code()


def test_runs_go_on_by_themselves_after_the_disk_was_full(server, small_disk):
    running = server(
        journal={"path": str(small_disk / "journal.db")},
        store={"url": f"sqlite:///{small_disk}/store.db"},
    )
    store = Store.open(Config(url=f"sqlite:///{small_disk}/store.db"))
    traces = [agent_trace(user_input=str(n), final_output="blue") for n in range(5)]
    store.commit([StoredTrace(x, 1, "") for x in traces], [])
    store.close()
    running.start()
    request = pb.CreateRunRequest(
        run=pb.Run(measure=pb.RunMeasure(metrics=["check.answer_present"]))
    )
    with grpc.insecure_channel(f"127.0.0.1:{running.api}") as channel:
        runs = RunServiceStub(channel)
        created = [runs.CreateRun(request, wait_for_ready=True)]
        ballast = fill(small_disk)
        more, code = create_until_refused(runs, request)
        ballast.unlink()
        ended = [
            list(runs.WatchRun(pb.WatchRunRequest(name=x.name)))[-1] for x in [*created, *more]
        ]

    assert code == grpc.StatusCode.UNAVAILABLE
    assert {(x.state, x.progress.done) for x in ended} == {(pb.RUN_STATE_SUCCEEDED, 5)}


def test_ticks_of_monitors_that_a_full_disk_has_stopped_are_made_up_for(server, small_disk):
    """No trace is left out, and none is evaluated twice."""
    url = f"sqlite:///{small_disk}/store.db"
    running = server(store={"url": url}).stop_clock().start()
    monitor = monitor_pb.Monitor(
        schedule=monitor_pb.MonitorSchedule(every_s=10.0),
        run=monitor_pb.MonitorRun(
            measure=pb.RunMeasure(metrics=["coherence"]), only_if_changed=True
        ),
    )
    with grpc.insecure_channel(f"127.0.0.1:{running.api}") as channel:
        service = MonitorServiceStub(channel)
        service.CreateMonitor(
            monitor_pb.CreateMonitorRequest(monitor=monitor, monitor_id="m"), wait_for_ready=True
        )
    running.stop()
    store = Store.open(Config(url=url))
    traces = [agent_trace(user_input=f"question {n}", final_output="blue") for n in range(20)]
    store.commit([StoredTrace(x, 1, "digest") for x in traces], [])
    store.close()
    running.start()
    ballast = fill(small_disk)
    running.pass_time(10)
    running.wait_until(
        lambda _: "monitors: the store cannot be used" in (running.folder / "log").read_text()
    )
    ballast.unlink()
    running.run_clock()

    with grpc.insecure_channel(f"127.0.0.1:{running.api}") as channel:
        listed = monitor_pb.ListMonitorTicksRequest(parent="monitors/m")
        service = MonitorServiceStub(channel)
        running.wait_until(
            lambda _: any(x.run_progress.done == 20 for x in service.ListMonitorTicks(listed).ticks)
        )
        found = service.ListMonitorTicks(listed).ticks
    running.stop()
    assert sum(x.run_progress.done for x in found) == 20
    assert len({x.due_ns for x in found}) == len(found)
