"""Spans per CPU second of reading alone: bytes -> messages -> spans -> agent traces.

python bench/reading.py [--traces 1000] [--before COMMIT] [--profile]

With --before the sources of an earlier commit and today's read the same load in turns, each in a
process of its own.
"""

import argparse
import cProfile
import json
import pstats
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from comparing import compare
from load import SPANS_PER_TRACE, Load
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.otlp import codec
from spanscore.rebuild import rebuild_all

ResultT = TypeVar("ResultT")
Rates: TypeAlias = Mapping[str, float]
"""Spans per CPU second of each step, and of all."""

START_NS = 1_750_000_000 * 10**9


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
        compare([__file__], args.before, args.traces, "spans/CPU s")
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
