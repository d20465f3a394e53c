"""Find the traces that are parts of one turn."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from spanscore.turns.basis import stitch_keys
from spanscore.turns.basis.times import MAX_SKEW_NS
from spanscore.turns.basis.tool_boundary import UNRECORDED, ToolBoundary, Wanted, is_same, keys, may_meet
from spanscore.turns.stitch import gateway
from spanscore.turns.stitch.delegation import join_delegated
from spanscore.turns.stitch.fragment import TraceFragment
from spanscore.turns.stitch.groups import MAX_ALIKE, Parts, agree, latest, order

_MIN_QUOTE = 12
"""Characters of an answer that a linked question has to repeat before it is taken for a delivery of that answer."""


def group(found: Iterable[TraceFragment]) -> list[list[TraceFragment]]:
    """The traces that are parts of one turn, in order of time; those that are part of no other's turn stand alone.

    A trace that a tool call of another asked for comes after that one; its `within` names the call's span.

    Traces are joined only on evidence that leaves no choice: where two traces could each be the one that goes on, none
    is joined. Those that only repeat the calls of others stand behind these. The order of `found` changes nothing.
    """
    known = {x.trace_id: x for x in found}
    repeated = gateway.repeated(x.reports for x in known.values() if x.reports is not None)
    parts = Parts(x for trace_id, x in known.items() if trace_id not in repeated)
    for join in (
        _join_conversations,
        _join_responses,
        _join_links,
        _join_tools,
        _join_holders,
        _join_held,
        _join_retold,
        join_delegated,
    ):
        join(parts)
    groups = {id(x): parts.in_order(x.parts) for x in parts.groups()}
    for part in sorted((replace(known[x], repeats=repeats) for x, repeats in repeated.items()), key=order):
        groups[id(parts.group_of(part.repeats or ""))].append(part)
    return sorted(groups.values(), key=lambda x: order(x[0]))


def is_whole(parts: Sequence[TraceFragment]) -> bool:
    """Whether the traces of a group, in order, tell a turn from its question to its answer.

    One by itself never does that is known to be a part; but a gateway's may.
    """
    telling = [x for x in parts if x.has_turn and x.repeats is None]
    if not telling or telling[0].resumes_at is not None or (len(parts) == 1 and parts[0].is_open):
        return False
    last = max(telling, key=lambda x: x.ended_ns)
    return last.pending_at is None and last.answer is not None


def asked_within(parts: Iterable[TraceFragment]) -> dict[str, str]:
    """Of the traces of a group, by id, the span of the tool call that each was asked by, if it was."""
    return {x.trace_id: x.within for x in parts if x.within}


def is_settled(parts: Sequence[TraceFragment]) -> bool:
    """Whether the traces of a group are one that tells whole turns, and others that only repeat its calls."""
    told = [x for x in parts if x.repeats is None]
    return len(told) == 1 and not told[0].is_fragment


def _join_conversations(parts: Parts) -> None:
    """Join a trace that was told what its calls returned to the one that asked for them and ended there.

    FirstOf those whose times agree with that; then, where ids say so, those of clocks that do not quite agree.
    """
    asked = defaultdict[str, list[TraceFragment]](list)
    for part in parts.all:
        if part.may_go_on_at is not None:
            for key in keys(part.may_go_on_at):
                asked[key].append(part)
    entered = [x for x in parts.all if x.resumes_at is not None]
    for skew_ns in (0, MAX_SKEW_NS):
        entered = [x for x in entered if not _is_taken_up(parts, x, asked, skew_ns)]


def _is_taken_up(parts: Parts, part: TraceFragment, asked: Mapping[str, list[TraceFragment]], skew_ns: int) -> bool:
    """Join `part` to the trace that it goes on from; False where there is none, or more than one."""
    if part.resumes_at is None:
        return False
    for key in keys(part.resumes_at):
        alike = latest(asked.get(key, ()), part.started_ns + skew_ns)
        if alike and (stitch_keys.is_tool_call(key) or not skew_ns):
            before = _the_one_before(parts, part, part.resumes_at, alike, skew_ns)
            if before is None or not parts.join(before, part):
                return False
            if part.answer is not None or part.pending_at is not None:  # else it failed, and may have been tried again
                parts.goes_on_at[before.trace_id] = part
            return True
    return False


def _the_one_before(
    parts: Parts, part: TraceFragment, boundary: ToolBoundary, alike: Sequence[TraceFragment], skew_ns: int
) -> TraceFragment | None:
    """Of the traces that end where `part` may go on, the only one that can be meant."""
    possible = [
        x
        for x in alike
        if x is not part
        and x.trace_id not in parts.goes_on_at
        and (order(x) < order(part) or 0 < x.started_ns - part.started_ns <= skew_ns)
        and agree(x, part)
        and x.may_go_on_at is not None
        and may_meet(x.may_go_on_at, boundary)
    ]
    if len(possible) > 1:
        alike = [x for x in possible if x.pending_at is not None and x.pending_at.conversation == boundary.conversation]
        possible = alike or possible
    if len(possible) > 1:
        possible = [x for x in possible if not x.sessions.isdisjoint(part.sessions)] or possible
    return possible[0] if len(possible) == 1 else None


def _join_responses(parts: Parts) -> None:
    """Join the traces that asked for an answer and that fetched it, which have its id in common."""
    fetched = defaultdict[str, list[TraceFragment]](list)
    for part in parts.all:
        if part.response is not None:
            fetched[part.response].append(part)
    for same in fetched.values():
        if len(same) <= MAX_ALIKE and sum(x.asked is not None for x in same) <= 1:
            for part in same[1:]:
                parts.join(same[0], part)


def _join_links(parts: Parts) -> None:
    """Join a trace to the one that it links to, unless it may be a turn of its own."""
    for part in parts.all:
        linked = (parts.group_of(x) for x in part.links)
        targets = {id(x): x for x in linked if x is not None and x is not parts.group_of(part.trace_id)}
        if len(targets) == 1:
            (target,) = targets.values()
            if _is_delivery(target.parts, part):
                parts.join(target.parts[0], part)


def _is_delivery(target: Sequence[TraceFragment], part: TraceFragment) -> bool:
    """Whether a trace that links to others does work for them; else it is the next turn, or not known to be this one.

    It does where it is a message's way from them, where it shows no agent or model, where those others still run or
    wait for an answer, or where its question is their answer; or where it tells an answer, but no question that it is
    to.
    """
    if (
        part.is_message
        or not part.has_turn
        or part.resumes_at is not None
        or max(x.ended_ns for x in target) >= part.started_ns
    ):
        return True
    if part.asked is None and part.answer is not None:
        return True
    last = max(target, key=lambda x: x.ended_ns)
    if last.pending_at is not None or not any(x.has_turn for x in target):
        return True
    answers = (x.answer for x in target if x.answer is not None and len(x.answer) >= _MIN_QUOTE)
    return part.asked is not None and any(x in part.asked for x in answers)


def _join_tools(parts: Parts) -> None:
    """Join the trace of a tool that ran to the one that asked for it: by the call's id, else within its session."""
    asked = defaultdict[str, list[TraceFragment]](list)
    for part in parts.all:
        for call in part.unanswered_calls:
            for key in dict.fromkeys(_keys_of_run(part, call)):
                asked[key].append(part)
    for part in parts.all:
        for call in part.ran:
            known = [x for x in (*_keys_of_run(part, call), *_keys_of_run(part, UNRECORDED)) if x in asked]
            for key in known[:1] if known and stitch_keys.is_tool_call(known[0]) else known:
                asker = _asker(parts, part, call, asked[key], is_sure=stitch_keys.is_tool_call(key))
                if asker is not None:
                    parts.join(asker, part)
                    break


