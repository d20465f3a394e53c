"""What the operating system says of this process, under the names that the collector has for
itself.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from spanscore.telemetry import declared
from spanscore.telemetry.meter import Meter

_STATM = Path("/proc/self/statm")


def watch(meter: Meter, clock_ns: Callable[[], int] = time.time_ns) -> None:
    """Have `meter` ask for uptime, CPU time and memory."""
    meter.watch(declared.PROCESS_UPTIME, lambda: max(0.0, (clock_ns() - meter.started_ns) / 1e9))
    meter.watch(declared.PROCESS_CPU, time.process_time)
    meter.watch(declared.PROCESS_MEMORY_RSS, _resident_bytes)


def _resident_bytes() -> float | None:
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        return None
