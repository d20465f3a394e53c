"""Join an agent's trace to that of the tool call that it was asked by, where texts and times leave no choice."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from spanscore.model.record import record
from spanscore.turns.basis.times import MAX_SKEW_NS, Times, may_lie_in
from spanscore.turns.stitch.delegation_hints import DelegatingCall, answers
from spanscore.turns.stitch.fragment import TraceFragment
from spanscore.turns.stitch.groups import Group, Parts, agree, agree_in_user

_MIN_SAID = 24
"""Characters that a question and its answer must have together where the clocks or the sessions differ."""

_MAX_SLACK_NS = 10**8
"""By how much an agent's work may stick out of the call that it was asked by, though they name different sessions."""

_MAX_CALLERS = 20_000
"""Tool calls, of all traces that are looked at together, that may have asked another of these: of more none is joined.

Each is held against the turns that began while it ran, so this bounds the work for all of them.
"""

_MAX_DELEGATES = 50
"""Turns that were asked a text in one call's arguments while it ran: of more none is joined to that call."""


@dataclass(frozen=True, slots=True)
class _Delegate:
    """Traces that tell a whole turn, which may be what a tool call had done; `number` tells it from others."""

    number: int
    group: Group
    parts: tuple[TraceFragment, ...]
    question: int
    answers: frozenset[int]
    times: Times
    is_long: bool


@record()
class _Caller:
    """A tool call in a trace, which belongs together with the others of a group; `times` are when it ran."""

    part: TraceFragment
    group: Group
    call: DelegatingCall
    times: Times

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from others."""
        return self.part.trace_id, self.call.number


_Possible: TypeAlias = list[tuple[_Caller, list[_Delegate]]]
"""Tool calls, each with the turns that may be what it had done."""


def join_delegated(parts: Parts) -> None:
    """Join what a turn had done by an agent elsewhere, in a trace of its own, to that turn.

    That agent was asked, word for word, a text in a tool call's arguments; what it answered is the call's result, or a
    text in that; and it worked while the call ran. FirstOf those whose clocks agree, then those of which they do not
    quite.
    """
    callers = _asking(parts)
    if not 0 < len(callers) <= _MAX_CALLERS:
        return
    asked = frozenset(text for _, call in callers for text in call.said)
    done: set[tuple[str, int]] = set()
    for skew_ns in (0, _MAX_SLACK_NS, MAX_SKEW_NS):
        delegates = _delegates(parts, asked)
        if not delegates:
            return
        left = [x for x in _callers(parts, callers) if x.key not in done]
        found = ((x, _possible(x, delegates, skew_ns)) for x in left)
        for some in _together(_without_inner([x for x in found if x[1]])):
            if _is_sure(some, skew_ns):
                done.update(x.key for x, _ in some)
                _join(parts, some, skew_ns)


def _asking(parts: Parts) -> list[tuple[TraceFragment, DelegatingCall]]:
    """The tool calls in whose arguments is what some trace was asked, each with its trace."""
    questions = {x.question for x in parts.all if x.question is not None}
    return [(part, x) for part in parts.all for x in part.delegating_calls if not x.said.isdisjoint(questions)]


def _is_sure(possible: _Possible, skew_ns: int) -> bool:
    """Whether calls had these turns done that they may have had done, whichever of them each.

    They are calls of one trace, and enough of them; where the clocks differ, just as many as there are turns.
    """
    turns = {x.number for _, found in possible for x in found}
    is_one_trace = len({x.part.trace_id for x, _ in possible}) == 1
    return is_one_trace and (len(turns) == len(possible) if skew_ns else len(turns) <= len(possible))


def _callers(parts: Parts, delegating_calls: Sequence[tuple[TraceFragment, DelegatingCall]]) -> Iterator[_Caller]:
    """The tool calls with the time at which they ran; of one asked for in another trace, if that is known."""
    ended_ns = {x.trace_id: x.ended_ns for x in parts.all}
    asked_ns = {part.trace_id: ended_ns[before] for before, part in parts.goes_on_at.items()}
    for part, call in delegating_calls:
        group = parts.group_of(part.trace_id)
        started_ns = call.times[0] or asked_ns.get(part.trace_id)
        if group is not None and started_ns is not None:
            yield _Caller(part, group, call, (started_ns, call.times[1]))


def _delegates(parts: Parts, asked: frozenset[int]) -> dict[int, list[_Delegate]]:
    """The turns that were asked one of these texts, by that text, in order of time."""
    found = defaultdict[int, list[_Delegate]](list)
    for number, group in enumerate(parts.groups()):
        told = [x for x in group.parts if x.has_turn and x.trace_id not in parts.within]
        first = min(told, key=lambda x: (x.started_ns, x.trace_id), default=None)
        if first is None or first.question not in asked or first.resumes_at is not None:
            continue
        last = max(told, key=lambda x: (x.ended_ns, x.trace_id))
        if last.answer is None or last.pending_at is not None or (last.question is None and last.asked is not None):
            continue
        said = answers(last.answer)
        if first.question not in said:  # an echo says too little
            is_long = len((first.asked or "").strip()) + len(last.answer.strip()) >= _MIN_SAID
            times = (first.started_ns, last.ended_ns)
            delegate = _Delegate(number, group, tuple(told), first.question, frozenset(said), times, is_long)
            found[first.question].append(delegate)
    for alike in found.values():
        alike.sort(key=_order)
    return found


def _possible(caller: _Caller, delegates: Mapping[int, Sequence[_Delegate]], skew_ns: int) -> list[_Delegate]:
    """The turns that a call may have had done."""
    first_ns, last_ns = caller.times
    near: list[_Delegate] = []
    for text in caller.call.said:
        alike = delegates.get(text, ())
        start = bisect_left(alike, first_ns - skew_ns, key=_begun)
        end = bisect_right(alike, last_ns + skew_ns, key=_begun)
        if len(near) + end - start > _MAX_DELEGATES:
            return []
        near += alike[start:end]
    return [x for x in near if _may_be(caller, x, skew_ns)]


def _begun(delegate: _Delegate) -> int:
    return delegate.times[0]


def _may_be(caller: _Caller, delegate: _Delegate, skew_ns: int) -> bool:
    """Whether a turn may be what a call had done. What shows several sessions has to agree in all else."""
    if caller.group is delegate.group or caller.call.heard.isdisjoint(delegate.answers):
        return False
    if not may_lie_in(delegate.times, caller.times, skew_ns) or (skew_ns and not delegate.is_long):
        return False
    is_near = skew_ns <= _MAX_SLACK_NS and delegate.is_long
    return (agree_in_user if is_near else agree)(caller.group, delegate.group)


def _without_inner(possible: _Possible) -> _Possible:
    """Without those that another of a call's possible turns had done itself: one hands on what it was asked."""
    inner = defaultdict[int, set[int]](set)
    for caller, found in possible:
        inner[id(caller.group)].update(x.number for x in found)
    outer = ((x, _outer(found, inner)) for x, found in possible)
    return [x for x in outer if x[1]]


