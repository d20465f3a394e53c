"""Reading of traces, in threads or processes."""

from spanscore.workers.readers import (
    InProcesses,
    InThreads,
    JobReading,
    LoneTries,
    SessionsElsewhere,
    WorkerPool,
)

__all__ = ["InProcesses", "InThreads", "JobReading", "LoneTries", "SessionsElsewhere", "WorkerPool"]
