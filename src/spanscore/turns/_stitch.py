"""Find the traces that are parts of one turn, and put what was read of them together."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from spanscore.model.span import Span
from spanscore.model.step import Reading
from spanscore.turns import _same_call
from spanscore.turns._ends import Ends
from spanscore.turns._marks import Mark, Wanted, is_id, is_same, keys, may_meet

_MAX_PARTS = 1000
"""Traces that one turn may be spread over."""

_MAX_TRACES_ALIKE = 100
"""Traces that are compared where many look the same: the latest."""

_MAX_SKEW_NS = 2 * 10**9
"""By how much the clock of the host that asked may be ahead of the one that goes on."""

_MIN_QUOTE = 12
"""Characters of an answer that a linked question has to repeat before it is taken for a delivery of that answer."""


def group(found: Iterable[Ends]) -> list[list[Ends]]:
    """The traces that are parts of one turn, in order of time; those that are part of no other's turn stand alone.

    Traces are joined only on evidence that leaves no choice: where two traces could each be the one that goes on, none
    is joined. Those that only repeat the calls of others stand behind these. The order of `found` changes nothing.
    """
    known = {x.trace_id: x for x in found}
    repeated = _same_call.repeated(x.reports for x in known.values() if x.reports is not None)
    parts = _Parts(x for trace_id, x in known.items() if trace_id not in repeated)
    for join in (
        _join_conversations,
        _join_responses,
        _join_links,
        _join_tools,
        _join_holders,
        _join_held,
        _join_retold,
    ):
        join(parts)
    groups = {id(x): sorted(x.parts, key=_order) for x in parts.groups()}
    for part in sorted((replace(known[x], repeats=repeats) for x, repeats in repeated.items()), key=_order):
        groups[id(parts.group_of(part.repeats or ""))].append(part)
    return sorted(groups.values(), key=lambda x: _order(x[0]))


def is_whole(parts: Sequence[Ends]) -> bool:
    """Whether the traces of a group, in order, tell a turn from its question to its answer.

    One by itself never does that is known to be a part; but a gateway's may.
    """
    telling = [x for x in parts if x.shows and x.repeats is None]
    if not telling or telling[0].enters is not None or (len(parts) == 1 and parts[0].is_open):
        return False
    last = max(telling, key=lambda x: x.ended_ns)
    return last.leaves is None and last.answer is not None


def is_settled(parts: Sequence[Ends]) -> bool:
    """Whether the traces of a group are one that tells whole turns, and others that only repeat its calls."""
    told = [x for x in parts if x.repeats is None]
    return len(told) == 1 and not told[0].is_fragment


class _Group:
    """Traces that belong together, with the sessions and users that any of them names."""

    __slots__ = ("parts", "sessions", "users")

    def __init__(self, part: Ends) -> None:
        self.parts = [part]
        self.sessions, self.users = part.sessions, part.users

    def take_in(self, other: "_Group") -> None:
        """Make the parts of another group parts of this one."""
        self.parts += other.parts
        self.sessions, self.users = self.sessions | other.sessions, self.users | other.users


class _Parts:
    """The traces while they come together: for each the group that it is in."""

    def __init__(self, found: Iterable[Ends]) -> None:
        self.all = sorted(found, key=_order)
        self._group_of = {x.trace_id: _Group(x) for x in self.all}
        self.goes_on_at: dict[str, Ends] = {}
        """By trace id, the trace that goes on where that one ends."""

    def group_of(self, trace_id: str) -> _Group | None:
        """All that belongs together with a trace."""
        return self._group_of.get(trace_id)

    def join(self, one: Ends, other: Ends) -> bool:
        """Make the groups of two traces one; False where they contradict each other, or are too many."""
        groups = {id(x): x for x in (self._group_of[one.trace_id], self._group_of[other.trace_id])}
        if len(groups) == 1:
            return True
        smaller, larger = sorted(groups.values(), key=lambda x: len(x.parts))
        if len(smaller.parts) + len(larger.parts) > _MAX_PARTS or not _agree(smaller, larger):
            return False
        larger.take_in(smaller)
        for part in smaller.parts:
            self._group_of[part.trace_id] = larger
        return True

    def groups(self) -> list[_Group]:
        """The groups as they are now, each once."""
        return list({id(x): x for x in self._group_of.values()}.values())


def _order(part: Ends) -> tuple[int, int, str]:
    """Sorts by time; what started at once, as a clock of milliseconds has it, by how far the turn had come."""
    return part.started_ns, 0 if part.enters is None else 1 + part.enters.passed, part.trace_id


def _agree(one: "Ends | _Group", other: "Ends | _Group") -> bool:
    """Whether two can be of one session and one user, as far as they say."""
    pairs = ((one.sessions, other.sessions), (one.users, other.users))
    return not any(mine and theirs and mine.isdisjoint(theirs) for mine, theirs in pairs)


def _join_conversations(parts: _Parts) -> None:
    """Join a trace that was told what its calls returned to the one that asked for them and ended there.

    First those whose times agree with that; then, where ids say so, those of clocks that do not quite agree.
    """
    asked = defaultdict[str, list[Ends]](list)
    for part in parts.all:
        if part.left is not None:
            for key in keys(part.left):
                asked[key].append(part)
    entered = [x for x in parts.all if x.enters is not None]
    for skew_ns in (0, _MAX_SKEW_NS):
        entered = [x for x in entered if not _is_taken_up(parts, x, asked, skew_ns)]


def _is_taken_up(parts: _Parts, part: Ends, asked: Mapping[str, list[Ends]], skew_ns: int) -> bool:
    """Join `part` to the trace that it goes on from; False where there is none, or more than one."""
    if part.enters is None:
        return False
    for key in keys(part.enters):
        alike = _latest(asked.get(key, ()), part.started_ns + skew_ns)
        if alike and (is_id(key) or not skew_ns):
            before = _the_one_before(parts, part, part.enters, alike, skew_ns)
            if before is None or not parts.join(before, part):
                return False
            if part.answer is not None or part.leaves is not None:  # else it failed, and may have been tried again
                parts.goes_on_at[before.trace_id] = part
            return True
    return False


def _latest(parts: Sequence[Ends], until_ns: int) -> Sequence[Ends]:
    """Of traces in order of time, the last that had started by then."""
    end = bisect_right(parts, until_ns, key=lambda x: x.started_ns)
    return parts[max(0, end - _MAX_TRACES_ALIKE) : end]


def _the_one_before(parts: _Parts, part: Ends, mark: Mark, alike: Sequence[Ends], skew_ns: int) -> Ends | None:
    """Of the traces that end where `part` may go on, the only one that can be meant."""
    possible = [
        x
        for x in alike
        if x is not part
        and x.trace_id not in parts.goes_on_at
        and (_order(x) < _order(part) or 0 < x.started_ns - part.started_ns <= skew_ns)
        and _agree(x, part)
        and x.left is not None
        and may_meet(x.left, mark)
    ]
    if len(possible) > 1:
        alike = [x for x in possible if x.leaves is not None and x.leaves.conversation == mark.conversation]
        possible = alike or possible
    if len(possible) > 1:
        possible = [x for x in possible if not x.sessions.isdisjoint(part.sessions)] or possible
    return possible[0] if len(possible) == 1 else None


def _join_responses(parts: _Parts) -> None:
    """Join the traces that asked for an answer and that fetched it, which have its id in common."""
    fetched = defaultdict[str, list[Ends]](list)
    for part in parts.all:
        if part.response is not None:
            fetched[part.response].append(part)
    for same in fetched.values():
        if len(same) <= _MAX_TRACES_ALIKE and sum(x.asked is not None for x in same) <= 1:
            for part in same[1:]:
                parts.join(same[0], part)


def _join_links(parts: _Parts) -> None:
    """Join a trace to the one that it links to, unless it may be a turn of its own."""
    for part in parts.all:
        linked = (parts.group_of(x) for x in part.links)
        targets = {id(x): x for x in linked if x is not None and x is not parts.group_of(part.trace_id)}
        if len(targets) == 1:
            (target,) = targets.values()
            if _is_delivery(target.parts, part):
                parts.join(target.parts[0], part)


def _is_delivery(target: Sequence[Ends], part: Ends) -> bool:
    """Whether a trace that links to others does work for them; else it is the next turn, or not known to be this one.

    It does where it is a message's way from them, where it shows no agent or model, where those others still run or
    wait for an answer, or where its question is their answer; or where it tells an answer, but no question that it is
    to.
    """
    if (
        part.is_message
        or not part.shows
        or part.enters is not None
        or max(x.ended_ns for x in target) >= part.started_ns
    ):
        return True
    if part.asked is None and part.answer is not None:
        return True
    last = max(target, key=lambda x: x.ended_ns)
    if last.leaves is not None or not any(x.shows for x in target):
        return True
    answers = (x.answer for x in target if x.answer is not None and len(x.answer) >= _MIN_QUOTE)
    return part.asked is not None and any(x in part.asked for x in answers)


def _join_tools(parts: _Parts) -> None:
    """Join the trace of a tool that ran to the one that asked for it: by the call's id, else within its session."""
    asked = defaultdict[str, list[Ends]](list)
    for part in parts.all:
        for call in part.leaves.calls if part.leaves is not None else ():
            for key in dict.fromkeys(_keys_of_run(part, call)):
                asked[key].append(part)
    for part in parts.all:
        for call in part.ran:
            known = [x for x in _keys_of_run(part, call) if x in asked]
            for key in known[:1] if known and known[0].startswith("id ") else known:
                asker = _asker(parts, part, call, asked[key], is_sure=key.startswith("id "))
                if asker is not None:
                    parts.join(asker, part)


