"""The real server as a process of its own, and recordings to send to it."""

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.store.config import Config
from spanscore.store.store import Store

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
# the model that a judge asks, and the ports
sys.path[:0] = [str(HERE.parent / "judged"), str(HERE.parent / "judge"), str(HERE)]
from mould import MOULD  # noqa: E402 - found by the path above
from reserved_ports import free_ports  # noqa: E402 - likewise

SUMMARIES = ("spanscore: ", "spanscore session: ")
DEADLINE_S = 300
"""For whatever a test waits for: no machine is as slow, and nothing waits longer than it must."""


class Recording:
    """A golden recording: its requests, and the AgentTraces that a file of it gives."""

    def __init__(self, case):
        folder = GOLDEN / case
        self.traces = ExportTraceServiceRequest.FromString(
            gzip.decompress((folder / "traces.pb.gz").read_bytes())
        )
        logs = folder / "logs.pb.gz"
        self.logs = (
            ExportLogsServiceRequest.FromString(gzip.decompress(logs.read_bytes()))
            if logs.exists()
            else None
        )
        self.expected = json.loads((folder / "expected.json").read_text())

    def spans_one_by_one(self):
        """Each span as a request of its own."""
        for group in self.traces.resource_spans:
            for scoped in group.scope_spans:
                for span in scoped.spans:
                    request = ExportTraceServiceRequest()
                    alone = request.resource_spans.add(resource=group.resource)
                    alone.scope_spans.add(scope=scoped.scope, spans=[span])
                    yield request

    def copies(self, count):
        """The spans one by one, `count` times, each time under other trace ids and sessions,
        shuffled.
        """
        requests = []
        for number in range(count):
            salt = number.to_bytes(2, "big")
            for request in self.spans_one_by_one():
                span = request.resource_spans[0].scope_spans[0].spans[0]
                span.trace_id = span.trace_id[:-2] + salt
                for attribute in span.attributes:
                    if attribute.key in {"session.id", "gen_ai.conversation.id"}:
                        attribute.value.string_value += f"-{number}"
                requests.append(request)
        random.Random(3).shuffle(requests)
        return requests


