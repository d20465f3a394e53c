"""Spans per CPU second of reading alone: bytes -> messages -> spans -> agent traces.

python bench/reading.py [--traces 1000] [--before COMMIT] [--profile]

It reads the bench's own load, then the recordings of ten conventions, each copied under new trace
and span ids to half as many spans as the load has. With --before the sources of an earlier commit
and today's read the same in turns, each in a process of its own.
"""

import argparse
import cProfile
import gzip
import json
import pstats
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import TypeAlias, TypeVar

from comparing import compare
from load import SPANS_PER_TRACE, Load
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.otlp import codec
from spanscore.otlp.signal import ExportLogsServiceRequest
from spanscore.rebuild import rebuild_all

ResultT = TypeVar("ResultT")
Rates: TypeAlias = Mapping[str, float]
"""Spans per CPU second of each step, of all, and of all in each recording."""

START_NS = 1_750_000_000 * 10**9

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
RECORDINGS = (
    "google_adk/desk-transfer",
    "langfuse/shop-langchain",
    "mastra/shop-otel-exporter",
    "openai_agents/desk",
    "openinference/desk-langgraph-supervisor",
    "openllmetry/langgraph",
    "pydantic_ai/openai",
    "semconv/shop-hand-written-js",
    "strands/shop",
    "vercel_ai/shop-version-7",
)
"""The golden cases that are read, one a convention."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=int, default=1000, help="of ten spans each")
    parser.add_argument(
        "--before", metavar="COMMIT", help="compare with the sources of an earlier commit"
    )
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    parser.add_argument("--json", action="store_true", help="print the rates as JSON")
    args = parser.parse_args()
    if args.before:
        ratios = compare([__file__], args.before, args.traces, "spans/CPU s")
        found = median(ratios[name] for name in RECORDINGS)
        print(f"median of the recordings' ratios{found:>10.2f}")
    elif args.json:
        print(json.dumps(rates(args.traces)))
    else:
        profile = cProfile.Profile() if args.profile else None
        for what, rate in rates(args.traces, profile).items():
            print(f"{what:<40}{rate:>12,.0f} spans/CPU s")
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def rates(traces: int, profile: cProfile.Profile | None = None) -> Rates:
    """How fast this process reads the load and the recordings, once it is warm."""
    spans = traces * SPANS_PER_TRACE // 2
    recorded = {name: recorded_rate(name, spans, profile) for name in RECORDINGS}
    return {**load_rates(traces, profile), **recorded, "median": median(recorded.values())}


def recorded_rate(name: str, spans: int, profile: cProfile.Profile | None) -> float:
    """How fast this process reads copies of a recording, one after the other."""
    traces, logs = (
        gzip.decompress(path.read_bytes()) if path.exists() else b""
        for path in (GOLDEN / name / f"{signal}.pb.gz" for signal in ("traces", "logs"))
    )
    recorded = read_request(traces, logs)
    copies = list(copied(traces, logs, max(spans // recorded, 1)))
    if profile is not None:
        profile.enable()
    read, taken_s = timed(lambda: sum(read_request(*copy) for copy in copies))
    if profile is not None:
        profile.disable()
    return read / taken_s


def copied(traces: bytes, logs: bytes, copies: int) -> Iterator[tuple[bytes, bytes]]:
    """Copies of two requests, each with trace and span ids of its own."""
    chance = random.Random(7)  # noqa: S311 - a load must repeat, not be secret
    ids = {
        x
        for span in codec.spans(ExportTraceServiceRequest.FromString(traces))
        for x in (bytes.fromhex(span.trace_id), bytes.fromhex(span.span_id))
    }
    ordered = sorted(ids)
    for _ in range(copies):
        copy = [traces, logs]
        for old in ordered:
            new = chance.randbytes(len(old))
            copy = [x.replace(old, new) for x in copy]
            copy = [x.replace(old.hex().encode(), new.hex().encode()) for x in copy]
        yield copy[0], copy[1]


def read_request(traces: bytes, logs: bytes) -> int:
    """Read the spans and log records of two requests; how many spans."""
    spans = list(codec.spans(ExportTraceServiceRequest.FromString(traces)))
    records = list(codec.log_records(ExportLogsServiceRequest.FromString(logs)))
    rebuild_all(spans, records)
    return len(spans)


def load_rates(traces: int, profile: cProfile.Profile | None) -> Rates:
    """How fast this process reads the load, step by step."""
    bodies = list(Load(start_ns=START_NS).requests(traces))
    rebuild_all(
        [
            span
            for body in bodies[:10]
            for span in codec.spans(ExportTraceServiceRequest.FromString(body))
        ],
        [],
    )
    if profile is not None:
        profile.enable()
    messages, parse_s = timed(
        lambda: [ExportTraceServiceRequest.FromString(body) for body in bodies]
    )
    spans, decode_s = timed(lambda: [span for message in messages for span in codec.spans(message)])
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


if __name__ == "__main__":
    main()
