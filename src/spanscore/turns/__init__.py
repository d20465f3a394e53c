"""Steps of one trace to agent traces: one turn, or several where the conversation shows it."""

from spanscore.model.step import Reading, Step
from spanscore.model.trace import AgentTrace, Completeness
from spanscore.turns import _turn
from spanscore.turns._split import split
from spanscore.turns._tree import Tree

__all__ = ["build"]


def build(reading: Reading, *, completeness: Completeness = "complete") -> list[AgentTrace]:
    """The agent traces in what was read of one OTel trace, oldest first; empty where no agent or model shows.

    A workflow counts where it tells what it was given or returned: a chain whose model is not instrumented. Tool calls,
    retrievals and bookkeeping alone are no agent trace. `unread_spans` is that of the whole trace on each turn.
    """
    if not any(x.kind in {"agent", "model"} or _tells(x) for x in reading.steps):
        return []
    tree = Tree(reading)
    found = []
    for number, (opening, steps) in enumerate(split(reading.steps, tree)):
        # the first turn keeps its id when a second one arrives
        opening_id = opening.span.span_id if opening is not None and number else tree.opening_id()
        found.append(_turn.build(steps, opening, opening_id, tree, reading.unread, completeness))
    return found


def _tells(step: Step) -> bool:
    return any(x is not None for x in (step.input, step.output, step.input_text, step.output_text))
