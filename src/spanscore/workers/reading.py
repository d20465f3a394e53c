"""What threads and worker processes have in common: jobs in, what was read of each out."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from spanscore.errors import SpanscoreError
from spanscore.turn_scheduling import ReadJob, ReadResult

Read: TypeAlias = ReadResult | Exception
"""What was read of a job, or why it cannot be read."""


class JobReading(Protocol):
    """Reads the traces of jobs."""

    async def read(self, jobs: Sequence[ReadJob]) -> Mapping[ReadJob, Read]:
        """What was read of each job; nothing where a worker process died while it read them: they
        are to be read one by one.
        """
        ...

    def read_one_by_one(self, jobs: Sequence[ReadJob]) -> AsyncIterator[tuple[ReadJob, Read]]:
        """What was read of each job, when it was read. Jobs that kill worker processes come last,
        many minutes later.
        """
        ...

    def health(self) -> list[dict[str, Any]]:
        """What the health endpoint shows of each worker process."""
        ...


class ReadFailedError(SpanscoreError):
    """Another process could not read a job: the class of its error, and where it was raised.

    Log lines contain its text: `traceback` must not quote a trace.
    """

    def __init__(self, error: str, traceback: str) -> None:
        super().__init__(f"{error} in a worker process\n{traceback}")
        self.error = error


class KillsWorkersError(SpanscoreError):
    """Worker processes died each time that they worked on a trace or session."""


def reason(error: Exception) -> str:
    """Why a trace cannot be scored, in few words, and none of those that the trace contains."""
    if isinstance(error, KillsWorkersError):
        return str(error)
    return error.error if isinstance(error, ReadFailedError) else type(error).__name__
