"""Find the traces that are parts of one turn, by the reasons in the folder `reasons`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from inspect import isabstract

from spanscore import discovery
from spanscore.model.step import Reading
from spanscore.model.trace import AgentTrace
from spanscore.turns.stitch.fragment import Clue, TraceFragment
from spanscore.turns.stitch.groups import Groups
from spanscore.turns.stitch.read_trace import ReadTrace
from spanscore.turns.stitch.reason import Reason


def _found() -> tuple[Reason, ...]:
    """The reasons, in the order in which they join."""
    found: dict[str, Reason] = {}
    for module in discovery.modules("spanscore.turns.stitch.reasons"):
        for item in vars(module).values():
            is_reason = isinstance(item, type) and issubclass(item, Reason) and not isabstract(item)
            if is_reason and item.__module__ == module.__name__:
                item.name = module.__name__.rpartition(".")[2]
                found[item.name] = item()
    order = TopologicalSorter({name: sorted(x.after) for name, x in sorted(found.items())})
    return tuple(found[name] for name in order.static_order())


REASONS = _found()
"""All reasons, in the order in which they join: later ones see what earlier ones joined."""


def fragment_of(
    reading: Reading,
    traces: Sequence[AgentTrace],
    *,
    linked: bool = False,
) -> TraceFragment | None:
    """The fragment that a trace is; None for an ordinary trace, as most are.

    `traces` are its turns. `linked`: another trace refers to it, so it is returned even if it looks
    complete.
    """
    if not reading.steps:
        return None
    trace = ReadTrace(reading, traces)
    if not linked and not any(x.may_apply(trace) for x in REASONS):
        return None
    clues = {type(x): x for x in (reason.clue(trace) for reason in REASONS) if x is not None}
    if not linked and not any(x.is_evidence for x in clues.values()):
        return None
    return _with_keys(trace, clues)


def _with_keys(trace: ReadTrace, clues: Mapping[type[Clue], Clue]) -> TraceFragment:
    part = TraceFragment(
        trace_id=trace.reading.spans[0].trace_id,
        started_ns=min(x.span.start_ns for x in trace.steps),
        ended_ns=max(max(x.span.start_ns, x.span.end_ns) for x in trace.steps),
        sessions=trace.sessions,
        users=trace.users,
        has_turn=bool(trace.traces),
        asked=trace.question,
        answer=trace.answer,
        pending_at=trace.pending_at,
        resumes_at=trace.resumes_at,
        clues=clues,
    )
    offers = frozenset(key for reason in REASONS for key in reason.offers(part))
    seeks = frozenset(key for reason in REASONS for key in reason.seeks(part))
    return replace(part, offers=offers, seeks=seeks)


def group(found: Iterable[TraceFragment]) -> list[list[TraceFragment]]:
    """The traces of each turn, in order of time; one that is joined to no other stands alone.

    A trace that a tool call of another asked for comes after that one; its `within` is the call's
    span. Traces are joined only on evidence that leaves no choice: where two could each be the one
    that goes on, none is joined. Those that only repeat the calls of others come last. The order of
    `found` changes nothing.
    """
    groups = Groups({x.trace_id: x for x in found}.values())
    for reason in REASONS:
        reason.join(groups)
    return groups.result()


def is_whole(parts: Sequence[TraceFragment]) -> bool:
    """Whether the traces of a group, in order, contain a turn from its question to its answer.

    One by itself never does that is known to be a part; but a gateway's may.
    """
    own = [x for x in parts if x.has_turn and x.repeats is None]
    if not own or own[0].resumes_at is not None or (len(parts) == 1 and parts[0].is_open):
        return False
    last = max(own, key=lambda x: x.ended_ns)
    return last.pending_at is None and last.answer is not None


def asked_within(parts: Iterable[TraceFragment]) -> dict[str, str]:
    """By trace id, the span of the tool call that asked for a trace of a group."""
    return {x.trace_id: x.within for x in parts if x.within}


def is_settled(parts: Sequence[TraceFragment]) -> bool:
    """Whether a group is one trace with whole turns, and others that only repeat its calls."""
    own = [x for x in parts if x.repeats is None]
    return len(own) == 1 and not own[0].is_fragment
