"""How many CPUs there are to work with."""

import os


def available_cpus() -> int:
    """The CPUs that this process may run on, where the system says so; else all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
