"""What stands before a tool: the collector as it is shipped, `spanscore serve`, and recordings sent
through both.
"""

import asyncio
import contextlib
import json
import subprocess
import time
import urllib.request
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import yaml

from harness import demo_server
from harness.processes import Processes, answers, free_ports
from harness.recordings import load, send_logs
from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_TRACE, Score
from spanscore.api.v1.score_service_pb2 import ListScoresRequest
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub
from spanscore.cli import demo, trace_files
from spanscore.cli.one_run import Backend
from spanscore.errors import SpanscoreError
from spanscore.model.trace import AgentTrace, Session
from spanscore.rebuild import rebuild_all

ROOT = Path(__file__).resolve().parents[4]
_TIMEOUT_S = 90.0
_POLL_S = 0.1
_TRIES = 10


@dataclass(frozen=True, slots=True)
class Run:
    """What was sent, what came of it, and where pictures go."""

    sent_ids: Collection[str]
    """The trace ids of the spans that were sent; a turn that only log records tell of has
    another.
    """

    traces: Sequence[AgentTrace]
    sessions: Sequence[Session]
    scores: Mapping[str, Sequence[Score]]
    """By session id; of a trace that is in no session by the trace's own id."""
    pictures: Path

    def of_trace(self, trace: AgentTrace) -> list[Score]:
        """The scores of a trace itself."""
        found = [x for scores in self.scores.values() for x in scores]
        return [
            x
            for x in found
            if x.scope == SCOPE_TRACE and x.subject_id == trace.id and x.HasField("value")
        ]

    def of_session(self, session: Session) -> list[Score]:
        """The scores of a session itself."""
        return [
            x
            for x in self.scores[session.session_id]
            if x.scope == SCOPE_SESSION and x.HasField("value")
        ]

    def place_of(self, trace: AgentTrace) -> str:
        """The id of the OTel trace that has its scores; an agent trace can be of several."""
        return next((x.trace_id for x in self.of_trace(trace)), trace.trace_ids[0])

    def failing(self, metric: str) -> set[str]:
        """The ids of the OTel traces with a score of `metric` that failed."""
        found = (y for x in self.traces for y in self.of_trace(x))
        return {x.trace_id for x in found if x.metric == metric and x.label == "fail"}


def span_name(score: Score) -> str:
    """The name of its evaluation span."""
    return f"{score.label or 'score'}: {score.metric}"


