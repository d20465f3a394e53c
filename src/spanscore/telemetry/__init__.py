"""spanscore's own metrics and log lines, never traced themselves."""

import contextlib
from collections.abc import Iterator

from spanscore.telemetry.config import Config
from spanscore.telemetry.declared import Declared
from spanscore.telemetry.logs import Complaints, about, configure_logging
from spanscore.telemetry.meter import Distribution, Meter, Reading, Series

__all__ = [
    "Complaints",
    "Config",
    "Declared",
    "Distribution",
    "Meter",
    "Reading",
    "Series",
    "about",
    "configure_logging",
    "instrumentation_suppressed",
]


@contextlib.contextmanager
def instrumentation_suppressed() -> Iterator[None]:
    """Within this block, calls of a model are not traced, so that the judge's never show up in a
    user's traces.

    The keys are those that OpenTelemetry's, OpenInference's and Traceloop's instrumentations ask
    before they trace.
    """
    try:
        from opentelemetry import context  # noqa: PLC0415 - only where the process is instrumented is it installed
    except ImportError:
        yield
        return
    keys = (
        context._SUPPRESS_INSTRUMENTATION_KEY,  # noqa: SLF001 - private by name, but what instrumentations import
        "suppress_instrumentation",
        "suppress_language_model_instrumentation",
    )
    suppressed = context.get_current()
    for key in keys:
        suppressed = context.set_value(key, True, suppressed)  # noqa: FBT003 - set_value takes it by position
    token = context.attach(suppressed)
    try:
        yield
    finally:
        context.detach(token)
