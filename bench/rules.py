"""What `evaluation.rules` costs a trace: deciding, by the number of rules, and keeping attributes
of its spans.

Prints CPU microseconds a trace, the least of several rounds, with and without rules side by side.

    .venv/bin/python bench/rules.py
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from load import Load
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.evaluation import Config
from spanscore.evaluation.rules import STATUS, Rules
from spanscore.model.span import Span
from spanscore.model.trace import AgentTrace
from spanscore.otlp import codec
from spanscore.rebuild import rebuild, rebuild_trace
from spanscore.watches import SpanAttributes

_ROUNDS, _TRACES = 7, 300

_WHEN = (
    {"service": "other-*"},
    {"attributes": {"http.route": ["/healthz", "/readyz"]}},
    {"error": True},
    {"any": [{"duration": {"at_least": "10m"}}, {"tokens": {"total": {"above": 500_000}}}]},
    {"agent": "none", "environment": "production", "not": {"user": ["test", "load-test"]}},
)


def _rules(count: int) -> list[dict[str, object]]:
    """Rules of which no two are alike, and of which none takes a trace of the load."""
    return [
        {"name": f"rule-{x}", "when": {**_WHEN[x % len(_WHEN)], "user": f"user-{x}"}}
        for x in range(count)
    ]


def _least_us(works: Mapping[int, Callable[[], object]], count: int) -> dict[int, float]:
    """CPU microseconds of each of `count` items: of each work, which take turns, in its best
    round.
    """
    found = dict.fromkeys(works, math.inf)
    for _ in range(_ROUNDS):
        for name, work in works.items():
            started_s = time.process_time()
            work()
            found[name] = min(found[name], (time.process_time() - started_s) / count * 1e6)
    return found


def main() -> None:
    """Print the costs."""
    by_trace: dict[str, list[Span]] = {}
    for request in Load(start_ns=10**18).requests(_TRACES):
        for span in codec.spans(ExportTraceServiceRequest.FromString(request)):
            by_trace.setdefault(span.trace_id, []).append(span)
    received = [*by_trace.values()]
    traces = [trace for part in received for trace in rebuild(part)]
    print(f"{len(traces)} agent traces of {len(received[0])} spans; CPU us a trace")
    configured = {
        x: Rules(Config.model_validate({"rules": _rules(x)}).rules, 1.0) for x in (0, 1, 5, 20, 100)
    }
    deciding = {x: partial(_decide, rules, traces) for x, rules in configured.items()}
    for number, cost_us in _least_us(deciding, len(traces)).items():
        print(f"  deciding, {number:3} rules      {cost_us:8.2f}")
    names = ["gen_ai.request.model", "http.route", STATUS, *(f"attribute.{x}" for x in range(17))]
    reading = {x: partial(_read, names[:x], received) for x in (0, 1, 5, 20)}
    for number, cost_us in _least_us(reading, len(traces)).items():
        print(f"  reading, {number:3} attributes  {cost_us:8.1f}")


def _decide(rules: Rules, traces: Sequence[AgentTrace]) -> None:
    for trace in traces:
        rules.decide(trace)


def _read(names: Sequence[str], received: Sequence[Sequence[Span]]) -> None:
    for spans in received:
        watch = SpanAttributes(names) if names else None
        rebuilt = rebuild_trace(spans, watch=watch)
        if watch is not None:
            watch.added_to(rebuilt.traces)


if __name__ == "__main__":
    main()
