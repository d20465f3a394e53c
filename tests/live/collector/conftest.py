"""A real collector between an agent with the real SDK, a backend that records, and spanscore: a
process each.
"""

import base64
import contextlib
import os
import runpy
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
TESTS = ROOT / "tests"
# the model that the judge asks, and the ports
sys.path[:0] = [str(TESTS / "judged"), str(TESTS / "judge"), str(TESTS / "live")]
from reserved_ports import free_ports  # noqa: E402 - found by the path above

DEADLINE_S = runpy.run_path(str(HERE.parent / "conftest.py"))["DEADLINE_S"]

REQUESTS = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}


class Part:
    """One process of the pipeline, its output in a file."""

    def __init__(self, command, log, ready, environ=None):
        self._command = command
        self._log = log
        self._ready = ready
        self._environ = {**os.environ, **(environ or {})}
        self.process = None

    def start(self):
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environ
            )
        wait_for(self._is_up, lambda: self._log.read_text()[-4000:])
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        return self.process.wait(DEADLINE_S)

    def _is_up(self):
        assert self.process.poll() is None, self._log.read_text()[-4000:]
        return self._ready()


class Pipeline:
    """Agents -> collector -> backend, and spanscore where the configuration has it.

    Nothing is started yet.

    `ports` are where the collector takes what agents send, and what the shards of spanscore send
    back; `gated` puts a gate before the first shard; `environ` goes to the collector.
    """

    def __init__(self, folder, command, shards, ports, *, gated=False, environ=None):
        self.folder, self.shards = folder, shards
        self.otlp, self.scores = ports
        self.spanscore = shards[0]
        self.backend_port, self.health = free_ports(2)
        self.recorded, self.sent, self.gate_word = (
            folder / "backend",
            folder / "sent",
            folder / "gate",
        )
        for path in (self.recorded, self.sent):
            path.touch()
        self.backend = Part(
            [
                sys.executable,
                str(HERE / "recording_backend.py"),
                str(self.backend_port),
                str(self.recorded),
            ],
            folder / "backend.log",
            lambda: listens(self.backend_port),
        )
        self.gate = None
        behind = self.spanscore.grpc
        if gated:
            (behind,) = free_ports(1)
            self.pass_on("pass")
            self.gate = Part(
                [
                    sys.executable,
                    str(HERE / "gate.py"),
                    str(behind),
                    str(self.spanscore.grpc),
                    str(self.gate_word),
                ],
                folder / "gate.log",
                lambda: listens(behind),
            )
        self.collector = Part(
            command,
            folder / "collector.log",
            lambda: answers(self.health),
            self._environ(behind) | (environ or {}),
        )

    def _environ(self, spanscore_port):
        http, telemetry = free_ports(2)
        shards = {"SPANSCORE_HTTP_ENDPOINT": f"http://127.0.0.1:{self.spanscore.http}"}
        shards |= {
            f"SPANSCORE_{n}_ENDPOINT": f"127.0.0.1:{shard.grpc}"
            for n, shard in enumerate(self.shards)
        }
        return shards | {
            "HEALTH_ENDPOINT": f"127.0.0.1:{self.health}",
            "QUEUE_DIRECTORY": str(self.folder / "queues"),
            "OTLP_GRPC_ENDPOINT": f"127.0.0.1:{self.otlp}",
            "OTLP_HTTP_ENDPOINT": f"127.0.0.1:{http}",
            "SCORES_ENDPOINT": f"127.0.0.1:{self.scores}",
            "BACKEND_ENDPOINT": f"127.0.0.1:{self.backend_port}",
            "SPANSCORE_ENDPOINT": f"127.0.0.1:{spanscore_port}",
            "TELEMETRY_PORT": str(telemetry),
        }

    def start(self):
        for part in filter(None, (self.backend, self.gate, self.collector)):
            part.start()
        return self

    def pass_on(self, word):
        """What the gate does from now on: `pass`, `refuse` or `hold`."""
        aside = self.gate_word.with_suffix(".new")
        aside.write_text(word)
        aside.replace(self.gate_word)

    def agent(self, turns, *options):
        """An agent that runs `turns` turns, sends them all and ends."""
        command = [
            sys.executable,
            str(HERE / "agent.py"),
            f"127.0.0.1:{self.otlp}",
            str(turns),
            str(self.sent),
        ]
        return subprocess.Popen([*command, *options])

    def run_agent(self, turns, *options):
        assert self.agent(turns, *options).wait(DEADLINE_S) == 0

    def run_agent_whole(self, turns, *options):
        """The same where spanscore's clock stands still: it goes on as soon as spanscore has all
        spans.
        """
        self.run_agent(turns, *options)
        sent = len(self.sent_spans())
        self.spanscore.wait_until(
            lambda state: state["counters"].get("receiver_accepted_spans", 0) >= sent
        )
        self.spanscore.run_clock()

    def sent_spans(self):
        """What agents handed to their exporter and had acknowledged."""
        found = [
            ExportTraceServiceRequest.FromString(base64.b64decode(x))
            for x in self.sent.read_text().splitlines()
        ]
        return list(spans(found))

    def at_backend(self, signal):
        """The requests of a signal that the backend has, in their order; not the one that it is
        just writing.
        """
        whole, _, _ = self.recorded.read_text().rpartition("\n")
        lines = [line.split() for line in whole.splitlines()]
        return [
            REQUESTS[name].FromString(base64.b64decode(body))
            for name, body in lines
            if name == signal
        ]

    def backend_spans(self):
        """The agents' spans at the backend, and those of spanscore's scores."""
        found = list(spans(self.at_backend("traces")))
        return [x for x in found if not is_emitted(x)], [x for x in found if is_score(x)]

    def events(self):
        """The evaluation events at the backend, by their uid."""
        records = [
            record
            for request in self.at_backend("logs")
            for group in request.resource_logs
            for scoped in group.scope_logs
            for record in scoped.log_records
            if record.event_name == "gen_ai.evaluation.result"
        ]
        return Counter(attributes(x)["log.record.uid"] for x in records)

    def wait_for_scores(self, traces):
        """Until `traces` traces and their sessions were scored, and the backend has every score."""
        wait_for(
            lambda: len(self.scored_traces()) >= traces,
            lambda: str([x.state() for x in self.shards]),
        )
        for shard in self.shards:
            wait_for(lambda found=shard: sessions(found, "trace") == sessions(found, "session"))
            shard.wait_until_finished(0)
        wait_for(
            lambda: self.committed() <= self.scored_at_backend(),
            lambda: f"{len(self.committed())} scores",
        )

    def wait_for_spans(self):
        """Until the backend has every span that an agent had acknowledged."""
        wait_for(
            lambda: (
                {x.span_id for x in self.sent_spans()}
                <= {x.span_id for x in self.backend_spans()[0]}
            )
        )

    def committed(self):
        """The uids of all evaluations that spanscore has to export."""
        return {uid for shard in self.shards for uid in shard.committed()}

    def scored_traces(self):
        """The ids of the traces that were scored."""
        return {
            x.target.trace_id
            for shard in self.shards
            for x in shard.committed().values()
            if x.scope == "trace"
        }

    def scored_at_backend(self):
        """The uids of what the backend has both as a span and as an event."""
        return {x.span_id.hex() for x in self.backend_spans()[1]} & set(self.events())

    def collectors_log(self):
        """What the collector has said."""
        return (self.folder / "collector.log").read_text()

    def stop(self):
        for part in (self.collector, self.gate, self.backend):
            if part is not None and part.process is not None and part.process.poll() is None:
                part.kill()