def _keys_of_run(part: TraceFragment, call: Wanted) -> Iterator[str]:
    """By what the run of a tool and the request for it are brought together."""
    if call.call_id:
        yield stitch_keys.tool_call(call.call_id)
    for session in part.sessions:
        yield stitch_keys.tool(session, call.name)


def _asker(
    parts: Parts, part: TraceFragment, call: Wanted, asked: Sequence[TraceFragment], *, is_sure: bool
) -> TraceFragment | None:
    """The trace that asked for a tool's run; None where it could be one of several turns, or where none fits."""
    recent = latest(asked, part.started_ns + MAX_SKEW_NS)
    possible = [x for x in recent if agree(x, part) and any(is_same(y, call) for y in x.unanswered_calls)]
    if not is_sure or len(possible) > 1:
        possible = [x for x in possible if _is_pending(parts, x, part.started_ns)]
    distinct = {id(parts.group_of(x.trace_id)): x for x in possible}
    return next(iter(distinct.values())) if len(distinct) == 1 else None


def _is_pending(parts: Parts, asker: TraceFragment, at_ns: int) -> bool:
    """Whether a trace had asked for its calls by then, and was not yet told of them.

    Of one that does not tell what it asked for it must be known that it was told later.
    """
    next_part = parts.goes_on_at.get(asker.trace_id)
    if next_part is None:
        return asker.ended_ns <= at_ns and UNRECORDED not in asker.unanswered_calls
    return asker.ended_ns <= at_ns <= next_part.started_ns


