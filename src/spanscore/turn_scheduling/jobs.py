"""What is to be read, and what reading it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from spanscore import rebuild, turns
from spanscore.assemble.assembler import Assembler, Cut
from spanscore.evaluation.scores import FirstScores
from spanscore.model.trace import AgentTrace


class Source(Protocol):
    """Where cut traces come from, with their spans: the server's backlog, or an agent's process."""

    @property
    def assembler(self) -> Assembler:
        """What decides when a trace is complete."""
        ...

    def cut(self, now_ns: int) -> list[Cut]:
        """The traces that are complete by now."""
        ...

    def accept(self, cut: Cut, now_ns: int) -> bool:
        """Close the trace of an early cut, which is scored as it was read.

        False: it is not to be scored so.
        """
        ...

    def load(self, cut: Cut) -> rebuild.Received:
        """The spans and log records of a trace that was cut. May be called from any thread."""
        ...


class JobKind(Enum):
    """Why traces are read."""

    TRACE = auto()
    """One trace was cut: it is scored, or waits for the other traces of its turn."""

    EARLY = auto()
    """One trace is not complete yet and may be whole: it is scored if it shows that, else read
    again when complete.
    """

    TURN = auto()
    """The wait for the traces of a turn is over: they are read together and scored as one turn."""

    REREAD = auto()
    """One trace was scored before, and another one may belong to its turn: it is read for its
    fragment only.
    """


@dataclass(frozen=True, slots=True, eq=False)
class ReadJob:
    """Traces to be read: one, or those of one turn.

    `queued_ns` is when the job was made, in Unix ns.
    """

    cuts: tuple[Cut, ...]
    kind: JobKind = JobKind.TRACE
    queued_ns: int = 0

    within: Mapping[str, str] = field(default_factory=dict)
    """For a turn: by trace id, the span of the tool call that requested the trace, as `turns.build`
    wants it.
    """

    joins: tuple[turns.Join, ...] = ()
    """For a turn: why its traces were joined."""

    @property
    def size_bytes(self) -> int:
        """The size of its traces' spans, encoded."""
        return sum(x.size_bytes for x in self.cuts)

    @property
    def tenant(self) -> str:
        """Whose these traces are."""
        return self.cuts[0].tenant

    @property
    def trace_id(self) -> str:
        """The id of the trace; of a turn, that of its first trace."""
        return self.cuts[0].trace_id

    @property
    def trace_ids(self) -> tuple[str, ...]:
        """The ids of all its traces."""
        return tuple(cut.trace_id for cut in self.cuts)


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What reading a job found."""

    job: ReadJob

    traces: Sequence[AgentTrace] = ()
    """Its agent traces; none where the job is a `REREAD`."""

    fragment: turns.TraceFragment | None = None
    """What ties the trace to others; None for an ordinary trace, and for a turn."""

    ids_of_calls: Sequence[str] = ()
    """The ids of the model calls, which another trace may report as well."""

    hints: turns.DelegationHints | None = None
    """The texts by which the trace and one of a calling or called agent are recognised."""

    first_scores: Mapping[str, FirstScores] = field(default_factory=dict)
    """By the id of an agent trace, what is stored of it if it was not evaluated before; of those
    for which whoever read them made that.
    """
