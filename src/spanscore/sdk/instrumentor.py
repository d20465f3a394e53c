"""What `opentelemetry-instrument` finds by its entry point, so that a program is scored without a
changed line.
"""

import logging
import os
from typing import Any, Final

from spanscore.errors import SpanscoreError
from spanscore.sdk.in_process import CONFIG_VARIABLE

_log = logging.getLogger(__name__)

_SWITCHES: Final = (CONFIG_VARIABLE, "SPANSCORE_JUDGE_MODEL")
"""One of these must be set: that spanscore is installed does not mean that every program is to be
scored.
"""


class Instrumentor:
    """An instrumentor as OpenTelemetry's loader uses it; it needs none of its packages."""

    def __init__(self) -> None:
        self._instrumentation: Any = None

    def instrument(self, **options: Any) -> None:
        """Score this program, if the environment asks for it.

        What is wrong with what it asks for is logged.
        """
        if not any(os.environ.get(name) for name in _SWITCHES):
            return
        given = {
            name: options[name]
            for name in ("tracer_provider", "logger_provider")
            if options.get(name)
        }
        try:
            from spanscore.sdk.instrumenting import instrument  # noqa: PLC0415 - only where it is asked for

            self._instrumentation = instrument(**given)
        except SpanscoreError as error:
            _log.error("spanscore scores nothing: %s", error)

    def uninstrument(self, **_options: Any) -> None:
        """Score what is there, and end."""
        if self._instrumentation is not None:
            self._instrumentation.shutdown()
