"""Reading of traces, in threads or processes."""

from spanscore.workers.pool import WorkerPool
from spanscore.workers.readers import (
    InProcesses,
    InThreads,
    JobReading,
    LoneTries,
    SessionsElsewhere,
)

__all__ = ["InProcesses", "InThreads", "JobReading", "LoneTries", "SessionsElsewhere", "WorkerPool"]
