"""Find the traces that are parts of one turn, by the reasons in the folder `reasons`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from graphlib import TopologicalSorter
from inspect import isabstract
from types import ModuleType

from spanscore import discovery
from spanscore.model.step import Reading
from spanscore.model.trace import AgentTrace
from spanscore.turns.stitch.fragment import Clue, TraceFragment
from spanscore.turns.stitch.groups import Groups
from spanscore.turns.stitch.read_trace import ReadTrace
from spanscore.turns.stitch.reason import Reason

REASONS_FOLDER = "spanscore.turns.stitch.reasons"
"""The package whose modules are the reasons; the name of a module is that of its reason."""


@cache
def all_reasons() -> tuple[Reason, ...]:
    """All reasons, in the order in which they join: later ones see what earlier ones joined."""
    found = {reason.name: reason for reason in map(_reason_in, discovery.modules(REASONS_FOLDER))}
    order = TopologicalSorter({name: sorted(part.after) for name, part in sorted(found.items())})
    return tuple(found[name] for name in order.static_order())


def _reason_in(module: ModuleType) -> Reason:
    """The reason that a module has, with the module's name."""
    for item in vars(module).values():
        if isinstance(item, type) and issubclass(item, Reason) and not isabstract(item):
            item.name = module.__name__.rpartition(".")[2]
            reason: Reason = item()
            return reason
    raise TypeError(f"{module.__name__} has no subclass of Reason: write one, or name it _x.py")


def reference() -> str:
    """The table of the reasons, in the order in which they join, in Markdown."""
    rows = (f"| `{reason.name}` | {reason.words} |" for reason in all_reasons())
    return "\n".join(["| reason | joined when |", "|---|---|", *rows])


class Stitching:
    """Joins traces by all reasons but those that are switched `off`, which are known by name."""

    def __init__(self, off: Collection[str] = ()) -> None:
        unknown = set(off) - {reason.name for reason in all_reasons()}
        if unknown:
            known = ", ".join(sorted(reason.name for reason in all_reasons()))
            named = ", ".join(sorted(unknown))
            raise ValueError(f"no reason to join traces: {named}; known: {known}")
        self._reasons = tuple(reason for reason in all_reasons() if reason.name not in off)
        self._off = frozenset(off)

    def uses(self, name: str) -> bool:
        """Whether traces are joined by a reason."""
        return name not in self._off

    def fragment_of(
        self,
        reading: Reading,
        traces: Sequence[AgentTrace],
        *,
        linked: bool = False,
    ) -> TraceFragment | None:
        """The fragment that a trace is; None for an ordinary trace, as most are.

        `traces` are its turns. `linked`: another trace refers to it, so it is returned even if it
        looks complete.
        """
        if not reading.steps:
            return None
        trace = ReadTrace(reading, traces)
        if not linked and not any(other.may_apply(trace) for other in self._reasons):
            return None
        found = (reason.clue(trace) for reason in self._reasons)
        clues = {type(part): part for part in found if part is not None}
        if not linked and not any(clue.is_evidence for clue in clues.values()):
            return None
        return self._with_keys(_fragment(trace, clues))

    def group(self, found: Iterable[TraceFragment]) -> list[list[TraceFragment]]:
        """The traces of each turn, in order of time; one that is joined to no other stands alone.

        A trace that a tool call of another asked for comes after that one; its `within` is the
        call's span. Traces are joined only on evidence that leaves no choice: where two could each
        be the one that goes on, none is joined. Those that only repeat the calls of others come
        last. The order of `found` changes nothing.
        """
        groups = Groups({part.trace_id: part for part in found}.values())
        for reason in self._reasons:
            reason.join(groups)
        return groups.result()

    def _with_keys(self, part: TraceFragment) -> TraceFragment:
        offers = frozenset(key for reason in self._reasons for key in reason.offers(part))
        seeks = frozenset(key for reason in self._reasons for key in reason.seeks(part))
        return replace(part, offers=offers, seeks=seeks)


def _fragment(trace: ReadTrace, clues: Mapping[type[Clue], Clue]) -> TraceFragment:
    return TraceFragment(
        trace_id=trace.reading.spans[0].trace_id,
        started_ns=min(step.span.start_ns for step in trace.steps),
        ended_ns=max(max(step.span.start_ns, step.span.end_ns) for step in trace.steps),
        sessions=trace.sessions,
        users=trace.users,
        has_turn=bool(trace.traces),
        question=trace.question,
        answer=trace.answer,
        pending_at=trace.pending_at,
        resumes_at=trace.resumes_at,
        clues=clues,
    )


def is_whole(parts: Sequence[TraceFragment]) -> bool:
    """Whether the traces of a group, in order, contain a turn from its question to its answer.

    A single trace that is known to be a part never does, unless a gateway's trace repeats its
    calls.
    """
    own = [part for part in parts if part.has_turn and part.repeats is None]
    if not own or own[0].resumes_at is not None or (len(parts) == 1 and parts[0].is_open):
        return False
    last = max(own, key=lambda x: x.ended_ns)
    return last.pending_at is None and last.answer is not None


def delegating_calls(parts: Iterable[TraceFragment]) -> dict[str, str]:
    """For each trace of a group whose agent a tool call called, by trace id, the span of that
    call.
    """
    return {part.trace_id: part.within for part in parts if part.within}


def is_settled(parts: Sequence[TraceFragment]) -> bool:
    """Whether a group is one trace with whole turns, beside traces that only repeat its calls."""
    own = [part for part in parts if part.repeats is None]
    return len(own) == 1 and not own[0].is_fragment
