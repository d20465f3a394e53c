"""Run by an environment's own Python: a server, of the Python that is named, answers each form of
the API.
"""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import spanscore
from spanscore.api.v1.monitor_service_pb2 import (
    CreateMonitorRequest,
    Monitor,
    MonitorSchedule,
    MonitorWatch,
    UpdateMonitorRequest,
)
from spanscore.api.v1.run_service_pb2 import (
    CreateRunRequest,
    ListRunsRequest,
    Run,
    RunMeasure,
    RunSampling,
    RunTarget,
)

RUN = Run(
    target=RunTarget(sampling=RunSampling(share=0.5)),
    measure=RunMeasure(metrics=["coherence"], thresholds={"coherence": 0.5}),
)


def main() -> None:
    """Start a server, ask it, and end it."""
    folder = Path(tempfile.mkdtemp())
    grpc, http, *others = free_ports(5)
    anywhere = [{"endpoint": f"127.0.0.1:{x}"} for x in others]
    settings = {
        "receive": dict(zip(("grpc", "http", "health"), anywhere, strict=True)),
        "api": {"endpoint": f"127.0.0.1:{grpc}", "http": {"endpoint": f"127.0.0.1:{http}"}},
        "journal": {"path": str(folder / "journal.db")},
        "store": {"url": f"sqlite:///{folder / 'store.db'}"},
    }
    file = folder / "spanscore.yaml"
    file.write_text(json.dumps(settings))
    command = [sys.argv[1], "-m", "spanscore.cli.main", "serve", "-c", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert any(json.loads(line)["msg"] == "ready" for line in server.stderr)
            ask_by_grpc(f"127.0.0.1:{grpc}")
            ask_by_http(f"http://127.0.0.1:{http}/spanscore.v1.")
        finally:
            server.terminate()
            server.communicate()


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nothing listened on a moment ago."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [x.getsockname()[1] for x in taken]


def ask_by_grpc(endpoint: str) -> None:
    """Requests with lists, maps, messages and a field mask."""
    with spanscore.Client(endpoint) as client:
        client.runs.CreateRun(CreateRunRequest(run=RUN))
        [run] = client.runs.ListRuns(ListRunsRequest()).runs
        assert run.measure == RUN.measure
        watch = MonitorWatch(metric="coherence", floor=0.5, labels={"severity": "page"})
        monitor = Monitor(watch=watch, schedule=MonitorSchedule(every_s=3600))
        made = client.monitors.CreateMonitor(CreateMonitorRequest(monitor=monitor))
        changed = UpdateMonitorRequest(monitor=Monitor(name=made.name, display_name="quality"))
        assert client.monitors.UpdateMonitor(changed).display_name == "quality"


def ask_by_http(url: str) -> None:
    """JSON and protobuf, and an error with its details."""
    assert posted(f"{url}RunService/ListRuns", b"{}")[0] == 200
    assert posted(f"{url}RunService/ListRuns", b"", "application/proto")[0] == 200
    status, body = posted(
        f"{url}RunService/CreateRun", b'{"run": {"target": {"sampling": {"share": 7}}}}'
    )
    assert (status, b"run.target.sampling.share" in body) == (400, True), body


def posted(url: str, body: bytes, kind: str = "application/json") -> tuple[int, bytes]:
    """The status and body of an answer."""
    try:
        with urlopen(Request(url, body, {"Content-Type": kind})) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


if __name__ == "__main__":
    main()
