"""What agents notice of spanscore: a collector with the branch of the drop-in beside the same
collector without it.

    python bench/collector.py [--traces 2000] [--spans-per-s 2000] [--in-flight 8] [--rounds 3]

bench/README.md says how to read the figures. Needs Linux (/proc), and Go to build the collector
once.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import frames
import grpc
import yaml
from child import Child
from load import SPANS_PER_TRACE, TRACES_PER_REQUEST, Load
from throughput import Health, free_port, polls

HERE = Path(__file__).parent
ROOT = HERE.parent
SPANS_PER_REQUEST: Final = SPANS_PER_TRACE * TRACES_PER_REQUEST
WITHIN_S: Final = 300
WITHOUT, TO_NOTHING, WITH = "without the branch", "branch to nothing", "branch to spanscore"

_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@dataclass(frozen=True, slots=True)
class Figures:
    """What agents noticed of one load: seconds each call took, and how long it was until the last
    was answered.
    """

    calls_s: Sequence[float]
    took_s: float
    refused: int

    @property
    def spans_per_s(self) -> float:
        return len(self.calls_s) * SPANS_PER_REQUEST / self.took_s

    def percentile_ms(self, percent: int) -> float:
        return 1000 * statistics.quantiles(self.calls_s, n=100)[percent - 1]


def configuration(*, branch: bool) -> dict[str, Any]:
    """The drop-in; without the `branch`, all that leads to spanscore is left out."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "collector-config.yaml").read_text())
    if not branch:
        del config["connectors"]["forward/spanscore"], config["exporters"]["otlp_grpc/spanscore"]
        pipelines = config["service"]["pipelines"]
        for name in [x for x in pipelines if x.endswith("/spanscore")]:
            del pipelines[name]
        for signal in ("traces", "logs"):
            pipelines[f"{signal}/in"]["exporters"] = ["forward/backend"]
    return config


class Bench:
    """One load, replayed to collectors that are started for it with everything behind them."""

    def __init__(self, folder: Path, collector: str, traces: int, in_flight: int) -> None:
        self._folder = folder
        self._collector = collector
        self._in_flight = in_flight
        self._bodies = list(Load(start_ns=time.time_ns()).requests(traces))
        self._runs = 0

    def measure(self, case: str, *, spans_per_s: float | None) -> Figures:
        """Send the load at this pace, or as fast as it is taken, and wait until the backend has all
        of it.

        Raises RuntimeError where it has not, or the collector gave something up.
        """
        self._runs += 1
        folder = self._folder / str(self._runs)
        folder.mkdir()
        with self._running(folder, case) as port:
            figures = send(self._bodies, port, in_flight=self._in_flight, spans_per_s=spans_per_s)
            self._wait_for_backend(folder / "backend")
        if "Dropping data" in (folder / "collector.log").read_text():
            raise RuntimeError(f"the collector gave something up: see {folder}/collector.log")
        return figures

    @contextmanager
    def _running(self, folder: Path, case: str) -> Iterator[int]:
        """A collector, a backend that records, and what the branch leads to, if any; gives the port
        for agents.
        """
        ports = {
            name: free_port()
            for name in ("otlp", "http", "scores", "health", "telemetry", "spanscore")
        }
        with ExitStack() as stack:
            command = [
                sys.executable,
                str(HERE / "null_server.py"),
                "--record",
                str(folder / "backend"),
            ]
            backend = stack.enter_context(Child(command, log=folder / "backend.log")).first_line()
            if case == WITH:
                self._start_spanscore(stack, folder, ports["spanscore"], ports["scores"])
            elif case == TO_NOTHING:
                nothing = Child(
                    [sys.executable, str(HERE / "null_server.py")], log=folder / "nothing.log"
                )
                ports["spanscore"] = int(stack.enter_context(nothing).first_line())
            config = folder / "collector.yaml"
            config.write_text(yaml.safe_dump(configuration(branch=case != WITHOUT)))
            os.environ |= {
                "OTLP_GRPC_ENDPOINT": f"127.0.0.1:{ports['otlp']}",
                "OTLP_HTTP_ENDPOINT": f"127.0.0.1:{ports['http']}",
                "SCORES_ENDPOINT": f"127.0.0.1:{ports['scores']}",
                "HEALTH_ENDPOINT": f"127.0.0.1:{ports['health']}",
                "TELEMETRY_PORT": str(ports["telemetry"]),
                "SPANSCORE_ENDPOINT": f"127.0.0.1:{ports['spanscore']}",
                "BACKEND_ENDPOINT": f"127.0.0.1:{backend}",
                "QUEUE_DIRECTORY": str(folder / "queues"),
            }
            collector = stack.enter_context(
                Child([self._collector, "--config", str(config)], log=folder / "collector.log")
            )
            for _ in polls(WITHIN_S, "the collector to start"):
                collector.check_alive()
                if "Everything is ready" in (folder / "collector.log").read_text():
                    break
            yield ports["otlp"]

    def _start_spanscore(self, stack: ExitStack, folder: Path, port: int, scores: int) -> None:
        health_port = free_port()
        exporter = {"endpoint": f"127.0.0.1:{scores}", "tls": {"insecure": True}}
        settings = {
            "receive": {
                "grpc": {"endpoint": f"127.0.0.1:{port}"},
                "http": {"endpoint": "127.0.0.1:0"},
                "health": {"endpoint": f"127.0.0.1:{health_port}"},
            },
            "journal": {"path": str(folder / "journal.db")},
            "store": {"url": f"sqlite:///{folder}/store.db"},
            "embedding": {"provider": "ngrams"},
            "export": {"exporters": {"otlp_grpc": exporter}},
            "api": {"enabled": False},
        }
        config = folder / "spanscore.yaml"
        config.write_text(json.dumps(settings))  # JSON is YAML
        command = [str(Path(sys.executable).parent / "spanscore"), "serve", "-c", str(config)]
        server = stack.enter_context(Child(command, log=folder / "spanscore.log"))
        Health(health_port, server).wait_until_serving()

    def _wait_for_backend(self, recorded: Path) -> None:
        """Wait until the agents' bytes are all there; what comes of scores only adds to them."""
        sent = sum(map(len, self._bodies))
        for _ in polls(WITHIN_S, "the backend to have everything"):
            if sum(map(len, frames.read(recorded))) >= sent:
                return