def _outer(found: list[_Delegate], inner: Mapping[int, set[int]]) -> list[_Delegate]:
    """Of a call's possible turns those that no other of these had done; `inner` is what each group had done."""
    theirs = [inner[id(x.group)] for x in found if id(x.group) in inner]
    return [x for x in found if not any(x.number in each for each in theirs)] if theirs else found


def _together(possible: _Possible) -> Iterator[_Possible]:
    """The calls that have possible turns in common, each time all of these."""
    calling = defaultdict[int, list[int]](list)
    for at, (_, found) in enumerate(possible):
        for delegate in found:
            calling[delegate.number].append(at)
    seen: set[int] = set()
    for start in range(len(possible)):
        some: _Possible = []
        waiting = [start]
        while waiting:
            at = waiting.pop()
            if at not in seen:
                seen.add(at)
                some.append(possible[at])
                waiting += [other for x in possible[at][1] for other in calling.pop(x.number, ())]
        if some:
            yield some


def _join(parts: Parts, possible: _Possible, skew_ns: int) -> None:
    """Join turns to the calls of one trace that had them done, each to a call of its own, the shortest around it.

    Which of several calls it is changes nothing that is told of the turn.
    """
    calling = defaultdict[int, list[_Caller]](list)
    for one, found in possible:
        for delegate in found:
            calling[delegate.number].append(one)
    delegates = {x.number: x for _, found in possible for x in found}
    taken: set[tuple[str, int]] = set()
    for delegate in sorted(delegates.values(), key=_order):
        around = [x for x in calling[delegate.number] if _may_be(x, delegate, skew_ns)]
        caller = min(around, key=lambda x: (x.key in taken, _lasting(x), x.times, x.key), default=None)
        if caller is None or parts.group_of(caller.part.trace_id) is parts.group_of(delegate.parts[0].trace_id):
            continue
        if parts.join(caller.part, delegate.parts[0], across_sessions=skew_ns <= _MAX_SLACK_NS):
            taken.add(caller.key)
            for part in delegate.parts:
                parts.within[part.trace_id] = caller.call.span_id


def _order(delegate: _Delegate) -> tuple[Times, str]:
    return delegate.times, delegate.parts[0].trace_id


def _lasting(caller: _Caller) -> int:
    return caller.times[1] - caller.times[0]
