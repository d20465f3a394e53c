"""What a run over a source would ask a judge: its traces are read, and nothing of them is kept."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from spanscore.control.estimating_limit import Limit
from spanscore.control.source_listing import Drawing
from spanscore.control.sources import Reading
from spanscore.errors import InputError
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline.sessions import SessionTurns
from spanscore.specs.target import TargetSpec

PlanT = TypeVar("PlanT")
PlanTrace: TypeAlias = Callable[[AgentTrace, Sequence[AgentTrace]], PlanT]
"""What is planned of a trace, given the turns before it."""


@dataclass(slots=True)
class Lowest(Generic[PlanT]):
    """What is planned of the subjects with the lowest draws; `drawn` counts all that were drawn."""

    limit: int
    candidates: int = 0
    drawn: int = 0
    _plans: list[tuple[int, str, PlanT]] = field(default_factory=list)

    def add(self, draw: int, subject: str, plan: Callable[[], PlanT]) -> None:
        """Take in one that was drawn; `plan` is asked only where it is among the lowest."""
        self.drawn += 1
        if len(self._plans) < self.limit:
            heapq.heappush(self._plans, (-draw, subject, plan()))
        elif -draw > self._plans[0][0]:
            heapq.heapreplace(self._plans, (-draw, subject, plan()))

    def plans(self, count: int) -> list[PlanT]:
        """Those of the `count` lowest."""
        return [plan for _, _, plan in heapq.nlargest(count, self._plans)]


def planned(
    reading: Reading,
    target: TargetSpec,
    count: int,
    limit: Limit,
    *,
    plan_trace: PlanTrace[PlanT],
    plan_session: Callable[[Session], PlanT],
) -> Lowest[PlanT]:
    """What is planned of the `count` lowest of a target's subjects. Blocks.

    Raises InputError or RetryableError where the source cannot be read, InputError also where that
    takes minutes.
    """
    turns = SessionTurns()
    try:
        with limit.stops(reading.stop):
            found, sessions = _read(reading, target, count, turns, plan_trace)
        if reading.is_stopped:
            raise InputError(
                f"{reading}: cannot be read in {limit}; narrow the filter, or create the run with a"
                " budget"
            )
        for key, subject in limit.each(sessions.items()):
            draw = target.sampling.draw(subject)
            found.add(draw, subject, lambda key=key: plan_session(turns.session(key)[0]))  # type: ignore[misc]
        return found
    finally:
        turns.close()


def _read(
    reading: Reading,
    target: TargetSpec,
    count: int,
    turns: SessionTurns,
    plan_trace: PlanTrace[PlanT],
) -> tuple[Lowest[PlanT], dict[str, str]]:
    """Plan the traces as they are read; sessions are planned when all is read: their subjects by
    their keys.
    """
    found: Lowest[PlanT] = Lowest(count)
    drawing, sessions = Drawing(target), dict[str, str]()
    for batch in reading.batches():
        drawn = drawing.of(batch)
        found.candidates += len(drawn.subjects)
        new = {x for x in drawn.subjects if target.sampling.is_in_share(x)}
        for trace in batch:
            subject = drawing.subject_of(trace)
            if subject is not None and subject in new and target.scope == "trace":
                draw = target.sampling.draw(subject)
                found.add(draw, subject, lambda trace=trace: plan_trace(trace, turns.before(trace)))  # type: ignore[misc]
            elif subject in new and trace.session_key is not None:
                sessions[trace.session_key] = subject
            turns.add(trace)
    return found, sessions