def _keys_of_run(part: Ends, call: Wanted) -> Iterator[str]:
    """By what the run of a tool and the request for it are brought together."""
    if call.call_id:
        yield f"id {call.call_id}"
    for session in part.sessions:
        yield f"session {session}\n{call.name}"


def _asker(parts: _Parts, part: Ends, call: Wanted, asked: Sequence[Ends], *, is_sure: bool) -> Ends | None:
    """The trace that asked for a tool's run; None where it could be one of several turns, or where none fits."""
    recent = _latest(asked, part.started_ns + _MAX_SKEW_NS)
    possible = [
        x for x in recent if _agree(x, part) and x.leaves is not None and any(is_same(y, call) for y in x.leaves.calls)
    ]
    if not is_sure or len(possible) > 1:
        possible = [x for x in possible if _is_pending(parts, x, part.started_ns)]
    distinct = {id(parts.group_of(x.trace_id)): x for x in possible}
    return next(iter(distinct.values())) if len(distinct) == 1 else None


def _is_pending(parts: _Parts, asker: Ends, at_ns: int) -> bool:
    """Whether a trace had asked for its calls by then, and was not yet told of them."""
    next_part = parts.goes_on_at.get(asker.trace_id)
    return asker.ended_ns <= at_ns and (next_part is None or at_ns <= next_part.started_ns)