def spans(requests):
    for request in requests:
        for group in request.resource_spans:
            for scoped in group.scope_spans:
                yield from scoped.spans


def attributes(item):
    return {
        x.key: getattr(x.value, x.value.WhichOneof("value") or "string_value")
        for x in item.attributes
    }


def sessions(server, scope):
    """The sessions of which a spanscore has evaluations of this scope."""
    return {
        x.session_id for x in server.evaluated() if x.scope == scope and x.session_id is not None
    }


def is_emitted(span):
    return "spanscore.emitted" in attributes(span)


def is_score(span):
    """Whether it is the span of one score, and not the one that sums up a trace."""
    return "gen_ai.evaluation.name" in attributes(span)


def listens(port):
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers(port):
    with contextlib.suppress(OSError):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=DEADLINE_S).status == 200
    return False


def wait_for(holds, what=lambda: ""):
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


@pytest.fixture(scope="session")
def collector():
    """The path of the collector that the tests run, built on first use."""
    built = subprocess.run(
        [str(HERE / "build" / "build.sh")], stdout=subprocess.PIPE, text=True, check=False
    )
    assert built.returncode == 0, "no collector: see the lines above"
    return Path(built.stdout.strip())


@pytest.fixture
def pipeline(tmp_path, collector, server, unjudged):
    """Call it with configuration files of the repository to get a pipeline that is not started yet.

    `settings` are those of spanscore, of which there are `shards`, and `exporter` those of the way
    back; `loop` has it send scores to the agents' port.
    """
    made = []

    def make(*configs, shards=1, gated=False, loop=False, environ=None, exporter=None, **settings):
        settings = {"evaluation": unjudged, **settings}
        folder = tmp_path / f"pipeline{len(made)}"
        folder.mkdir()
        ports = free_ports(2)
        sends = {"endpoint": f"127.0.0.1:{ports[0 if loop else 1]}", "tls": {"insecure": True}} | (
            exporter or {}
        )
        behind = [
            server(export={"exporters": {"otlp_grpc": sends}}, **settings) for _ in range(shards)
        ]
        command = [
            str(collector),
            *(f"--config={ROOT / x}" for x in configs or ["collector-config.yaml"]),
        ]
        made.append(Pipeline(folder, command, behind, ports, gated=gated, environ=environ))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def ports():
    """Call it to get so many free ports."""
    return free_ports


@pytest.fixture
def until():
    """Call it to wait until something holds."""
    return wait_for
