"""What spanscore says of itself: its metrics, its log lines, and that none of both is ever a trace
of its own.
"""

from spanscore.telemetry.complaints import Complaints
from spanscore.telemetry.config import Config
from spanscore.telemetry.declared import Declared
from spanscore.telemetry.logs import configure_logging
from spanscore.telemetry.meter import Distribution, Meter, Reading, Series
from spanscore.telemetry.subject import about
from spanscore.telemetry.suppression import instrumentation_suppressed

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
