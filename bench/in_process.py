"""What scoring in its own process costs an agent: ending a span, and a turn under load, with and
without it.

The time of a span is the best of several rounds, since others may use the machine. Turns are those
of an agent that waits for its model for some milliseconds, as all do; with 0 it waits for nothing,
and shares its CPU with scoring.
"""

import argparse
import gc
import resource
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import spanscore
from spanscore.sdk.application import Spans
from spanscore.sdk.scoring_thread import Job, Worker

MESSAGES = '[{"role": "user", "parts": [{"type": "text", "content": "%s"}]}]' % (
    "Where is my order? " * 50
)
ATTRIBUTES = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.input.messages": MESSAGES,
    "gen_ai.output.messages": MESSAGES.replace("user", "assistant"),
}
CALLS = 5


class Nowhere(SpanExporter):
    """Sends nothing, so that only the processors are measured."""

    def export(self, spans: object) -> SpanExportResult:  # noqa: ARG002 # as the SDK has it
        return SpanExportResult.SUCCESS


class Unstarted(Worker):
    """Takes spans in without the thread that would share the CPU."""

    def start(self) -> None:
        self._ended.clear()
        self._started.clear()


def ended_spans(count: int) -> list[ReadableSpan]:
    provider = TracerProvider(shutdown_on_exit=False)
    tracer = provider.get_tracer("bench")
    spans = [tracer.start_span("chat m", attributes=ATTRIBUTES) for _ in range(count)]
    for span in spans:
        span.end()
    return spans


def us_a_span(processor: SpanProcessor, spans: list[ReadableSpan], rounds: int) -> float:
    """The best time of a round for `on_start` and `on_end`, in microseconds a span."""
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        begin = time.perf_counter()
        for span in spans:
            processor.on_start(span)
            processor.on_end(span)
        best = min(best, (time.perf_counter() - begin) / len(spans))
    return best * 1e6


def turn_ms(provider: TracerProvider, wait_s: float) -> float:
    tracer = provider.get_tracer("bench")
    begin = time.perf_counter()
    with tracer.start_as_current_span(
        "invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}
    ):
        for _ in range(CALLS):
            with tracer.start_as_current_span("chat m", attributes=ATTRIBUTES):
                time.sleep(wait_s)
    return (time.perf_counter() - begin) * 1e3


def under_load(turns: int, wait_s: float, *, scored: bool) -> tuple[float, float, float]:
    """Median and 99th percentile of a turn's time in ms, and CPU ms a turn, scoring included."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    instrumentation = spanscore.instrument(tracer_provider=provider) if scored else None
    turn_ms(provider, 0)
    if instrumentation is not None:
        instrumentation.force_flush()  # its modules are imported now
    before = time.process_time()
    with ThreadPoolExecutor(8) as agents:
        times = sorted(agents.map(lambda _: turn_ms(provider, wait_s), range(turns)))
    if instrumentation is not None:
        instrumentation.shutdown()
    cpu_ms = (time.process_time() - before) * 1e3 / turns
    provider.shutdown()
    return statistics.median(times), times[int(len(times) * 0.99)], cpu_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=400)
    args = parser.parse_args()
    spans = ended_spans(args.spans)
    worker = Unstarted(Job(None, lambda _: {}))  # type: ignore[arg-type]  # no thread asks for the settings
    own = Spans(worker, lambda: None)
    batch = BatchSpanProcessor(
        Nowhere(), max_queue_size=2 * args.spans, schedule_delay_millis=60_000
    )
    print("a span's start and end")
    print(f"  spanscore's processor            {us_a_span(own, spans, args.rounds):6.2f} us")
    print(f"  the SDK's BatchSpanProcessor     {us_a_span(batch, spans, args.rounds):6.2f} us")
    for wait_s in (0.01, 0.0):
        print(f"a turn of {CALLS} model calls, 8 at once, {wait_s * 1e3:g} ms a call")
        for scored in (False, True):
            median, late, cpu = under_load(args.turns, wait_s, scored=scored)
            name = "scored in process" if scored else "not scored"
            print(
                f"  {name:<18} median {median:7.2f} ms  p99 {late:7.2f} ms  CPU {cpu:6.2f} ms a"
                " turn"
            )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
