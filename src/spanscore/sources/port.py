"""What reading stored traces asks of a backend."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from spanscore.model.span import LogRecord, Span
from spanscore.sources.query import Query


class Found(NamedTuple):
    """A trace that a search of a backend gave: its id, and its first start as far as the search
    tells, in Unix ns.
    """

    trace_id: str
    start_ns: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """One trace as a backend has it.

    `truncated` says why it is not all of the trace, and is empty where nothing speaks against it.
    `refused` names spans that were left out, with the reason.
    """

    trace_id: str
    spans: Sequence[Span]
    logs: Sequence[LogRecord] = ()
    truncated: str = ""
    refused: Sequence[str] = field(default=())
    size_bytes: int = 0
    """How long the backend's answer was."""


class Source(Protocol):
    """A backend's stored traces.

    Errors are `InputError` where asking again does not help, else `RetryableError`.

    A query that names trace ids needs no search: only `fetch` is called.
    """

    def pushed(self, query: Query) -> frozenset[str]:
        """Those of `query.conditions` that the backend itself is asked for."""
        ...

    def is_exact(self, query: Query) -> bool:
        """Whether `find` gives only traces that `query` accepts."""
        ...

    def find(self, query: Query) -> AsyncIterator[Found]:
        """All traces that may fulfil `query`, each once, mostly the newest first; `query.limit` is
        not applied.
        """
        ...

    async def fetch(self, found: Found) -> Stored | None:
        """One trace, at most as many of its spans as `limits` has; None where the backend has it no
        more.
        """
        ...

    async def close(self) -> None:
        """Let go of connections. Calling it again does nothing."""
        ...