def _join_holders(parts: _Parts) -> None:
    """Join fragments to the agent of their session that ran around them and shows no call of a model itself.

    There may be several in each other, as an agent in a workflow; beside each other they leave a choice.
    """
    holders = defaultdict[str, list[Ends]](list)
    for part in parts.all:
        for session in part.sessions if part.holds else ():
            holders[session].append(part)
    for group_ in parts.groups() if holders else []:
        members = group_.parts
        if any(x.holds for x in members) or not any(x.is_fragment for x in members):
            continue
        started_ns, ended_ns = min(x.started_ns for x in members), max(x.ended_ns for x in members)
        near = [x for session in group_.sessions for x in _latest(holders.get(session, ()), started_ns)]
        around = [x for x in near if x.started_ns <= started_ns and ended_ns <= x.ended_ns]
        around.sort(key=lambda x: (x.started_ns, -x.ended_ns))
        if all(inner.ended_ns <= outer.ended_ns for outer, inner in pairwise(around)):
            for holder in around:
                parts.join(holder, members[0])


def _join_held(parts: _Parts) -> None:
    """Join a trace to the only one around it that tells of its session the same question and the same answer.

    So an SDK reports a run that it wraps, and the hooks of the framework report it once more.
    """
    holders = defaultdict[tuple[str | None, str | None, str], list[Ends]](list)
    for part in parts.all:
        for session in part.sessions if part.holds else ():
            holders[part.asked, part.answer, session].append(part)
    held = defaultdict[str, list[Ends]](list)
    for part in parts.all if holders else ():
        same = {
            x.trace_id: x
            for session in (part.sessions if part.is_held and part.asked is not None else ())
            for x in _latest(holders.get((part.asked, part.answer, session), ()), part.started_ns)
            if part.ended_ns <= x.ended_ns
        }
        if len(same) == 1:
            held[next(iter(same))].append(part)
    for holder in parts.all if held else ():
        if len(held[holder.trace_id]) == 1:
            parts.join(holder, held[holder.trace_id][0])


