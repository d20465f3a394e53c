"""Keeps what spanscore does by itself out of the application's traces."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context, trace

from spanscore.telemetry import instrumentation_suppressed

_NOT_SAMPLED = trace.NonRecordingSpan(
    trace.SpanContext(1, 1, is_remote=False, trace_flags=trace.TraceFlags(0))
)
"""The parent of what is traced all the same: where the sampler follows the parent, it is
dropped.
"""


@contextmanager
def untraced() -> Iterator[None]:
    """Within this block, and in tasks and threads that copy its context, nothing is traced."""
    with instrumentation_suppressed():
        token = context.attach(trace.set_span_in_context(_NOT_SAMPLED))
        try:
            yield
        finally:
            context.detach(token)
