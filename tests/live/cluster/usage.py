"""CPU time of processes with all their children, as Linux counts it."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_AFTER_NAME = 11
"""The place of utime behind the name, in /proc/PID/stat; stime, cutime and cstime follow."""


def cpu_s(pid: int) -> float:
    """User and system seconds of a process, its children, and those of them that have ended."""
    process = Path(f"/proc/{pid}")
    own = (process / "stat").read_text().rpartition(")")[2].split()
    ticks = sum(map(int, own[_AFTER_NAME : _AFTER_NAME + 4]))
    found = [x.read_text().split() for x in process.glob("task/*/children")]
    return ticks / _TICKS + sum(cpu_s(int(child)) for children in found for child in children)
