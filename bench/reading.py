"""Spans per CPU second of reading alone: bytes -> messages -> spans -> agent traces.

python bench/reading.py [--traces 1000] [--before COMMIT] [--profile]

With --before the sources of an earlier commit and today's read the same load in turns, each in a process of its own.
"""

import argparse
import cProfile
import io
import json
import os
import pstats
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

from load import SPANS_PER_TRACE, Load
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.otlp import decode
from spanscore.rebuild import rebuild_all

ResultT = TypeVar("ResultT")
Rates: TypeAlias = Mapping[str, float]
"""Spans per CPU second of each step, and of all."""

START_NS = 1_750_000_000 * 10**9
ROUNDS = 5
"""Of which the best counts: whatever else the machine does only makes one slower."""

PROJECT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=1000, help="of ten spans each")
    parser.add_argument("--before", metavar="COMMIT", help="compare with the sources of an earlier commit")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    parser.add_argument("--json", action="store_true", help="print the rates as JSON")
    args = parser.parse_args()
    if args.before:
        compare(args.before, args.traces)
    elif args.json:
        print(json.dumps(rates(args.traces)))
    else:
        profile = cProfile.Profile() if args.profile else None
        for what, rate in rates(args.traces, profile).items():
            print(f"{what:<20}{rate:>12,.0f} spans/CPU s")
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def rates(traces: int, profile: cProfile.Profile | None = None) -> Rates:
    """How fast this process reads the load, once it is warm."""
    bodies = list(Load(start_ns=START_NS).requests(traces))
    rebuild_all([span for body in bodies[:10] for span in decode.spans(ExportTraceServiceRequest.FromString(body))], [])
    if profile is not None:
        profile.enable()
    messages, parse_s = timed(lambda: [ExportTraceServiceRequest.FromString(body) for body in bodies])
    spans, decode_s = timed(lambda: [span for message in messages for span in decode.spans(message)])
    _, rebuild_s = timed(lambda: rebuild_all(spans, []))
    if profile is not None:
        profile.disable()
    taken_s = {"protobuf": parse_s, "decode": decode_s, "dialects and turns": rebuild_s}
    taken_s["all"] = sum(taken_s.values())
    return {what: traces * SPANS_PER_TRACE / cpu_s for what, cpu_s in taken_s.items()}


def timed(work: Callable[[], ResultT]) -> tuple[ResultT, float]:
    """The result, and the seconds of CPU that it took."""
    before_s = time.process_time()
    result = work()
    return result, time.process_time() - before_s


def compare(commit: str, traces: int) -> None:
    """Print the best rates of both, and how they compare."""
    command = ["git", "-C", PROJECT, "archive", commit, "src"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        sys.exit(f"bench/reading.py: no sources of {commit}: {archive.stderr.decode().strip()}")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as sources:
            sources.extractall(folder, filter="data")
        trees = Path(folder) / "src", PROJECT / "src"
        found = [[rates_of(tree, traces) for tree in trees] for _ in range(ROUNDS)]
    print(f"{'spans/CPU s':<20}{commit[:12]:>12}{'now':>12}")
    for what in found[0][0]:
        before, now = (max(each[at][what] for each in found) for at in range(len(trees)))
        print(f"{what:<20}{before:>12,.0f}{now:>12,.0f}{now / before:>8.2f}")


def rates_of(tree: Path, traces: int) -> Rates:
    """How fast the sources in `tree` read, in a process of their own."""
    command = [sys.executable, __file__, "--json", "--traces", str(traces)]
    ran = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(tree)}, stdout=subprocess.PIPE, check=True)
    read: Rates = json.loads(ran.stdout)
    return read


if __name__ == "__main__":
    main()