def send(
    bodies: Sequence[bytes], port: int, *, in_flight: int, spans_per_s: float | None
) -> Figures:
    """Send all, each call timed from when it was due: who waits for a slow call is late for those
    after it.
    """
    channel = grpc.insecure_channel(
        f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", -1)]
    )
    grpc.channel_ready_future(channel).result(timeout=30)
    export = channel.unary_unary(_EXPORT)
    waiting, lock = iter(enumerate(bodies)), threading.Lock()
    calls_s: list[float] = []
    refusals: list[int] = []
    begun_s = time.perf_counter()

    def work() -> None:
        while True:
            with lock:
                number, body = next(waiting, (0, None))
            if body is None:
                return
            due_s = time.perf_counter()
            if spans_per_s:
                due_s = begun_s + number * SPANS_PER_REQUEST / spans_per_s
                time.sleep(max(0.0, due_s - time.perf_counter()))
            refusals.append(send_one(export, body))
            calls_s.append(time.perf_counter() - due_s)

    threads = [threading.Thread(target=work) for _ in range(in_flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.perf_counter() - begun_s
    channel.close()
    if len(calls_s) < len(bodies):
        raise RuntimeError("a call was refused for good: see above")
    return Figures(calls_s, took_s, sum(refusals))


def send_one(export: grpc.UnaryUnaryMultiCallable, body: bytes) -> int:
    """Send until it is taken; how often it was sent back.

    Raises grpc.RpcError where it is refused for good.
    """
    refused = 0
    while True:
        try:
            export(body, timeout=60)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            refused += 1
            time.sleep(0.1)
        else:
            return refused


def show(what: str, rounds: dict[str, list[Figures]]) -> None:
    """The medians over the rounds, and what they are of those without the branch."""
    columns = {
        "spans/s": lambda x: x.spans_per_s,
        "p50 ms": lambda x: x.percentile_ms(50),
        "p99 ms": lambda x: x.percentile_ms(99),
        "sent back": lambda x: float(x.refused),
    }
    print(f"\n{what:<27}" + "".join(f"{name:>12}" for name in columns))
    medians = {
        case: [statistics.median(map(measure, figures)) for measure in columns.values()]
        for case, figures in rounds.items()
    }
    for case, values in medians.items():
        print(f"{case:<27}" + "".join(f"{value:>12,.1f}" for value in values))
    for case in (TO_NOTHING, WITH):
        ratios = [
            a / b if b else float(a == b)
            for a, b in zip(medians[case], medians[WITHOUT], strict=True)
        ]
        print(
            f"{'ratio, ' + case:<27}" + "".join(f"{ratio:>12.2f}" for ratio in ratios), flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=int, default=2000, help="of ten spans each")
    parser.add_argument(
        "--spans-per-s", type=float, default=2000, help="the pace of the paced load"
    )
    parser.add_argument(
        "--in-flight", type=int, default=8, help="requests of a hundred spans under way at once"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each, by turns")
    args = parser.parse_args()
    build = ROOT / "tests/live/collector/build/build.sh"
    collector = subprocess.run(
        [str(build)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="spanscore-bench-") as name:
        bench = Bench(Path(name), collector, args.traces, args.in_flight)
        for what, pace in (
            (f"{args.spans_per_s:,.0f} spans/s", args.spans_per_s),
            ("as fast as taken", None),
        ):
            rounds: dict[str, list[Figures]] = {WITHOUT: [], TO_NOTHING: [], WITH: []}
            for _ in range(args.rounds):
                for case, figures in rounds.items():
                    figures.append(bench.measure(case, spans_per_s=pace))
            show(what, rounds)


if __name__ == "__main__":
    main()
