"""Spans per CPU second and peak memory of the server, beside a gRPC server that does nothing, in
one run.

    python bench/throughput.py [--traces 10000] [--in-flight 8]

bench/README.md says how to read the figures. Needs Linux (/proc).
"""

import argparse
import http.client
import json
import math
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import frames
from child import Child
from load import SPANS_PER_TRACE, TRACES_PER_SESSION, Load
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sending import send

HERE = Path(__file__).parent
POLL_S: Final = 0.2
QUIET_S: Final = 10.0
"""The sink has all once nothing has come for so long; longer than it takes a session to be
evaluated.
"""
STARTUP_S: Final = 60
STOP_S: Final = 60

RECEIVE = {"assemble": {"enabled": False}}
READ = {"assemble": {"complete_after": "2s"}, "evaluation": {"default_metrics": False}}
WAITS_S: Final = 7.0
"""`complete_after` and `session_idle_after` of `SCORE`."""

SCORE = {"assemble": {"complete_after": "2s", "session_idle_after": "5s"}}


@dataclass(frozen=True, slots=True)
class Figures:
    """What one server spent on the whole load."""

    what: str
    spans: int
    cpu_s: float
    sent_s: float
    peak_bytes: int
    refusals: Counter[str]
    scored_s: float
    """Until all traces and sessions were scored, less what is waited for them to be complete;
    without that, no time.
    """

    @property
    def spans_per_cpu_s(self) -> float:
        return self.spans / self.cpu_s


class Bench:
    """One load, replayed to one server after the other; what they write goes into `folder`."""

    def __init__(self, folder: Path, traces: int, in_flight: int) -> None:
        self._folder = folder
        self._traces = traces
        self._in_flight = in_flight
        self._load = folder / "load"
        self._scored_at_s = 0.0
        self._within_s = 120 + traces / 100
        with self._load.open("wb") as file:
            for body in Load(start_ns=time.time_ns()).requests(traces):
                file.write(frames.framed(body))

    def nothing(self) -> Figures:
        with self._null_server() as server:
            return self._measure("nothing", server, int(server.first_line()), settle=lambda: None)

    def receive(self) -> Figures:
        return self._spanscore("receive and journal", RECEIVE, settle=lambda _health: None)

    def read(self) -> Figures:
        return self._spanscore("+ assemble and read", READ, settle=self._wait_until_finished)

    def score(self, exported: Path, workers: int = 1) -> Figures:
        """The spans that are exported go into the file `exported`."""

        def settle(health: Health) -> None:
            self._wait_until_finished(health)
            health.wait_for(
                "sessions_evaluated", math.ceil(self._traces / TRACES_PER_SESSION), self._within_s
            )
            self._scored_at_s = time.monotonic()
            wait_until_quiet(exported)

        with self._null_server("--record", str(exported)) as sink:
            endpoint = f"127.0.0.1:{sink.first_line()}"
            exporter = {"endpoint": endpoint, "tls": {"insecure": True}, "compression": "none"}
            settings = SCORE | {
                "export": {"exporters": {"otlp_grpc": exporter}, "spans": "all"},
                "workers": workers,
            }
            what = "+ score and export" if workers == 1 else f"the same, {workers} workers"
            return self._spanscore(what, settings, settle)

    def _wait_until_finished(self, health: "Health") -> None:
        health.wait_for("traces_finished", self._traces, self._within_s)

    def _null_server(self, *arguments: str) -> Child:
        command = [sys.executable, str(HERE / "null_server.py"), *arguments]
        return Child(command, log=self._folder / "null_server.log")

    def _spanscore(
        self, what: str, settings: dict[str, Any], settle: Callable[["Health"], None]
    ) -> Figures:
        """Start a server with an empty folder of its own; `settle` returns when it has done its
        work.
        """
        folder = self._folder / what.replace(" ", "_")
        folder.mkdir()
        grpc_port, health_port = free_port(), free_port()
        ports = {"grpc": grpc_port, "http": 0, "health": health_port}
        everywhere = {
            "receive": {name: {"endpoint": f"127.0.0.1:{port}"} for name, port in ports.items()},
            "journal": {"path": str(folder / "journal.db")},
            "store": {"url": f"sqlite:///{folder}/store.db"},
            "embedding": {"provider": "ngrams"},
            "api": {"enabled": False},
        }
        config = folder / "config.yaml"
        config.write_text(json.dumps(everywhere | settings))  # JSON is YAML
        with Child(serve_command(config), log=folder / "server.log") as server:
            health = Health(health_port, server)
            health.wait_until_serving()
            figures = self._measure(what, server, grpc_port, settle=lambda: settle(health))
            server.stop(STOP_S)
        return figures

    def _measure(
        self, what: str, server: Child, port: int, *, settle: Callable[[], None]
    ) -> Figures:
        cpu_before_s, started_s = server.cpu_s(), time.monotonic()
        refusals = send(frames.read(self._load), port, in_flight=self._in_flight)
        sent_s = time.monotonic() - started_s
        settle()
        cpu_s = server.cpu_s() - cpu_before_s
        scored_s = self._scored_at_s - started_s - WAITS_S
        return Figures(
            what,
            self._traces * SPANS_PER_TRACE,
            cpu_s,
            sent_s,
            server.peak_bytes(),
            refusals,
            scored_s,
        )


