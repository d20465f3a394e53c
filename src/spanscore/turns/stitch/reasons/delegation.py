"""A sub-agent in a trace of its own, and the tool call in another trace that called it.

A call over A2A, MCP or HTTP makes two such traces if it does not pass on the trace context. Texts
and times show which call it was, and the sub-agent's trace is put into that call. Nearly every
trace contains texts, so the traces that are compared are found beforehand: in files by
`delegation_hints.may_delegate`, on a server by `delegation_index`.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from spanscore.model.record import record
from spanscore.turns.basis import stitch_keys
from spanscore.turns.basis.times import MAX_SKEW_NS, Times, may_lie_in
from spanscore.turns.stitch.delegation_hints import (
    DelegatingCall,
    answers,
    delegating_calls,
    hints_of,
)
from spanscore.turns.stitch.fragment import Clue, TraceFragment
from spanscore.turns.stitch.groups import Group, Groups, agree, agree_in_user, shown
from spanscore.turns.stitch.read_trace import ReadTrace
from spanscore.turns.stitch.reason import Reason

_MIN_CHARS = 24
"""Characters of question and answer together, where the clocks or the sessions differ: at least."""

_MAX_SLACK_NS = 10**8
"""By how much work may stick out of its call though the two name different sessions."""

_MAX_CALLERS = 20_000
"""Tool calls, of all traces compared, that may have called another of these: of more none is
joined.

Each is compared with the turns that began while it ran, so this bounds the work for all of them.
"""

_MAX_DELEGATES = 50
"""Turns whose question is one call's text and that began while it ran: of more none is joined to
that call.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationClue(Clue):
    """The texts that another trace may contain as well: the question as its hash, and the tool
    calls.

    Nearly every trace contains such texts, so they are no evidence by themselves. `may_delegate` in
    files, and `DelegationIndex` on a server, find the traces with equal texts.
    """

    question: int | None
    """Stands for the question, where the trace has one turn."""

    calls: tuple[DelegatingCall, ...]
    """Its tool calls by which another trace's agent may have been called."""


class Delegation(Reason):
    """A tool call in one trace called the agent whose turn is the other trace."""

    words = (
        "a tool call, and the only turn elsewhere that was asked, word for word, a text in "
        "the call's arguments, answered what the call returned or a text in that, and ran "
        "while the call did ([below](#sub-agents-in-other-traces))"
    )
    after = ("logs_alone",)

    def may_apply(self, trace: ReadTrace) -> bool:
        """Never by the trace itself: nearly each has a question."""
        del trace
        return False

    def clue(self, trace: ReadTrace) -> DelegationClue | None:
        """Its question and its tool calls."""
        hints = hints_of(trace.reading, trace.traces)
        if hints is None:
            return None
        calls = delegating_calls(hints)
        return DelegationClue(question=hints.question, calls=calls, is_evidence=False)

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """Its question."""
        question = _question(part)
        return () if question is None else (stitch_keys.question(question),)

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """The texts that its tool calls may have passed on as questions."""
        texts = {text for call in _calls(part) for text in call.arguments}
        return map(stitch_keys.question, texts)

    def join(self, groups: Groups) -> None:
        """Join the turn of an agent in a trace of its own to the turn whose tool call delegated it.

        The agent's question is, word for word, a text in the tool call's arguments; its answer is
        the call's result, or a text in that; and it worked while the call ran. Traces whose clocks
        agree are joined first, then those whose clocks differ a little.
        """
        calls = _possible_calls(groups)
        if not 0 < len(calls) <= _MAX_CALLERS:
            return
        questions = frozenset(text for _, call in calls for text in call.arguments)
        done: set[tuple[str, int]] = set()
        for skew_ns in (0, _MAX_SLACK_NS, MAX_SKEW_NS):
            delegates = _delegates(groups, questions)
            if not delegates:
                return
            waiting = [caller for caller in _callers(groups, calls) if caller.key not in done]
            found = ((caller, _possible(caller, delegates, skew_ns)) for caller in waiting)
            possible = _without_inner([pair for pair in found if pair[1]])
            for sharing in _sharing_turns(possible):
                if _is_sure(sharing, skew_ns):
                    done.update(caller.key for caller, _ in sharing)
                    self._join_all(groups, sharing, skew_ns)

    def _join_all(self, groups: Groups, possible: "_Possible", skew_ns: int) -> None:
        """Join turns to the calls of one trace that delegated them, each to a call of its own.

        It is the shortest call that ran around the turn. Which of several calls is chosen changes
        no fact of the turn.
        """
        calling = defaultdict[int, list[_Caller]](list)
        for caller, found in possible:
            for delegate in found:
                calling[delegate.number].append(caller)
        delegates = {other.number: other for _, found in possible for other in found}
        taken: set[tuple[str, int]] = set()
        for delegate in sorted(delegates.values(), key=_order):
            callers = calling[delegate.number]
            around = [caller for caller in callers if _may_be(caller, delegate, skew_ns)]
            best = sorted(around, key=lambda x: (x.key in taken, _lasting(x), x.times, x.key))
            if best and self._is_joined(groups, best[0], delegate, skew_ns):
                taken.add(best[0].key)

    def _is_joined(
        self,
        groups: Groups,
        caller: "_Caller",
        delegate: "_Delegate",
        skew_ns: int,
    ) -> bool:
        """Join a turn to a call; False where they are in one group, or contradict each other."""
        caller_part, delegate_part = caller.part, delegate.parts[0]
        if groups.group_of(caller_part.trace_id) is groups.group_of(delegate_part.trace_id):
            return False
        is_joined = groups.join(
            caller_part,
            delegate_part,
            reason=self.name,
            since="it was asked a text in the arguments of a tool call of that trace (span "
            f"{shown(caller.call.span_id)}), ran while the call did, and answered what it returned",
            across_sessions=skew_ns <= _MAX_SLACK_NS,
        )
        if is_joined:
            for part in delegate.parts:
                groups.within[part.trace_id] = caller.call.span_id
        return is_joined


