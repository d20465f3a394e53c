"""Jobs of reading traces, and their results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Protocol, TypeAlias

from spanscore import rebuild, turns
from spanscore.assemble.assembler import Assembler, Cut
from spanscore.evaluation.engine import FirstScores
from spanscore.model.trace import AgentTrace
from spanscore.watches import SpanAttributes


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


IsReferredTo: TypeAlias = "Callable[[ReadJob, Sequence[str], turns.DelegationHints | None], bool]"
"""Whether another trace refers to the trace of a job, by the ids of its model calls and its
hints.
"""

SCORED = frozenset({JobKind.TRACE, JobKind.EARLY})
"""The kinds of jobs whose agent traces are scored as those of one trace."""


class JobReader:
    """Reads jobs. May be used from several threads."""

    def __init__(
        self,
        load: Callable[[Cut], rebuild.Received],
        stitching: turns.Stitching,
        *,
        attributes: Collection[str] = (),
        watch: turns.Watch | None = None,
    ) -> None:
        """`load` gives the spans and log records of a trace that was cut.

        `attributes` are those of spans that the agent traces are given with; `watch` is called with
        each agent trace.
        """
        self._load = load
        self._stitching = stitching
        self._attributes = attributes
        self._watch = watch

    def read(self, job: ReadJob, is_referred_to: IsReferredTo) -> ReadResult:
        """Read the traces of a job. Raises whatever `load`, or a dialect on content, raises."""
        received = [self._load(cut) for cut in job.cuts]
        attributes = SpanAttributes(self._attributes, self._watch) if self._attributes else None
        watch = attributes or self._watch
        completeness = [cut.completeness for cut in job.cuts]
        later = {cut.trace_id for cut in job.cuts if cut.after_ns}
        after_ns = max(cut.after_ns for cut in job.cuts)
        if job.kind is JobKind.TURN:
            traces = rebuild.rebuild_turn(
                received, completeness=completeness, within=job.within, watch=watch, later=later
            )
            traces = [x for x in traces if x.started_ns >= after_ns]
            return ReadResult(job, _with_attributes(traces, attributes))
        rebuilt = rebuild.rebuild_trace(
            *received[0], completeness=completeness[0], watch=watch, later=later
        )
        if after_ns:
            of_turns = [x for x in rebuilt.traces if x.started_ns >= after_ns]
            rebuilt = replace(rebuilt, traces=of_turns)
        hints = rebuilt.hints() if self._stitching.uses("delegation") else None
        is_linked = is_referred_to(job, rebuilt.ids_of_calls, hints)
        fragment = rebuilt.fragment(self._stitching, is_referred_to=is_linked)
        scored = _with_attributes(rebuilt.traces, attributes) if job.kind in SCORED else ()
        return ReadResult(job, scored, fragment, rebuilt.ids_of_calls, hints)


def _with_attributes(
    traces: Sequence[AgentTrace], attributes: SpanAttributes | None
) -> Sequence[AgentTrace]:
    return traces if attributes is None else attributes.added_to(traces)
