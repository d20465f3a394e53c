"""Traces a second of `spanscore eval` in one process and in all workers, one after the other, on
the same file.

python bench/eval.py [--traces 5000] [--workers N]

CPU and peak memory are those of the command and, for the peak, of the largest single process of it.
"""

import argparse
import base64
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict
from load import Load
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.config import available_cpus

START_NS = 1_750_000_000 * 10**9
IDS = frozenset({"traceId", "spanId", "parentSpanId"})


class Run(NamedTuple):
    wall_s: float
    cpu_s: float
    peak_mib: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=int, default=5000, help="of ten spans each")
    parser.add_argument("--workers", type=int, default=available_cpus())
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "traces.jsonl"
        write(file, args.traces)
        print(
            f"{args.traces:,} traces, {file.stat().st_size / 2**20:.0f} MiB; load"
            f" {os.getloadavg()[0]:.1f}"
        )
        print(f"{'workers':>8}{'traces/s':>10}{'CPU s':>8}{'peak MiB':>10}")
        for workers in (1, args.workers):
            run = measured(file, workers)
            traces_per_s = args.traces / run.wall_s
            print(f"{workers:>8}{traces_per_s:>10,.0f}{run.cpu_s:>8.1f}{run.peak_mib:>10.0f}")


def write(file: Path, traces: int) -> None:
    """A line for each request, as the collector's file exporter writes it."""
    with file.open("w") as lines:
        for body in Load(start_ns=START_NS).requests(traces):
            request = MessageToDict(ExportTraceServiceRequest.FromString(body))
            lines.write(f"{json.dumps(with_hex_ids(request))}\n")


def with_hex_ids(item: Any) -> Any:
    if isinstance(item, list):
        return [with_hex_ids(x) for x in item]
    if not isinstance(item, dict):
        return item
    return {
        key: base64.b64decode(x).hex() if key in IDS else with_hex_ids(x) for key, x in item.items()
    }


def measured(file: Path, workers: int) -> Run:
    """A run, in a process of its own that measures its children."""
    command = [sys.executable, __file__, "--of-one", str(file), str(workers)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return Run(*json.loads(found.stdout))


def of_one(file: str, workers: str) -> None:
    began_s = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "spanscore.cli.main",
        "eval",
        "--jsonl",
        "--workers",
        workers,
        file,
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        json.dumps(
            Run(time.perf_counter() - began_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
        )
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--of-one"]:
        of_one(*sys.argv[2:])
    else:
        main()
