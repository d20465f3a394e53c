"""How long a trace that comes waits for its scores, alone and beside an evaluation run over stored
traces.

    .venv/bin/python bench/beside_run.py [--traces 20000] [--seconds 60] [--per-second 5]
        [--judge-ms 20]

A real server, and a judge of its own that answers after `--judge-ms`. Prints, in seconds from the
moment at which a trace was sent, when its score was in the file of scores, less
`assemble.complete_after`; and how many traces the run scored meanwhile. bench/README.md says how to
read the figures.
"""

import argparse
import math
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import grpc
from child import Child
from load import Load
from throughput import free_port
from yaml import safe_dump

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests" / name) for name in ("judge", "judged")]

from obliging_model import ObligingModel  # noqa: E402 - found by the line above
from scripted_server import Reply, ScriptedServer  # noqa: E402 - as above

from spanscore.api.v1 import run_service_pb2 as pb  # noqa: E402 - as above
from spanscore.api.v1.run_service_pb2_grpc import RunServiceStub  # noqa: E402 - as above
from spanscore.store.config import Config  # noqa: E402 - as above
from spanscore.store.store import Store, StoredTrace  # noqa: E402 - as above
from spanscore.testing.traces import agent_trace  # noqa: E402 - as above

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
METRIC = "task_completion"
COMPLETE_AFTER_S = 1.0
LAST_S = 60.0


class SlowModel(ObligingModel):
    """Answers after a time."""

    def __init__(self, delay_s: float) -> None:
        super().__init__()
        self._delay_s = delay_s

    def __call__(self, request: dict[str, Any]) -> Reply:
        """The completion for a request's body."""
        found = super().__call__(request)
        return Reply(found.body, found.status, found.headers, self._delay_s)


class Live:
    """Traces that come at a pace, and when each had its score."""

    def __init__(
        self,
        port: int,
        scores: Path,
        *,
        metric: str = METRIC,
        complete_after_s: float = COMPLETE_AFTER_S,
    ) -> None:
        self._export = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary(EXPORT)
        self._scores = scores
        self._metric = metric.encode()
        self._complete_after_s = complete_after_s
        self._sent_s: dict[str, float] = {}
        self._waited_s: list[float] = []
        self._offset = 0

    def run(self, seconds: float, per_second: float, seed: int) -> list[float]:
        """Send for so long; the seconds that each trace waited for its score, in order."""
        self._sent_s, self._waited_s = {}, []
        count = round(seconds * per_second)
        sending = threading.Thread(target=self._send, args=(count, per_second, seed))
        sending.start()
        end_s = time.monotonic() + seconds + LAST_S
        while len(self._waited_s) < count and time.monotonic() < end_s:
            self._look()
            time.sleep(0.01)
        sending.join()
        return sorted(self._waited_s) + [math.inf] * (count - len(self._waited_s))

    def _send(self, count: int, per_second: float, seed: int) -> None:
        began_s = time.monotonic()
        for number, body in enumerate(one_by_one(count, seed)):
            time.sleep(max(0.0, began_s + number / per_second - time.monotonic()))
            self._sent_s[trace_id_of(body)] = time.monotonic()
            self._export(body, timeout=30)

    def _look(self) -> None:
        if not self._scores.exists():
            return
        with self._scores.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                if self._metric in line:
                    self._note(line)

    def _note(self, line: bytes) -> None:
        now_s = time.monotonic()
        for id_ in [x for x in list(self._sent_s) if x.encode() in line]:
            self._waited_s.append(now_s - self._sent_s.pop(id_) - self._complete_after_s)