class Health:
    """The health endpoint of a server under measurement."""

    def __init__(self, port: int, server: Child) -> None:
        self._port = port
        self._server = server

    def wait_until_serving(self) -> None:
        """Wait until the server receives and its worker processes run."""
        for _ in polls(STARTUP_S, "the server to start"):
            state = self._state()
            if state is not None and all(worker["pid"] for worker in state["workers"]):
                return

    def wait_for(self, counter: str, count: int, within_s: float) -> None:
        """Wait until `counter` has reached `count`.

        Raises TimeoutError when it does not in time.
        """
        for _ in polls(within_s, f"{counter} to reach {count}"):
            state = self._state()
            if state is not None and (state["counters"].get(counter) or 0) >= count:
                return

    def _state(self) -> dict[str, Any] | None:
        """What the health page has; None while the server does not listen.

        Raises RuntimeError when it has ended.
        """
        self._server.check_alive()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request("GET", "/")
            return dict(json.loads(connection.getresponse().read()))
        except ConnectionError:
            return None
        finally:
            connection.close()


def polls(within_s: float, what: str) -> Iterator[None]:
    """Yield again and again, with pauses. Raises TimeoutError when the time is over."""
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        yield
        time.sleep(POLL_S)
    raise TimeoutError(f"waited {within_s:.0f} s for {what}")


def wait_until_quiet(path: Path) -> None:
    """Wait until the file has not grown for a while."""
    size, since_s = -1, time.monotonic()
    while time.monotonic() - since_s < QUIET_S:
        if path.stat().st_size != size:
            size, since_s = path.stat().st_size, time.monotonic()
        time.sleep(POLL_S)


def serve_command(config: Path) -> list[str]:
    """The command that starts the server with a configuration."""
    return [str(Path(sys.executable).parent / "spanscore"), "serve", "-c", str(config)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def faults(load: Path, exported: Path) -> list[str]:
    """What is missing from, or twice in, the exported scores; prints how many there are of each
    metric.
    """
    sent = {span.trace_id for body in frames.read(load) for span in spans_of(body)}
    ids: Counter[bytes] = Counter()
    scores: Counter[tuple[str, bytes, bytes]] = Counter()
    for body in frames.read(exported):
        for span in spans_of(body):
            ids[span.span_id] += 1
            if ids[span.span_id] == 1 and metric_of(span):
                scores[metric_of(span), span.trace_id, span.parent_span_id] += 1
    of_metric = Counter(metric for metric, _, _ in scores)
    print("\n" + ", ".join(f"{metric} {count}" for metric, count in sorted(of_metric.items())))
    traces, sessions = len(sent), math.ceil(len(sent) / TRACES_PER_SESSION)
    found = [f"{len(sent - {trace_id for _, trace_id, _ in scores})} traces have no score"]
    found += [f"{sum(count > 1 for count in scores.values())} scores were made twice"]
    found += [f"{sum(count > 1 for count in ids.values())} spans were sent twice"]
    # All traces of the load are alike: a metric measures each, each but the first of a session, or
    # each session.
    found += [
        f"{count} scores of {metric} for {traces} traces in {sessions} sessions"
        for metric, count in of_metric.items()
        if count not in {traces, traces - sessions, sessions}
    ]
    return [fault for fault in found if not fault.startswith("0 ")]


def spans_of(body: bytes) -> Iterator[Any]:
    for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope_spans in resource_spans.scope_spans:
            yield from scope_spans.spans


def metric_of(span: Any) -> str:
    """The metric that a span has a score of; "" for one that sums a trace's verdicts up."""
    return next(
        (x.value.string_value for x in span.attributes if x.key == "gen_ai.evaluation.name"), ""
    )


def show(figures: Figures, nothing: Figures) -> None:
    refused = ", ".join(f"{count} x {code}" for code, count in figures.refusals.items()) or "none"
    print(
        f"{figures.what:<22}{figures.spans_per_cpu_s:>12,.0f}"
        f"{nothing.spans_per_cpu_s / figures.spans_per_cpu_s:>10.1f}"
        f"{figures.peak_bytes / 2**20:>10,.0f}{figures.sent_s:>10.1f}  {refused}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=int, default=10_000, help="of ten spans each")
    parser.add_argument(
        "--in-flight", type=int, default=8, help="requests of a hundred spans under way at once"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spanscore-bench-") as name:
        folder = Path(name)
        bench = Bench(folder, args.traces, args.in_flight)
        print(
            f"{'server':<22}{'spans/CPU s':>12}{'x nothing':>10}{'peak MiB':>10}{'sent in s':>10} "
            " sent back"
        )
        nothing = bench.nothing()
        show(nothing, nothing)
        show(bench.receive(), nothing)
        show(bench.read(), nothing)
        exported = folder / "exported"
        show(alone := bench.score(exported), nothing)
        found = faults(folder / "load", exported)
        with_workers = folder / "exported-with-workers"
        show(beside := bench.score(with_workers, workers=2), nothing)
        found += faults(folder / "load", with_workers)
        print(f"2 workers: {alone.scored_s / beside.scored_s:.2f} times the traces a second of one")
        print("; ".join(found) or "nothing lost, nothing scored twice")
        return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