class RunningServer:
    """`spanscore serve` with short waits, its data in `folder`, its scores in a file there."""

    def __init__(self, folder, **settings):
        self.folder = folder
        self.grpc, self.http, self.health, self.api = free_ports(4)
        self.scores = folder / "scores.jsonl"
        config = {
            "receive": {
                "grpc": {"endpoint": f"127.0.0.1:{self.grpc}"},
                "http": {"endpoint": f"127.0.0.1:{self.http}"},
                "health": {"endpoint": f"127.0.0.1:{self.health}"},
            },
            "api": {"endpoint": f"127.0.0.1:{self.api}"},
            "journal": {"path": str(folder / "journal.db")},
            "store": {"url": f"sqlite:///{folder}/store.db"},
            "assemble": {
                "complete_after": "700ms",
                "idle_after": "700ms",
                "session_idle_after": "1s",
            },
            "embedding": {"provider": "ngrams"},
            "shutdown_timeout": "100s",
            "export": {"exporters": {"otlp_json_file": {"path": str(self.scores)}}, "spans": "all"},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(laid_over(config, settings)))
        self.process = None
        self.program = None
        self.is_forked = True
        self.is_judged = "judge" in settings

    def start(self):
        self.process = self._started("serve", out="log", err="log")
        self.wait_until(lambda _: True)
        return self

    def run(self, command="serve", *arguments):
        """Run a command with its configuration to the end, such as a server that does not start."""
        for name in ("out", "err"):
            (self.folder / name).write_text("")
        code = self._started(command, *arguments, out="out", err="err").wait(DEADLINE_S)
        out, err = ((self.folder / name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess([command, *arguments], code, out, err)

    def _started(self, command, *arguments, out, err):
        words = [command, "-c", str(self.folder / "config.yaml"), *arguments]
        environment = dict(os.environ)
        if self.is_forked and not environment.get("PYTHONPATH"):
            return MOULD.start(
                self.program,
                words,
                environment,
                self.folder / out,
                self.folder / err,
                is_judged=self.is_judged,
            )
        program = [self.program] if self.program else ["-m", "spanscore.cli.main"]
        with (self.folder / out).open("ab") as stdout, (self.folder / err).open("ab") as stderr:
            return subprocess.Popen(
                [sys.executable, *program, *words], stdout=stdout, stderr=stderr, env=environment
            )

    def stop_clock(self):
        """Have its time stand still, so that nothing in it grows old; call it first before
        `start`.
        """
        if self.process is None:
            self.program = str(HERE / "clocked.py")
        self._set_clock(self._shown_ns())
        return self

    def pass_time(self, seconds):
        """Put its clock on, which stands still and goes on doing so."""
        self._set_clock(self._shown_ns() + round(seconds * 1e9))

    def run_clock(self):
        """Have its time go on from where it stands."""
        self._set_clock(self._shown_ns(), time.time_ns())

    def _set_clock(self, *said_ns):
        aside = self.folder / "clock.new"
        aside.write_text(" ".join(map(str, said_ns)))
        aside.replace(self.folder / "clock")

    def _shown_ns(self):
        clock = self.folder / "clock"
        if not clock.exists():
            return time.time_ns()
        shown_ns, *since_ns = map(int, clock.read_text().split())
        return shown_ns + (time.time_ns() - since_ns[0] if since_ns else 0)

    def state(self):
        """What the health endpoint says."""
        found = []
        self.wait_until(lambda state: not found.append(state))
        return found[0]

    def _asked(self):
        """What the health endpoint says; None where it does not answer."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.health}/", timeout=DEADLINE_S
            ) as answer:
                return json.load(answer)
        # it says what it is doing while it takes no requests, too
        except urllib.error.HTTPError as refused:
            return json.load(refused)
        except OSError:
            return None

    def wait_until(self, holds):
        """Poll the health endpoint until `holds` of its answer, which is JSON."""
        deadline = time.monotonic() + DEADLINE_S
        while (state := self._asked()) is None or not holds(state):
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, (
                f"still {state}\n{(self.folder / 'log').read_text()}"
            )
            time.sleep(0.05)

    def wait_until_finished(self, traces):
        """Until `traces` traces were evaluated, all sessions too, and every score has left."""

        def finished(state):
            if state["counters"].get("traces_finished", 0) < traces:
                return False
            waiting = sum(
                state[x]
                for x in ("open_traces", "waiting_traces", "waiting_parts", "open_sessions")
            )
            return not waiting and not any(state["scores_to_export"].values())

        self.wait_until(finished)

    def stop(self):
        """End it as a supervisor does; returns its exit code."""
        self.process.terminate()
        return self.process.wait(DEADLINE_S)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def agent_traces(self, ids):
        store = Store.open(Config(url=f"sqlite:///{self.folder}/store.db"))
        found = [store.trace(trace_id) for trace_id in ids]
        store.close()
        return [trace.to_json() if trace else None for trace in found]

    def evaluated(self):
        """All evaluations in its store."""
        store = Store.open(Config(url=f"sqlite:///{self.folder}/store.db"))
        found = [x for _, x in store.outbox(0, 100_000)]
        store.close()
        return found

    def committed(self):
        """All evaluations in its store that it exports, by their uid."""
        return {x.uid: x for x in self.evaluated() if x.is_shown}

    def exported(self, kind):
        """The exported `spans`, but those that sum up a trace, or `logRecords`, in the order of the
        file.
        """
        found = []
        for line in self.scores.read_text().splitlines():
            for group in json.loads(line).get(
                {"spans": "resourceSpans", "logRecords": "resourceLogs"}[kind], []
            ):
                for scoped in group.get("scopeSpans", group.get("scopeLogs")):
                    found += [
                        x for x in scoped[kind] if not x.get("name", "").startswith(SUMMARIES)
                    ]
        return found


def laid_over(config, settings):
    """`config` with `settings`, key by key; exporters are those of `settings` alone.

    There is a span for each score unless `settings` say otherwise, so that tests can count them.
    """
    if "export" in settings:
        settings = settings | {"export": {"spans": "all", **settings["export"]}}
    deep = {
        k: v
        for k, v in settings.items()
        if k != "export" and isinstance(v, dict) and isinstance(config.get(k), dict)
    }
    return config | settings | {key: laid_over(config[key], value) for key, value in deep.items()}


@pytest.fixture(scope="session")
def unjudged():
    """What to measure where a test counts scores and there is no judge."""
    measured = {"coherence": {"threshold": 0.15}, "loop_detection": {}, "agent_reliability": {}}
    return {"default_metrics": False, "metrics": measured}


@pytest.fixture(scope="session")
def recording():
    return Recording


@contextlib.contextmanager
def making_servers(path):
    """Makes servers with their folders in `path`, and kills them at the end."""
    made = []

    def make(**settings):
        folder = path / str(len(made))
        folder.mkdir()
        made.append(RunningServer(folder, **settings))
        return made[-1]

    yield make
    for one in made:
        if one.process is not None and one.process.poll() is None:
            one.kill()


@pytest.fixture
def server(tmp_path):
    """Call it with settings to get a server that is not started yet; it is killed at the end."""
    with making_servers(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """As `server`, for one that all tests of a module share."""
    with making_servers(tmp_path_factory.mktemp("servers")) as make:
        yield make