def _join_retold(parts: _Parts) -> None:
    """Join what log records alone tell of a turn to the only silent trace of its session that ran at the time.

    Claude Code of May 2026 writes its records without the trace that they belong to.
    """
    silent = defaultdict[str, list[Ends]](list)
    for part in parts.all:
        for session in part.sessions if part.is_silent else ():
            silent[session].append(part)
    for part in parts.all if silent else ():
        near = [x for session in part.sessions if part.retells for x in _latest(silent.get(session, ()), part.ended_ns)]
        same = {x.trace_id: x for x in near if part.started_ns < x.ended_ns and part.asked in {None, x.asked}}
        if len(same) == 1:
            parts.join(next(iter(same.values())), part)


def merge(readings: Sequence[Reading]) -> Reading | None:
    """What was read of several traces, in order, as if it were one; None where they have a span id in common.

    A trace's outermost spans are put where they belong: into the span that they link to, or beside it where it had
    ended before; else into the only agent that shows no call of a model itself.
    """
    place = {x.span_id: (x.start_ns, number, x.span_id) for number, each in enumerate(readings) for x in each.spans}
    if len(place) < sum(len(x.spans) for x in readings):
        return None
    spans = sorted((x for reading in readings for x in reading.spans), key=lambda x: place[x.span_id])
    steps = sorted((x for reading in readings for x in reading.steps), key=lambda x: place[x.span.span_id])
    placed = _placed(spans, _holder(readings))
    return Reading(
        tuple(placed.get(x.span_id, x) for x in spans),
        tuple(replace(x, span=placed.get(x.span.span_id, x.span)) for x in steps),
        sum(x.unread for x in readings),
        {span_id: records for reading in readings for span_id, records in reading.logs.items()},
        told_by={span_id: step for reading in readings for span_id, step in reading.told_by.items()},
    )


def _holder(readings: Sequence[Reading]) -> Span | None:
    """The only agent in the traces that show no call of a model."""
    holders = [x for x in readings if not any(y.kind == "model" for y in x.steps)]
    agents = [x.span for reading in holders for x in reading.steps if x.kind == "agent"]
    return agents[0] if len(agents) == 1 else None


def _placed(spans: Sequence[Span], holder: Span | None) -> dict[str, Span]:
    """The outermost spans that belong into another trace, by id, each with its parent there."""
    known = {x.span_id: x for x in spans}
    placed: dict[str, Span] = {}
    for span in spans:
        if span.parent_span_id in known:
            continue
        linked = (placed.get(x.span_id, known.get(x.span_id)) for x in span.links)
        above = next((x for x in linked if x is not None), holder)
        if above is None or above.trace_id == span.trace_id:
            continue
        is_beside = above is not holder and 0 < above.end_ns <= span.start_ns
        parent_id = above.parent_span_id if is_beside else above.span_id
        if parent_id in known:
            placed[span.span_id] = replace(span, parent_span_id=parent_id)
    return placed
