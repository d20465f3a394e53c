"""Cut a trace into turns. Mostly it is one; it is several only where the conversation itself shows it."""

from collections.abc import Sequence

from spanscore.model.step import Message, Step
from spanscore.turns._conversation import final_text
from spanscore.turns._tree import Tree

_UNITS = frozenset({"agent", "workflow", "model"})


def split(steps: Sequence[Step], tree: Tree) -> list[tuple[Step | None, list[Step]]]:
    """The turns of a trace, oldest first: the step that opens each, and all its steps.

    The opening step is None for a trace of one turn. A new turn starts at an outermost agent, workflow or model call
    that belongs to another session than the turn before, or whose conversation goes on from that turn's answer: it
    holds the answer and, after it, something new from the user. Agents one after the other without that are a
    pipeline, and one turn.
    """
    units, belongs = _units(steps, tree)
    starts = [0]
    for at in range(1, len(units)):
        if _is_new_turn(_under(units[starts[-1] : at], steps, belongs), _under([units[at]], steps, belongs)):
            starts.append(at)
    if len(starts) == 1:
        return [(None, list(steps))]
    turn_of = {x.span.span_id: sum(1 for s in starts if s <= i) - 1 for i, x in enumerate(units)}
    turns: list[list[Step]] = [[] for _ in starts]
    for step in steps:
        owner = belongs.get(step.span.span_id)
        if owner is not None:
            turns[turn_of[owner]].append(step)
        elif step.kind != "workflow":  # a workflow above the turns belongs to none
            begun = [i for i, s in enumerate(starts) if units[s].span.start_ns <= step.span.start_ns]
            turns[begun[-1] if begun else 0].append(step)
    return [(units[start], turn) for start, turn in zip(starts, turns, strict=True)]


def _units(steps: Sequence[Step], tree: Tree) -> tuple[list[Step], dict[str, str]]:
    """The outermost steps that may each be a turn, and for each step the unit it lies in.

    A single workflow around everything is looked into.
    """
    units = [x for x in steps if x.kind in _UNITS and tree.place(x).outer is None and tree.place(x).tool is None]
    while len(units) == 1 and units[0].kind == "workflow":
        wrapper = units[0]
        inner = [x for x in steps if x.kind in _UNITS and tree.place(x).outer is wrapper]
        if not inner:
            break
        units = inner
    ids = {x.span.span_id for x in units}
    belongs = dict[str, str]()
    for step in steps:
        owner: Step | None = step
        while owner is not None and owner.span.span_id not in ids:
            place = tree.place(owner)
            owner = place.tool or place.outer
        if owner is not None:
            belongs[step.span.span_id] = owner.span.span_id
    return units, belongs


def _under(units: Sequence[Step], steps: Sequence[Step], belongs: dict[str, str]) -> list[Step]:
    ids = {x.span.span_id for x in units}
    return [x for x in steps if belongs.get(x.span.span_id) in ids]


def _is_new_turn(before: list[Step], after: list[Step]) -> bool:
    sessions = [next((x.session_id for x in part if x.session_id), None) for part in (before, after)]
    if sessions[0] and sessions[1] and sessions[0] != sessions[1]:
        return True
    answer = next((x for x in map(_answer, reversed(before)) if x), None)
    if answer is None:
        return False
    openings = {x.kind: x.input for x in reversed(after) if x.input is not None}  # the first of each kind
    return any(_goes_on(given, answer.strip()) for given in openings.values())


def _answer(step: Step) -> str | None:
    return final_text(step.output) if step.output else None


def _goes_on(given: tuple[Message, ...], answer: str) -> bool:
    """Whether a conversation holds `answer`, and the user speaks after it."""
    said = False
    for message in reversed(given):
        if message.role == "user" and message.text is not None:
            said = True
        elif message.role == "assistant" and not message.calls and (message.text or "").strip() == answer:
            return said
    return False