def _question(part: TraceFragment) -> int | None:
    clue = part.clue(DelegationClue)
    return None if clue is None else clue.question


def _calls(part: TraceFragment) -> tuple[DelegatingCall, ...]:
    clue = part.clue(DelegationClue)
    return () if clue is None else clue.calls


@dataclass(frozen=True, slots=True)
class _Delegate:
    """The traces of a whole turn that a tool call may have delegated; `number` is unique to it."""

    number: int
    group: Group
    parts: tuple[TraceFragment, ...]
    question: int
    answers: frozenset[int]
    times: Times
    is_long: bool


@record()
class _Caller:
    """A tool call in a trace of a group; `times` are when it ran."""

    part: TraceFragment
    group: Group
    call: DelegatingCall
    times: Times

    @property
    def key(self) -> tuple[str, int]:
        """Identifies the call among those of all traces."""
        return self.part.trace_id, self.call.number


_Possible: TypeAlias = list[tuple[_Caller, list[_Delegate]]]
"""Tool calls, each with the turns that it may have delegated."""


def _possible_calls(groups: Groups) -> list[tuple[TraceFragment, DelegatingCall]]:
    """The tool calls whose arguments contain the question of some trace, each with its trace."""
    questions = {_question(other) for other in groups.all} - {None}
    found: list[tuple[TraceFragment, DelegatingCall]] = []
    for part in groups.all:
        calls = _calls(part)
        found += [(part, call) for call in calls if not call.arguments.isdisjoint(questions)]
    return found


def _is_sure(possible: _Possible, skew_ns: int) -> bool:
    """Whether it is certain that these calls delegated these turns, whichever call each of the
    turns.

    They are calls of one trace, at least as many as the turns; where the clocks differ, exactly as
    many.
    """
    turns = {delegate.number for _, found in possible for delegate in found}
    if len({part.part.trace_id for part, _ in possible}) != 1:
        return False
    return len(turns) == len(possible) if skew_ns else len(turns) <= len(possible)


def _callers(
    groups: Groups,
    calls: Sequence[tuple[TraceFragment, DelegatingCall]],
) -> Iterator[_Caller]:
    """The tool calls with the times at which they ran, as far as these are known."""
    ended_ns = {other.trace_id: other.ended_ns for other in groups.all}
    requested_ns = {after.trace_id: ended_ns[before] for before, after in groups.goes_on_at.items()}
    for part, call in calls:
        group = groups.group_of(part.trace_id)
        started_ns = call.times[0] or requested_ns.get(part.trace_id)
        if group is not None and started_ns is not None:
            yield _Caller(part, group, call, (started_ns, call.times[1]))