def one_by_one(count: int, seed: int) -> list[bytes]:
    """Requests of one trace each."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: PLC0415 - beside its use

    whole = ExportTraceServiceRequest()
    for body in Load(start_ns=time.time_ns() - 10**10, seed=seed).requests(count):
        whole.MergeFromString(body)
    by_trace: dict[bytes, ExportTraceServiceRequest] = {}
    for group in whole.resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                if span.trace_id not in by_trace:
                    request = by_trace[span.trace_id] = ExportTraceServiceRequest()
                    request.resource_spans.add(resource=group.resource).scope_spans.add(
                        scope=scoped.scope
                    )
                by_trace[span.trace_id].resource_spans[0].scope_spans[0].spans.append(span)
    return [x.SerializeToString() for x in by_trace.values()]


def trace_id_of(body: bytes) -> str:
    """The trace id of a request of one trace."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: PLC0415 - as above

    request = ExportTraceServiceRequest.FromString(body)
    found: str = request.resource_spans[0].scope_spans[0].spans[0].trace_id.hex()
    return found


def configured(folder: Path, judge: str) -> tuple[Path, int, int]:
    """A configuration in `folder`; the port of the receiver, and that of the API."""
    receive, api = free_port(), free_port()
    settings = {
        "receive": {
            "grpc": {"endpoint": f"127.0.0.1:{receive}"},
            "http": {"endpoint": "127.0.0.1:0"},
            "health": {"endpoint": "127.0.0.1:0"},
        },
        "api": {"endpoint": f"127.0.0.1:{api}"},
        "journal": {"path": str(folder / "journal.db")},
        "store": {"url": f"sqlite:///{folder}/store.db"},
        "assemble": {"complete_after": f"{COMPLETE_AFTER_S:g}s"},
        "judge": {
            "model": "openai/scripted",
            "api_base": judge,
            "api_key": "k",
            "try_at_start": False,
        },
        "evaluation": {"default_metrics": False, "metrics": {METRIC: {}}},
        "export": {
            "exporters": {"otlp_json_file": {"path": str(folder / "scores.jsonl")}},
            "spans": "all",
        },
    }
    file = folder / "config.yaml"
    file.write_text(safe_dump(settings))
    return file, receive, api


def fill(folder: Path, count: int) -> None:
    """A store with so many traces."""
    store = Store.open(Config(url=f"sqlite:///{folder}/store.db"))
    for start in range(0, count, 1000):
        some = [
            agent_trace(user_input=f"question {n}", final_output="done")
            for n in range(start, start + 1000)
        ]
        store.commit([StoredTrace(x, 1, "digest") for x in some], [])
    store.close()


def shown(waited_s: list[float]) -> str:
    """Quantiles of sorted seconds."""
    at = [waited_s[math.ceil(len(waited_s) * x) - 1] for x in (0.5, 0.95, 0.99, 1.0)]
    return f"{len(waited_s):>6}" + "".join(f"{x:>8.2f}" for x in at)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--per-second", type=float, default=5)
    parser.add_argument("--judge-ms", type=float, default=20)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        ScriptedServer(SlowModel(args.judge_ms / 1000)) as judge,
    ):
        folder = Path(name)
        file, receive, api = configured(folder, judge.url)
        fill(folder, args.traces)
        with Child(
            [sys.executable, "-m", "spanscore.cli.main", "serve", "-c", str(file)],
            log=folder / "log",
        ) as server:
            service = RunServiceStub(grpc.insecure_channel(f"127.0.0.1:{api}"))
            service.ListRuns(pb.ListRunsRequest(), wait_for_ready=True, timeout=60)
            live = Live(receive, folder / "scores.jsonl")
            live.run(5, args.per_second, seed=1)  # imports litellm
            print(
                f"{'':12}{'traces':>6}{'p50 s':>8}{'p95 s':>8}{'p99 s':>8}{'max s':>8}", flush=True
            )
            print(
                f"{'alone':12}{shown(live.run(args.seconds, args.per_second, seed=2))}", flush=True
            )
            created = pb.Run(measure=pb.RunMeasure(metrics=[METRIC]))
            run = service.CreateRun(pb.CreateRunRequest(run=created))
            print(
                f"{'beside a run':12}{shown(live.run(args.seconds, args.per_second, seed=3))}",
                flush=True,
            )
            progress = service.GetRun(pb.GetRunRequest(name=run.name)).progress
            print(
                f"the run scored {progress.done} of {progress.items} traces meanwhile, with"
                f" {progress.failed} failed"
            )
            server.check_alive()


if __name__ == "__main__":
    main()
