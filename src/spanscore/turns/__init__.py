"""Steps to agent traces: one turn of a trace, several where the conversation shows it, or one over
several traces.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from spanscore.model.step import Reading, Step
from spanscore.model.trace import AgentTrace, Completeness
from spanscore.turns import build_agent_trace
from spanscore.turns.basis import stitch_keys as keys
from spanscore.turns.basis.tree import Tree
from spanscore.turns.facts.turn_steps import TurnSteps
from spanscore.turns.provenance.explain import Explained, Explanation, Origin, explain
from spanscore.turns.shown_whole import shows_whole
from spanscore.turns.splitting.split import split
from spanscore.turns.stitch.combine_readings import merge
from spanscore.turns.stitch.delegation_hints import DelegationHints, hints_of, may_delegate
from spanscore.turns.stitch.delegation_index import DelegationIndex
from spanscore.turns.stitch.fragment import Join, TraceFragment
from spanscore.turns.stitch.gateway import ids_of_calls, without_repeats
from spanscore.turns.stitch.stitching import Stitching, asked_within, is_settled, is_whole
from spanscore.turns.stitch.unmatched_continuations import UnmatchedContinuations

__all__ = [
    "DelegationHints",
    "DelegationIndex",
    "Explained",
    "Explanation",
    "Join",
    "Origin",
    "Stitching",
    "TraceFragment",
    "TurnSteps",
    "UnmatchedContinuations",
    "Watch",
    "asked_within",
    "build",
    "explain",
    "hints_of",
    "ids_of_calls",
    "is_settled",
    "is_whole",
    "keys",
    "may_delegate",
    "shows_whole",
    "without_repeats",
]

Watch: TypeAlias = Callable[[AgentTrace, TurnSteps, Reading], None]
"""Called with each agent trace that is built, with the turn and the reading that it was built
from.
"""


def build(
    *readings: Reading,
    completeness: Completeness = "complete",
    within: Mapping[str, str] = MappingProxyType({}),
    watch: Watch | None = None,
) -> list[AgentTrace]:
    """The agent traces in what was read of one OTel trace, or of those that `group` found to be of
    one turn.

    `within` contains, by trace id, the span of the tool call that one of those was requested by.

    Oldest first; empty where no agent or model shows. A workflow counts where it records what it
    was given or returned: a chain whose model is not instrumented. Tool calls, retrievals and
    bookkeeping alone are no agent trace. `unread_spans` is that of all the traces on each turn.
    """
    reading = readings[0] if len(readings) == 1 else merge(readings, within)
    if reading is None:
        return [
            trace
            for each in readings
            for trace in build(each, completeness=completeness, watch=watch)
        ]
    if not any(x.kind in {"agent", "model"} or _records_content(x) for x in reading.steps):
        return []
    tree = Tree(reading)
    turns = split(reading.steps, tree)
    if len(readings) > 1:
        groups = _by_shared_turn(readings, [steps for _, steps in turns])
        if len(groups) > 1:
            built = (
                build(*group, completeness=completeness, within=within, watch=watch)
                for group in groups
            )
            return [trace for traces in built for trace in traces]
    found: list[AgentTrace] = []
    begun: set[str] = set()
    for opening, steps in turns:
        known = _known(readings, opening, steps, tree, begun, completeness)
        begun.update(known.trace_ids)
        turn = TurnSteps(steps, tree)
        found.append(build_agent_trace.build(turn, opening, known))
        if watch is not None:
            watch(found[-1], turn, reading)
    return found


def _records_content(step: Step) -> bool:
    return any(x is not None for x in (step.input, step.output, step.input_text, step.output_text))


def _known(
    readings: Sequence[Reading],
    opening: Step | None,
    steps: Sequence[Step],
    tree: Tree,
    begun: set[str],
    completeness: Completeness,
) -> build_agent_trace.Known:
    """What a turn is known by.

    One that is the first of its trace keeps its id when a second one arrives.
    """
    first = opening.span if opening is not None and begun else tree.top
    trace_id, span_id = ("", "") if first is None else (first.trace_id, first.span_id)
    root = tree.root_of(trace_id)
    other_reports = [
        reading.other_reports[step.span.span_id]
        for reading in readings
        if reading.other_reports
        for step in steps
        if step.span.span_id in reading.other_reports
    ]
    return build_agent_trace.Known(
        tuple(dict.fromkeys([trace_id, *[x.span.trace_id for x in (*steps, *other_reports)]])),
        None if root is None or not root.recorded else root.span_id,
        span_id if trace_id in begun else tree.opening_id(trace_id),
        sum(x.unread for x in readings),
        completeness,
    )


def _by_shared_turn(
    readings: Sequence[Reading], turns: Sequence[Sequence[Step]]
) -> list[list[Reading]]:
    """The readings in groups: those that share a turn are in one."""
    groups = [[number] for number in range(len(readings))]
    at = {
        span.trace_id: number for number, reading in enumerate(readings) for span in reading.spans
    }
    for steps in turns:
        numbers = dict.fromkeys(at[x.span.trace_id] for x in steps)
        first = next(iter(numbers))
        for number in numbers:
            one, other = groups[first], groups[number]
            if one is not other:
                one += other
                for moved in other:
                    groups[moved] = one
    return [
        [readings[number] for number in sorted(group)]
        for group in {id(x): x for x in groups}.values()
    ]