def _join_holders(parts: Parts) -> None:
    """Join fragments to the agent of their session that ran around them and shows no call of a model itself.

    There may be several in each other, as an agent in a workflow; beside each other they leave a choice.
    """
    holders = defaultdict[str, list[TraceFragment]](list)
    for part in parts.all:
        for session in part.sessions if part.lacks_model_calls else ():
            holders[session].append(part)
    for group_ in parts.groups() if holders else []:
        members = group_.parts
        if any(x.lacks_model_calls for x in members) or not any(x.is_fragment for x in members):
            continue
        started_ns, ended_ns = min(x.started_ns for x in members), max(x.ended_ns for x in members)
        near = [x for session in group_.sessions for x in latest(holders.get(session, ()), started_ns)]
        around = [x for x in near if x.started_ns <= started_ns and ended_ns <= x.ended_ns]
        around.sort(key=lambda x: (x.started_ns, -x.ended_ns))
        if all(inner.ended_ns <= outer.ended_ns for outer, inner in pairwise(around)):
            for holder in around:
                parts.join(holder, members[0])


def _join_held(parts: Parts) -> None:
    """Join a trace to the only one around it that tells of its session the same question and the same answer.

    So an SDK reports a run that it wraps, and the hooks of the framework report it once more.
    """
    holders = defaultdict[tuple[str | None, str | None, str], list[TraceFragment]](list)
    for part in parts.all:
        for session in part.sessions if part.lacks_model_calls else ():
            holders[part.asked, part.answer, session].append(part)
    held = defaultdict[str, list[TraceFragment]](list)
    for part in parts.all if holders else ():
        same = {
            x.trace_id: x
            for session in (part.sessions if part.lacks_content and part.asked is not None else ())
            for x in latest(holders.get((part.asked, part.answer, session), ()), part.started_ns)
            if part.ended_ns <= x.ended_ns
        }
        if len(same) == 1:
            held[next(iter(same))].append(part)
    for holder in parts.all if held else ():
        if len(held[holder.trace_id]) == 1:
            parts.join(holder, held[holder.trace_id][0])


def _join_retold(parts: Parts) -> None:
    """Join what log records alone tell of a turn to the only silent trace of its session that ran at the time.

    Claude Code of May 2026 writes its records without the trace that they belong to.
    """
    silent = defaultdict[str, list[TraceFragment]](list)
    for part in parts.all:
        for session in part.sessions if part.lacks_answer else ():
            silent[session].append(part)
    for part in parts.all if silent else ():
        sessions = part.sessions if part.is_logs_only else ()
        near = [x for session in sessions for x in latest(silent.get(session, ()), part.ended_ns)]
        same = {x.trace_id: x for x in near if part.started_ns < x.ended_ns and part.asked in {None, x.asked}}
        if len(same) == 1:
            parts.join(next(iter(same.values())), part)
