"""A server in a process of its own, configured as the demo is."""

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import yaml

from spanscore import local_files
from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_TRACE, Score
from spanscore.api.v1.score_service_pb2 import ListScoresRequest
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub
from spanscore.cli import demo
from spanscore.cli.one_run import Backend
from spanscore.errors import SpanscoreError
from spanscore.model.trace import Session

_START_TIMEOUT_S = 30
_STOP_TIMEOUT_S = 20
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Ports:
    """Free loopback ports, one for each listener of the server."""

    grpc: int
    http: int
    health: int
    control: int

    @classmethod
    def free(cls) -> "Ports":
        """Four ports that nothing listened on a moment ago."""
        with contextlib.ExitStack() as stack:
            taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
            return cls(*(one.getsockname()[1] for one in taken))


def configuration(
    folder: Path, ports: Ports, judge: Mapping[str, Any] | None, backend: Backend | None
) -> dict[str, Any]:
    """The demo's configuration, with these ports, for a server that does not wait long for
    anything.
    """
    return {
        **demo.configuration(folder, judge or {}, backend),
        "receive": {
            "grpc": {"endpoint": f"127.0.0.1:{ports.grpc}"},
            "http": {"endpoint": f"127.0.0.1:{ports.http}"},
            "health": {"endpoint": f"127.0.0.1:{ports.health}"},
        },
        "api": {"endpoint": f"127.0.0.1:{ports.control}"},
        "assemble": {"complete_after": "1s", "idle_after": "2s", "session_idle_after": "2s"},
    }


@contextlib.contextmanager
def running(folder: Path, ports: Ports, settings: dict[str, Any]) -> Iterator[ScoreServiceStub]:
    """Run the server, ready to receive, while the block runs; it is always stopped, and has then
    sent every score.

    Gives the stub of its scores. Raises SpanscoreError when it does not start, or does not
    end well.
    """
    config, log = folder / "config.yaml", folder / "server.log"
    local_files.write(config, yaml.safe_dump(settings, sort_keys=False).encode())
    command = [sys.executable, "-m", "spanscore.cli.main", "serve", "-c", str(config)]
    local_files.write(log, b"")
    with log.open("ab") as output:
        # In a session of its own, so that Ctrl-C reaches only this process, which then stops the
        # server.
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        with grpc.insecure_channel(f"127.0.0.1:{ports.control}") as channel:
            _wait_until_ready(child, (ports.grpc, ports.http, ports.health, ports.control), log)
            yield ScoreServiceStub(channel)
    finally:
        _stop(child)
    if child.returncode:
        raise SpanscoreError(
            f"the server ended with exit code {child.returncode}; all it wrote is in {log}"
        )


def wait_for_scores(
    stub: ScoreServiceStub, sessions: Sequence[Session], timeout_s: float
) -> dict[str, list[Score]]:
    """The scores of each session and its traces, by session id, once all have theirs.

    Raises SpanscoreError when that takes longer than `timeout_s` seconds, or the server does not
    answer.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        found = {session.session_id: _scores(stub, session.session_id) for session in sessions}
        if all(_is_whole(found[session.session_id], session) for session in sessions):
            return found
        if time.monotonic() > deadline_s:
            raise SpanscoreError(f"the sessions had no scores within {timeout_s:.0f} s")
        time.sleep(_POLL_S)


def _is_whole(scores: Sequence[Score], session: Session) -> bool:
    """Whether every trace has scores, and the session itself has some that are younger than all of
    those.
    """
    of_traces = [score.evaluated_at_ns for score in scores if score.scope == SCOPE_TRACE]
    of_session = [score.evaluated_at_ns for score in scores if score.scope == SCOPE_SESSION]
    missing = {trace.id for trace in session.traces} - {score.subject_id for score in scores}
    return bool(of_session) and not missing and min(of_session) >= max(of_traces, default=0)


def _scores(stub: ScoreServiceStub, session_id: str) -> list[Score]:
    try:
        return list(stub.ListScores(ListScoresRequest(session_id=session_id), timeout=5).scores)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return []
        raise SpanscoreError(
            f"the server does not answer: {error.code().name}, {error.details()}"
        ) from error


def _wait_until_ready(child: "subprocess.Popen[bytes]", ports: Sequence[int], log: Path) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while not all(_listens(port) for port in ports):
        if child.poll() is not None or time.monotonic() > deadline_s:
            last = (log.read_text(errors="replace").splitlines() or ["it wrote nothing"])[-1]
            raise SpanscoreError(f"the server did not start: {last} (all it wrote is in {log})")
        time.sleep(_POLL_S / 4)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _stop(child: "subprocess.Popen[bytes]") -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
