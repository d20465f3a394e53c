"""Build agent traces from steps: one turn of a trace, several where the conversation shows them, or
one turn over several traces.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from spanscore.model.step import Reading, Step
from spanscore.model.trace import AgentTrace, Completeness
from spanscore.turns import build_agent_trace
from spanscore.turns.basis.tree import Tree
from spanscore.turns.facts.turn_steps import TurnSteps
from spanscore.turns.splitting.split import split
from spanscore.turns.stitch.combine_readings import merge

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
    """Build the agent traces of one OTel trace, or of the traces that `group` found to be of one
    turn.

    `within` maps the id of a trace to the span of the tool call that requested that trace.

    The result is in order of time, oldest first. It is empty where no agent and no model call is
    recorded: tool calls, retrievals and bookkeeping alone are no agent trace. A workflow counts as
    an agent where it records its input or output, as a chain does whose model is not instrumented.
    The `unread_spans` of each turn are those of all the traces.
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
    """What identifies a turn.

    The first turn of a trace keeps its id when a second one arrives.
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
