"""Read the traces of a job by themselves: nothing is known of other traces, so that any process can
do it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from spanscore import rebuild, turns
from spanscore.assemble.assembler import Cut
from spanscore.model.trace import AgentTrace
from spanscore.span_attributes import SpanAttributes
from spanscore.turn_scheduling.jobs import JobKind, ReadJob, ReadResult

IsReferredTo: TypeAlias = "Callable[[ReadJob, Sequence[str], turns.DelegationHints | None], bool]"
"""Whether another trace refers to the trace of a job, by the ids of its model calls and its
hints.
"""

_SCORED = frozenset({JobKind.TRACE, JobKind.EARLY})
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
        if job.kind is JobKind.TURN:
            traces = rebuild.rebuild_turn(
                received, completeness=completeness, within=job.within, watch=watch
            )
            return ReadResult(job, _with_attributes(traces, attributes))
        rebuilt = rebuild.rebuild_trace(*received[0], completeness=completeness[0], watch=watch)
        hints = rebuilt.hints() if self._stitching.uses("delegation") else None
        is_linked = is_referred_to(job, rebuilt.ids_of_calls, hints)
        fragment = rebuilt.fragment(self._stitching, is_referred_to=is_linked)
        scored = _with_attributes(rebuilt.traces, attributes) if job.kind in _SCORED else ()
        return ReadResult(job, scored, fragment, rebuilt.ids_of_calls, hints)


def _with_attributes(
    traces: Sequence[AgentTrace], attributes: SpanAttributes | None
) -> Sequence[AgentTrace]:
    return traces if attributes is None else attributes.added_to(traces)
