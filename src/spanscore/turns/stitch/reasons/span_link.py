"""A trace whose outermost span links to another."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from spanscore.model.span import Span
from spanscore.model.step import Reading
from spanscore.turns.basis import stitch_keys
from spanscore.turns.stitch.fragment import Clue, ReadTrace, Sign, TraceFragment
from spanscore.turns.stitch.groups import Group, Groups, Reason, shown

_MAX_LINKS = 20
"""Traces that one trace may link to: one that links to more gathers unrelated work."""

_MIN_QUOTE = 12
"""Characters that an answer must have for a question that repeats it to be its delivery."""

_MESSAGING = (4, 5)  # OpenTelemetry's span kinds PRODUCER and CONSUMER


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanLinkClue(Clue):
    """The traces that its outermost spans link to, as `trace_ids`."""

    is_message: bool
    """Whether those spans only pass on, or work on, a message from there."""


class SpanLink(Reason):
    """The outermost span of a trace links to a span of another one."""

    words = (
        "a trace's outermost span links to exactly one turn, and shows no agent or model "
        "itself, or starts while that turn still runs or waits for its tools, or is asked "
        "what that turn answered"
    )
    after = ("stored_response",)
    signs: ClassVar[frozenset[Sign]] = frozenset({"links"})

    def clue(self, trace: ReadTrace) -> SpanLinkClue | None:
        """The traces to which its outermost spans link."""
        linking = _linking(trace.reading)
        trace_ids = frozenset(_linked(linking))
        if not trace_ids or len(trace_ids) > _MAX_LINKS:
            return None
        is_message = all(span.kind in _MESSAGING for span in linking)
        return SpanLinkClue(trace_ids=trace_ids, is_message=is_message, is_open=True)

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """Its own id."""
        return (stitch_keys.trace(part.trace_id),)

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """The ids of the traces that it links to."""
        clue = part.clue(SpanLinkClue)
        return () if clue is None else map(stitch_keys.trace, clue.trace_ids)

    def join(self, groups: Groups) -> None:
        """Join a trace to the only group that it links to, unless it may be a turn of its own."""
        for part in groups.all:
            clue = part.clue(SpanLinkClue)
            targets = [] if clue is None else _targets(groups, part, clue)
            if clue is not None and len(targets) == 1:
                linked, target = targets[0]
                why = _works_for(target.parts, part, clue)
                if why is not None:
                    since = f"its outermost span links to trace {shown(linked)}, and {why}"
                    groups.join(target.parts[0], part, reason=self.name, since=since)


def _targets(groups: Groups, part: TraceFragment, clue: SpanLinkClue) -> list[tuple[str, Group]]:
    """The groups that a trace links to but its own, each with the first linked trace of it."""
    own = groups.group_of(part.trace_id)
    found: dict[int, tuple[str, Group]] = {}
    for trace_id in sorted(clue.trace_ids):
        group = groups.group_of(trace_id)
        if group is not None and group is not own:
            found.setdefault(id(group), (trace_id, group))
    return list(found.values())


def _linking(reading: Reading) -> list[Span]:
    """The outermost spans that have links."""
    known = {span.span_id for span in reading.spans}
    return [span for span in reading.spans if span.links and span.parent_span_id not in known]


def _linked(linking: Iterable[Span]) -> Iterator[str]:
    """The other traces to which spans link."""
    for span in linking:
        yield from (link.trace_id for link in span.links if link.trace_id != span.trace_id)


def _works_for(
    target: Sequence[TraceFragment], part: TraceFragment, clue: SpanLinkClue
) -> str | None:
    """How it shows that a trace works for those that it links to.

    None where it may be the next turn, or is not known to be this one.
    """
    last = max(target, key=lambda x: x.ended_ns)
    signs = {
        "it only passes a message on": clue.is_message,
        "it shows no agent or model": not part.has_turn,
        "it begins with tool results": part.resumes_at is not None,
        "it started while that turn ran": last.ended_ns >= part.started_ns,
        "it has an answer and no question": part.question is None and part.answer is not None,
        "that turn waited for its tools": last.pending_at is not None,
        "that trace shows no agent or model": not any(other.has_turn for other in target),
        "its question contains the answer given there": _delivers(target, part),
    }
    return next((why for why, shows in signs.items() if shows), None)


def _delivers(target: Sequence[TraceFragment], part: TraceFragment) -> bool:
    """Whether a trace's question contains an answer of the others."""
    if part.question is None:
        return False
    answers = [other.answer for other in target if other.answer is not None]
    return any(len(answer) >= _MIN_QUOTE and answer in part.question for answer in answers)
