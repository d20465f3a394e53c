"""Who reads the traces of jobs: threads of this process, or worker processes."""

from spanscore.workers.elsewhere import SessionsElsewhere
from spanscore.workers.in_processes import InProcesses
from spanscore.workers.in_threads import InThreads
from spanscore.workers.lone_tries import LoneTries
from spanscore.workers.pool import WorkerPool
from spanscore.workers.reading import JobReading

__all__ = ["InProcesses", "InThreads", "JobReading", "LoneTries", "SessionsElsewhere", "WorkerPool"]
