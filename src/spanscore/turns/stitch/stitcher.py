"""The traces of one turn, found and combined."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from graphlib import TopologicalSorter
from inspect import isabstract
from itertools import chain
from types import ModuleType

from spanscore import discovery
from spanscore.model.span import Span, changed
from spanscore.model.step import Reading, Step
from spanscore.model.trace import AgentTrace
from spanscore.turns.basis.tool_boundary import digest
from spanscore.turns.stitch.fragment import Clue, ReadTrace, Sign, TraceFragment
from spanscore.turns.stitch.groups import Groups, Reason

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
        signs = [reason.signs for reason in self._reasons]
        self._signs = None if None in signs else frozenset[Sign]().union(*filter(None, signs))

    def uses(self, name: str) -> bool:
        """Whether traces are joined by a reason."""
        return name not in self._off

    def fragment_of(
        self, reading: Reading, traces: Sequence[AgentTrace], *, linked: bool = False
    ) -> TraceFragment | None:
        """The fragment that a trace is; None for an ordinary trace, as most are.

        `traces` are its turns. `linked`: another trace refers to it, so it is returned even if it
        looks complete.
        """
        if not reading.steps:
            return None
        trace = ReadTrace(reading, traces)
        if not linked and self._signs is not None and self._signs.isdisjoint(trace.signs()):
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
        return changed(part, offers=offers, seeks=seeks)


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


def merge(readings: Sequence[Reading], within: Mapping[str, str]) -> Reading | None:
    """What was read of several traces, in order, as one; None where they share a span id.

    A trace's outermost spans are put where they belong: into the span that they link to, or beside
    it where it had ended before; else into the tool call that `within` has for the trace's id; else
    into the only agent of a trace without model calls. The session of a trace in a tool call is its
    own, and not the turn's.
    """
    readings, within = _with_runs(readings, within)
    place: dict[str, tuple[int, int, str]] = {}
    for number, reading in enumerate(readings):
        place.update((x.span_id, (x.start_ns, number, x.span_id)) for x in reading.spans)
    if len(place) < sum(len(reading.spans) for reading in readings):
        return None
    spans = sorted(_spans_of(readings), key=lambda x: place[x.span_id])
    steps = sorted(_steps_of(readings), key=lambda x: place[x.span.span_id])
    placed = _placed(spans, _agent_without_model_calls(readings), within)
    return Reading(
        tuple(placed.get(span.span_id, span) for span in spans),
        tuple(_moved(step, placed, within) for step in steps),
        sum(reading.unread for reading in readings),
        dict(chain.from_iterable(reading.logs.items() for reading in readings)),
        other_reports=dict(
            chain.from_iterable(reading.other_reports.items() for reading in readings)
        ),
    )


def _spans_of(readings: Iterable[Reading]) -> Iterable[Span]:
    return chain.from_iterable(reading.spans for reading in readings)


def _steps_of(readings: Iterable[Reading]) -> Iterable[Step]:
    return chain.from_iterable(reading.steps for reading in readings)


def _with_runs(
    readings: Sequence[Reading], within: Mapping[str, str]
) -> tuple[Sequence[Reading], Mapping[str, str]]:
    """The readings with a tool's run for each trace that `within` puts into a model call.

    That is so where no span of the tool was received. The run stands beside the model call that
    requested the tool, and contains nothing but the trace, which `within` then puts into it.
    """
    models = {step.span.span_id: step.span for step in _steps_of(readings) if step.kind == "model"}
    runs: dict[str, Span] = {}
    for reading in readings:
        trace_id = reading.spans[0].trace_id if reading.spans else ""
        requester = models.get(within.get(trace_id, ""))
        if requester is not None:
            runs[trace_id] = _run(requester, trace_id, reading.spans)
    if not runs:
        return readings, within
    steps = tuple(Step(span=span, dialect="", kind="tool") for span in runs.values())
    in_runs = {trace_id: span.span_id for trace_id, span in runs.items()}
    return [*readings, Reading(tuple(runs.values()), steps)], {**within, **in_runs}


def _run(requester: Span, trace_id: str, spans: Sequence[Span]) -> Span:
    """A span that was never sent, for the tool call in which a trace ran."""
    return changed(
        requester,
        span_id=digest(f"{trace_id} {requester.span_id}")[:16],
        name="tool",
        start_ns=min(span.start_ns for span in spans),
        end_ns=max(span.end_ns for span in spans),
        attributes={},
        events=(),
        links=(),
        status_code=0,
        status_message="",
        recorded=False,
    )


def _moved(step: Step, placed: Mapping[str, Span], within: Mapping[str, str]) -> Step:
    session_id = None if step.span.trace_id in within else step.session_id
    return changed(step, span=placed.get(step.span.span_id, step.span), session_id=session_id)


def _agent_without_model_calls(readings: Sequence[Reading]) -> Span | None:
    """The only agent in the traces that have no model call."""
    without = [each for each in readings if not any(x.kind == "model" for x in each.steps)]
    agents = [step.span for step in _steps_of(without) if step.kind == "agent"]
    return agents[0] if len(agents) == 1 else None


def _placed(
    spans: Sequence[Span], default: Span | None, within: Mapping[str, str]
) -> dict[str, Span]:
    """The outermost spans that belong into another trace, by id, each with its parent there."""
    known = {span.span_id: span for span in spans}
    placed: dict[str, Span] = {}
    for span in spans:
        if span.parent_span_id in known:
            continue
        linked = (placed.get(link.span_id, known.get(link.span_id)) for link in span.links)
        around = known.get(within.get(span.trace_id, ""), default)
        above = next((x for x in linked if x is not None), around)
        if above is None or above.trace_id == span.trace_id:
            continue
        is_beside = above is not around and 0 < above.end_ns <= span.start_ns
        parent_id = above.parent_span_id if is_beside else above.span_id
        if parent_id in known:
            placed[span.span_id] = changed(span, parent_span_id=parent_id)
    return placed


OF_OTHER_PARTS = frozenset({"user_input", "history", "plan", "tool_calls", "model_calls", "usage"})
"""The facts that other traces of the same turn would have, besides the answer."""

_OF_LATER_PARTS = frozenset({"final_output", "tool_calls", "model_calls", "usage"})
_MAX_SERVICES = 1000


class UnmatchedContinuations:
    """When each service last began a trace that may continue a turn, but has no keys to match it
    by, since too much of it was cut.
    """

    def __init__(self, traces: Iterable[AgentTrace] = ()) -> None:
        self._last_ns: OrderedDict[str | None, int] = OrderedDict()
        self.take(traces)

    def take(self, traces: Iterable[AgentTrace]) -> None:
        """Remember the traces that may continue a turn."""
        for trace in traces:
            if trace.damaged and OF_OTHER_PARTS.issubset(trace.damaged):
                last_ns = self._last_ns.pop(trace.service_name, 0)
                self._last_ns[trace.service_name] = max(last_ns, trace.started_ns)
                if len(self._last_ns) > _MAX_SERVICES:
                    self._last_ns.popitem(last=False)

    def marked(self, trace: AgentTrace) -> AgentTrace:
        """The agent trace; damaged if it ends in requested tools and a later trace may
        continue it.
        """
        if not self._last_ns or trace.started_ns >= self._last_ns.get(trace.service_name, 0):
            return trace
        if not _is_open(trace):
            return trace
        return changed(trace, damaged=tuple(sorted(_OF_LATER_PARTS.union(trace.damaged))))


def _is_open(trace: AgentTrace) -> bool:
    """Whether the turn ends in a tool call that has neither a result nor an error.

    It may also look like that where the answer was cut away.
    """
    if trace.final_output is not None:
        return False
    last = trace.tool_calls[-1] if trace.tool_calls else None
    if last is not None and not last.returned and last.error is None:
        return True
    return "final_output" in trace.damaged
