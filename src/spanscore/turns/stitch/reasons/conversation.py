"""A trace that goes on after requested tool calls."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from spanscore.turns.basis import stitch_keys, tool_boundary
from spanscore.turns.basis.conversation import MAX_SKEW_NS
from spanscore.turns.basis.tool_boundary import ToolBoundary, may_meet
from spanscore.turns.stitch.fragment import Clue, ReadTrace, Sign, TraceFragment
from spanscore.turns.stitch.groups import Groups, Reason, agree, latest, order, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationClue(Clue):
    """That a trace ends, or may end, in requested tool calls, or begins with results."""

    maybe_pending_at: ToolBoundary | None
    """The end of an only model call without calls: some emitters leave out requested ones."""


class Conversation(Reason):
    """The first model call of a trace was given the results of the other one's calls."""

    words = (
        "a trace ends in tool calls without an answer, and the first model call of another "
        "was given what these calls returned: same question, no newer one after it, same "
        "names and arguments, same call ids; without ids, the same whole conversation before "
        "them. Where a model call, alone in its trace, records no calls (some emitters leave "
        "them out): its input and its output are, word for word, all that stands before the "
        "calls in the other's input, or before their results where that leaves the calls out "
        "too. Also an answered turn in which the call of a sub-agent returned nothing, and a "
        "trace whose first model call was given the result of that call, by its id (Claude "
        "Code's notices)"
    )
    after = ("gateway",)
    signs: ClassVar[frozenset[Sign]] = frozenset({"pending", "one call", "resumed"})

    def clue(self, trace: ReadTrace) -> ConversationClue | None:
        """Its boundaries."""
        maybe_pending_at = _maybe_pending_at(trace)
        is_open = trace.pending_at is not None or trace.resumes_at is not None
        if not is_open and maybe_pending_at is None:
            return None
        return ConversationClue(maybe_pending_at=maybe_pending_at, is_open=is_open)

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """The keys of the boundary at its end."""
        boundary = _goes_on_at(part)
        return () if boundary is None else tool_boundary.keys(boundary)

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """The keys of the boundary at its beginning."""
        return () if part.resumes_at is None else tool_boundary.keys(part.resumes_at)

    def join(self, groups: Groups) -> None:
        """Join the traces whose times agree; then, by the ids of calls alone, those whose clocks
        differ a little.
        """
        ending = _by_key(groups.all)
        resuming = [part for part in groups.all if part.resumes_at is not None]
        for skew_ns in (0, MAX_SKEW_NS):
            search = _Search(groups, ending, skew_ns, self.name)
            resuming = [part for part in resuming if not search.joins(part)]


def _maybe_pending_at(trace: ReadTrace) -> ToolBoundary | None:
    if trace.pending_at is not None or not trace.is_model_call_alone:
        return None
    return tool_boundary.maybe_pending_after(trace.last.models[0])


def _goes_on_at(part: TraceFragment) -> ToolBoundary | None:
    """Where another trace may go on."""
    clue = part.clue(ConversationClue)
    return None if clue is None else part.pending_at or clue.maybe_pending_at


def _by_key(parts: Iterable[TraceFragment]) -> Mapping[str, Sequence[TraceFragment]]:
    """The traces that end at a boundary, by each of its keys."""
    found = defaultdict[str, list[TraceFragment]](list)
    for part in parts:
        boundary = _goes_on_at(part)
        for key in () if boundary is None else tool_boundary.keys(boundary):
            found[key].append(part)
    return found


class _Search:
    """Looks for the trace that another one continues, among clocks that differ by at most so
    much.
    """

    def __init__(
        self,
        groups: Groups,
        ending: Mapping[str, Sequence[TraceFragment]],
        skew_ns: int,
        reason: str,
    ) -> None:
        self._groups = groups
        self._ending = ending
        self._skew_ns = skew_ns
        self._reason = reason

    def joins(self, part: TraceFragment) -> bool:
        """Join `part` to the trace that it goes on from; False where none or several may be it."""
        if part.resumes_at is None:
            return False
        for key in tool_boundary.keys(part.resumes_at):
            alike = latest(self._ending.get(key, ()), part.started_ns + self._skew_ns)
            if alike and (stitch_keys.is_tool_call(key) or not self._skew_ns):
                before = self._the_one_before(part, part.resumes_at, alike)
                return before is not None and self._joined(before, part, key)
        return False

    def _joined(self, before: TraceFragment, part: TraceFragment, key: str) -> bool:
        if not self._groups.join(before, part, reason=self._reason, since=_since(key)):
            return False
        # one that neither answers nor calls has failed, and may have been tried again
        if part.answer is not None or part.pending_at is not None:
            self._groups.goes_on_at[before.trace_id] = part
        return True

    def _the_one_before(
        self, part: TraceFragment, boundary: ToolBoundary, alike: Sequence[TraceFragment]
    ) -> TraceFragment | None:
        """The only trace that `part` can continue, of those that end where it may go on; None where
        there are several.
        """
        possible = [other for other in alike if self._may_precede(other, part, boundary)]
        if len(possible) > 1:
            same = [other for other in possible if _has_conversation(other, boundary.conversation)]
            possible = same or possible
        if len(possible) > 1:
            same = [other for other in possible if not other.sessions.isdisjoint(part.sessions)]
            possible = same or possible
        return possible[0] if len(possible) == 1 else None

    def _may_precede(
        self, other: TraceFragment, part: TraceFragment, boundary: ToolBoundary
    ) -> bool:
        if other is part or other.trace_id in self._groups.goes_on_at:
            return False
        is_before = order(other) < order(part)
        if not is_before and not 0 < other.started_ns - part.started_ns <= self._skew_ns:
            return False
        ends_at = _goes_on_at(other)
        return agree(other, part) and ends_at is not None and may_meet(ends_at, boundary)


def _has_conversation(part: TraceFragment, conversation: str) -> bool:
    return part.pending_at is not None and part.pending_at.conversation == conversation


def _since(key: str) -> str:
    if stitch_keys.is_tool_call(key):
        call_id = shown(stitch_keys.tool_call_of(key))
        return f"its first model call was given the result of tool call {call_id} of that trace"
    if stitch_keys.is_without_calls(key):
        return "the input of its first model call begins with the input and output of that trace"
    return "its first model call continues the conversation of that trace with tool results"
