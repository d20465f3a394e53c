"""A trace of tools, and the one that requested them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from spanscore.turns.basis import stitch_keys
from spanscore.turns.basis.conversation import MAX_SKEW_NS
from spanscore.turns.basis.tool_boundary import (
    UNRECORDED,
    Wanted,
    is_same,
    latest as latest_calls,
    wanted,
)
from spanscore.turns.stitch.fragment import Clue, ReadTrace, Sign, TraceFragment
from spanscore.turns.stitch.groups import Groups, Reason, agree, latest, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRunClue(Clue):
    """The tools of a trace in which only tools ran; none for one that waits for its calls."""

    ran: tuple[Wanted, ...]
    is_open: bool = True


class ToolRun(Reason):
    """A trace in which only tools ran, for a call that another one requested."""

    words = (
        "a trace in which only tools ran: by the id of the call; else, within the session, by "
        "the tool's name while a call of it was not answered yet; else while calls that are "
        "not recorded were waited for, and were answered later"
    )
    after = ("span_link",)
    signs: ClassVar[frozenset[Sign]] = frozenset({"no turn", "pending"})

    def clue(self, trace: ReadTrace) -> ToolRunClue | None:
        """The tools that ran; none for a trace that waits for the results of its calls."""
        tools = () if trace.traces else trace.first.tools
        named = [step for step in tools if step.tool_name]
        runs = [wanted(step.call_id, step.tool_name, step.arguments) for step in named]
        if not runs and trace.pending_at is None:
            return None
        return ToolRunClue(ran=latest_calls(runs))

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """The calls that it waits for, by id, and by session and name."""
        for call in part.unanswered_calls:
            yield from _keys(part, call)

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """The calls that it ran, and those of its session that are not recorded."""
        for call in _ran(part):
            yield from _keys(part, call)
            yield from _keys(part, UNRECORDED)

    def join(self, groups: Groups) -> None:
        """Join the trace of a tool to the one that requested its call."""
        waiting = defaultdict[str, list[TraceFragment]](list)
        for part in groups.all:
            for call in part.unanswered_calls:
                for key in dict.fromkeys(_keys(part, call)):
                    waiting[key].append(part)
        for part in groups.all:
            for call in _ran(part):
                self._join_run(groups, part, call, waiting)

    def _join_run(
        self,
        groups: Groups,
        part: TraceFragment,
        call: Wanted,
        waiting: Mapping[str, Sequence[TraceFragment]],
    ) -> None:
        """Join a run by its call's id where a trace has it, else by the first key that is clear."""
        keys = (*_keys(part, call), *_keys(part, UNRECORDED))
        known = [key for key in keys if key in waiting]
        by_id = bool(known) and stitch_keys.is_tool_call(known[0])
        for key in known[:1] if by_id else known:
            requester = _requester(groups, part, call, waiting[key], by_id=by_id)
            if requester is not None:
                groups.join(requester, part, reason=self.name, since=_since(call, by_id=by_id))
                return


def _ran(part: TraceFragment) -> tuple[Wanted, ...]:
    clue = part.clue(ToolRunClue)
    return () if clue is None else clue.ran


def _keys(part: TraceFragment, call: Wanted) -> Iterator[str]:
    """The keys that the run of a tool and the request for it have in common."""
    if call.call_id:
        yield stitch_keys.tool_call(call.call_id)
    for session in part.sessions:
        yield stitch_keys.tool(session, call.name)


def _requester(
    groups: Groups,
    part: TraceFragment,
    call: Wanted,
    waiting: Sequence[TraceFragment],
    *,
    by_id: bool,
) -> TraceFragment | None:
    """The trace that requested a run; None where several turns could have, or none."""
    recent = latest(waiting, part.started_ns + MAX_SKEW_NS)
    possible = [other for other in recent if agree(other, part) and _requested(other, call)]
    if not by_id or len(possible) > 1:
        possible = [other for other in possible if _was_pending(groups, other, part.started_ns)]
    of_group = {id(groups.group_of(other.trace_id)): other for other in possible}
    return next(iter(of_group.values())) if len(of_group) == 1 else None


def _requested(part: TraceFragment, call: Wanted) -> bool:
    return any(is_same(other, call) for other in part.unanswered_calls)


def _was_pending(groups: Groups, requester: TraceFragment, at_ns: int) -> bool:
    """Whether a trace had requested its calls by then, and was not yet given their results.

    Of one that does not record its calls it must be known that it was given results later.
    """
    next_part = groups.goes_on_at.get(requester.trace_id)
    if next_part is None:
        return requester.ended_ns <= at_ns and UNRECORDED not in requester.unanswered_calls
    return requester.ended_ns <= at_ns <= next_part.started_ns


def _since(call: Wanted, *, by_id: bool) -> str:
    if by_id:
        return f"it ran tool call {shown(call.call_id or '')}, which that trace requested"
    return f"it ran the tool {shown(call.name)} while that trace of its session waited for a call"