def _delegates(groups: Groups, questions: frozenset[int]) -> dict[int, list[_Delegate]]:
    """The turns with one of these texts as their question, by that text, in order of time."""
    found = defaultdict[int, list[_Delegate]](list)
    for number, group in enumerate(groups.groups()):
        own = [part for part in group.parts if part.trace_id not in groups.within]
        members = [part for part in own if part.has_turn]
        delegate = _delegate(number, group, members, questions) if members else None
        if delegate is not None:
            found[delegate.question].append(delegate)
    for alike in found.values():
        alike.sort(key=_order)
    return found


def _delegate(
    number: int,
    group: Group,
    members: Sequence[TraceFragment],
    questions: frozenset[int],
) -> _Delegate | None:
    """The turn of these traces, where it is whole and its question is one of these texts."""
    first = min(members, key=lambda x: (x.started_ns, x.trace_id))
    last = max(members, key=lambda x: (x.ended_ns, x.trace_id))
    question = _question(first)
    if question is None or question not in questions or first.resumes_at is not None:
        return None
    is_unknown = _question(last) is None and last.question is not None
    if last.answer is None or last.pending_at is not None or is_unknown:
        return None
    answered = answers(last.answer)
    if question in answered:  # an echo is no evidence
        return None
    is_long = len((first.question or "").strip()) + len(last.answer.strip()) >= _MIN_CHARS
    times = (first.started_ns, last.ended_ns)
    return _Delegate(number, group, tuple(members), question, frozenset(answered), times, is_long)


def _possible(
    caller: _Caller,
    delegates: Mapping[int, Sequence[_Delegate]],
    skew_ns: int,
) -> list[_Delegate]:
    """The turns that a call may have delegated."""
    first_ns, last_ns = caller.times
    near: list[_Delegate] = []
    for text in caller.call.arguments:
        alike = delegates.get(text, ())
        start = bisect_left(alike, first_ns - skew_ns, key=_begun)
        end = bisect_right(alike, last_ns + skew_ns, key=_begun)
        if len(near) + end - start > _MAX_DELEGATES:
            return []
        near += alike[start:end]
    return [delegate for delegate in near if _may_be(caller, delegate, skew_ns)]


def _begun(delegate: _Delegate) -> int:
    return delegate.times[0]


def _may_be(caller: _Caller, delegate: _Delegate, skew_ns: int) -> bool:
    """Whether a call may have delegated a turn: where their sessions differ, all else has to
    agree.
    """
    if caller.group is delegate.group or caller.call.results.isdisjoint(delegate.answers):
        return False
    if not may_lie_in(delegate.times, caller.times, skew_ns) or (skew_ns and not delegate.is_long):
        return False
    is_near = skew_ns <= _MAX_SLACK_NS and delegate.is_long
    return (agree_in_user if is_near else agree)(caller.group, delegate.group)


def _without_inner(possible: _Possible) -> _Possible:
    """The possible turns of a call without those that another of them delegated in turn, by handing
    on its question.
    """
    inner = defaultdict[int, set[int]](set)
    for caller, found in possible:
        inner[id(caller.group)].update(delegate.number for delegate in found)
    outer = ((part, _outer(found, inner)) for part, found in possible)
    return [pair for pair in outer if pair[1]]


def _outer(found: list[_Delegate], inner: Mapping[int, set[int]]) -> list[_Delegate]:
    """The possible turns of a call that no other of them delegated; `inner` contains those of each
    group.
    """
    theirs = [inner[id(delegate.group)] for delegate in found if id(delegate.group) in inner]
    if not theirs:
        return found
    return [one for one in found if not any(one.number in numbers for numbers in theirs)]


def _sharing_turns(possible: _Possible) -> Iterator[_Possible]:
    """The calls that have possible turns in common, each time all calls that share them."""
    calling = defaultdict[int, list[int]](list)
    for at, (_, found) in enumerate(possible):
        for delegate in found:
            calling[delegate.number].append(at)
    seen: set[int] = set()
    for start in range(len(possible)):
        sharing: _Possible = []
        waiting = [start]
        while waiting:
            at = waiting.pop()
            if at not in seen:
                seen.add(at)
                sharing.append(possible[at])
                for delegate in possible[at][1]:
                    waiting += calling.pop(delegate.number, ())
        if sharing:
            yield sharing


def _order(delegate: _Delegate) -> tuple[Times, str]:
    return delegate.times, delegate.parts[0].trace_id


def _lasting(caller: _Caller) -> int:
    return caller.times[1] - caller.times[0]