@dataclass(frozen=True, slots=True)
class Line:
    """Collector and spanscore, running."""

    agents: Backend
    """Where agents send."""
    stub: ScoreServiceStub
    health: str

    def send(
        self, recordings: Path, also_to: Backend | None = None, pictures: Path = Path()
    ) -> Run:
        """Send the recordings there, their spans to `also_to` too; returns when every score has
        left.
        """
        recording = load(recordings, time.time_ns())
        traces = rebuild_all(recording.spans(), recording.log_records())
        sessions = trace_files.sessions(traces)
        send_logs(recording.logs, self.agents)
        for destination in filter(None, (self.agents, also_to)):
            # Some tools load so much at the first request that it is not answered in time.
            if not any(
                asyncio.run(demo.send(recording.traces, destination)) for _ in range(_TRIES)
            ):
                raise SpanscoreError(f"{destination.url} did not take the recorded spans")
        scores: dict[str, list[Score]] = demo_server.wait_for_scores(
            self.stub, sessions, _TIMEOUT_S
        )
        scores |= {x.id: self._of_trace_alone(x) for x in traces if x.session_id is None}
        self.drain()
        return Run({x.trace_id for x in recording.spans()}, traces, sessions, scores, pictures)

    def _of_trace_alone(self, trace: AgentTrace) -> list[Score]:
        deadline_s = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline_s:
            with contextlib.suppress(grpc.RpcError):  # NOT_FOUND, so far
                return list(
                    self.stub.ListScores(ListScoresRequest(trace_id=trace.id), timeout=5).scores
                )
            time.sleep(_POLL_S)
        raise SpanscoreError(f"the trace {trace.id} had no scores within {_TIMEOUT_S:.0f} s")

    def drain(self) -> None:
        """Wait until every score has left."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while any((state := self.state())["scores_to_export"].values()):
            if time.monotonic() > deadline_s:
                raise SpanscoreError(f"scores wait for: {state['scores_to_export']}")
            time.sleep(_POLL_S)

    def state(self) -> dict[str, Any]:
        """What spanscore's health endpoint says."""
        with urllib.request.urlopen(self.health, timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


@contextmanager
def running(
    processes: Processes,
    folder: Path,
    backend: Backend,
    sinks: Mapping[str, Any],
    judge: Mapping[str, Any] | None = None,
) -> Iterator[Line]:
    """A collector that sends to `backend` and a spanscore behind it, while the block runs."""
    otlp, scores = free_ports(2)
    ports = demo_server.Ports.free()
    _start_collector(processes, folder, backend, (otlp, scores, ports.grpc))
    settings = demo_server.configuration(folder, ports, judge, _grpc(scores))
    # slow machines
    settings["assemble"] |= {"complete_after": "5s", "idle_after": "6s", "session_idle_after": "8s"}
    # both forms are looked at
    exporters = settings["export"]["exporters"]
    for name in exporters:
        if name.startswith("otlp_grpc"):
            exporters[name]["evaluation_spans"] = True
    exporters.update(sinks)
    # a tracing UI takes spans only
    settings["export"]["emit"] = {"events": False, "metrics": False}
    with demo_server.running(folder, ports, settings) as stub:
        yield Line(_grpc(otlp), stub, f"http://127.0.0.1:{ports.health}/")


def collector_config(backend: Backend) -> dict[str, Any]:
    """The shipped configuration, with the lines changed that have to be for a tool that takes spans
    only.
    """
    config: dict[str, Any] = yaml.safe_load(
        (ROOT / "collector-config.yaml").read_text(encoding="utf-8")
    )
    kind, settings = backend.exporter(["traces"])
    del settings["signals"]  # spanscore's own; a collector has pipelines for that
    shipped = config["exporters"].pop("otlp_grpc/backend")
    config["exporters"][f"{kind}/backend"] = shipped | settings
    pipelines = config["service"]["pipelines"]
    pipelines["traces/backend"]["exporters"] = [f"{kind}/backend"]
    pipelines["logs/in"]["exporters"].remove("forward/backend")
    del pipelines["logs/backend"], pipelines["metrics/backend"]
    return config


def _start_collector(
    processes: Processes, folder: Path, backend: Backend, ports: tuple[int, int, int]
) -> None:
    path = folder / "collector.yaml"
    path.write_text(yaml.safe_dump(collector_config(backend), sort_keys=False), encoding="utf-8")
    health, http, telemetry = free_ports(3)
    otlp, scores, spanscore = ports
    environ = {
        "HEALTH_ENDPOINT": f"127.0.0.1:{health}",
        "QUEUE_DIRECTORY": str(folder / "queues"),
        "OTLP_GRPC_ENDPOINT": f"127.0.0.1:{otlp}",
        "OTLP_HTTP_ENDPOINT": f"127.0.0.1:{http}",
        "SCORES_ENDPOINT": f"127.0.0.1:{scores}",
        "SPANSCORE_ENDPOINT": f"127.0.0.1:{spanscore}",
        "TELEMETRY_PORT": str(telemetry),
    }
    processes.start("collector", [_collector(), f"--config={path}"], environ)
    processes.wait("collector", lambda: answers(f"http://127.0.0.1:{health}/"))


def _collector() -> str:
    script = ROOT / "tests/live/collector/build/build.sh"
    built = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        raise SpanscoreError("no collector, see the lines above; `make collector` builds it")
    return built.stdout.strip()


def _grpc(port: int) -> Backend:
    return Backend(f"http://127.0.0.1:{port}", "127.0.0.1", port, "grpc", secure=False, headers={})
