"""Spans per CPU second of reading alone, in this process: bytes -> messages -> spans -> agent traces.

python bench/reading.py [--traces 1000] [--profile]
"""

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable
from typing import TypeVar

from load import SPANS_PER_TRACE, Load
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.otlp import decode
from spanscore.rebuild import rebuild_all

ResultT = TypeVar("ResultT")
START_NS = 1_750_000_000 * 10**9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=1000, help="of ten spans each")
    parser.add_argument("--profile", action="store_true", help="also show where the time goes")
    args = parser.parse_args()
    bodies = list(Load(start_ns=START_NS).requests(args.traces))
    count = args.traces * SPANS_PER_TRACE
    rebuild_all([span for body in bodies[:10] for span in decode.spans(ExportTraceServiceRequest.FromString(body))], [])
    profile = cProfile.Profile()
    if args.profile:
        profile.enable()
    messages, parse_s = timed(lambda: [ExportTraceServiceRequest.FromString(body) for body in bodies])
    spans, decode_s = timed(lambda: [span for message in messages for span in decode.spans(message)])
    traces, rebuild_s = timed(lambda: rebuild_all(spans, []))
    profile.disable()
    for what, cpu_s in (("protobuf", parse_s), ("decode", decode_s), ("dialects and turns", rebuild_s)):
        print(f"{what:<20}{count / cpu_s:>12,.0f} spans/CPU s")
    print(f"{'all':<20}{count / (parse_s + decode_s + rebuild_s):>12,.0f} spans/CPU s, {len(traces)} agent traces")
    if args.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def timed(work: Callable[[], ResultT]) -> tuple[ResultT, float]:
    """The result, and the seconds of CPU that it took."""
    before_s = time.process_time()
    result = work()
    return result, time.process_time() - before_s


if __name__ == "__main__":
    main()
