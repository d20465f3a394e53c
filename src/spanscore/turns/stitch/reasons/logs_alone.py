"""Log records without a trace, and theirs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from spanscore.turns.basis import stitch_keys
from spanscore.turns.stitch.fragment import Clue, ReadTrace, Sign, TraceFragment
from spanscore.turns.stitch.groups import Groups, Reason, latest


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsAloneClue(Clue):
    """Which side a trace may be: made of log records alone, or of spans that record no answer."""

    is_logs_only: bool
    lacks_answer: bool


class LogsAlone(Reason):
    """Claude Code of May 2026 writes its log records without the trace that they belong to."""

    words = (
        "log records of no trace that contain a turn (Claude Code's), and the only trace of "
        "their session without an answer that overlaps them and does not contain another "
        "question"
    )
    after = ("wrapper",)
    signs: ClassVar[frozenset[Sign]] = frozenset({"logs alone", "no answer"})

    def clue(self, trace: ReadTrace) -> LogsAloneClue | None:
        """Which side it may be, where it has one turn."""
        if len(trace.traces) != 1 or (trace.is_recorded and not trace.lacks_answer):
            return None
        return LogsAloneClue(
            is_logs_only=not trace.is_recorded,
            lacks_answer=trace.is_recorded,
            is_evidence=bool(trace.sessions),
        )

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """The sessions of a trace without an answer."""
        return map(stitch_keys.unanswered, part.sessions if _lacks_answer(part) else ())

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """The sessions of log records."""
        return map(stitch_keys.unanswered, part.sessions if _is_logs_only(part) else ())

    def join(self, groups: Groups) -> None:
        """Join log records to the only trace without an answer that ran at their time."""
        unanswered = defaultdict[str, list[TraceFragment]](list)
        for part in groups.all:
            for session in part.sessions if _lacks_answer(part) else ():
                unanswered[session].append(part)
        for part in groups.all if unanswered else ():
            same = _running(part, unanswered) if _is_logs_only(part) else {}
            if len(same) == 1:
                groups.join(
                    next(iter(same.values())),
                    part,
                    reason=self.name,
                    since="it was made of log records that name no trace, and that trace is the "
                    "only one of their session without an answer that ran at the time",
                )


def _is_logs_only(part: TraceFragment) -> bool:
    clue = part.clue(LogsAloneClue)
    return clue is not None and clue.is_logs_only


def _lacks_answer(part: TraceFragment) -> bool:
    clue = part.clue(LogsAloneClue)
    return clue is not None and clue.lacks_answer


def _running(
    part: TraceFragment, unanswered: Mapping[str, Sequence[TraceFragment]]
) -> dict[str, TraceFragment]:
    """The traces without an answer that ran at the time of the log records, by trace id."""
    found: dict[str, TraceFragment] = {}
    for session in part.sessions:
        for other in latest(unanswered.get(session, ()), part.ended_ns):
            if part.started_ns < other.ended_ns and part.question in {None, other.question}:
                found[other.trace_id] = other
    return found
