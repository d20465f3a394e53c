"""Cut a trace into turns. Mostly it is one; it is several only where the conversation itself shows it."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

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
    units = _units(steps, tree)
    if len(units) < 2:
        return [(None, list(steps))]
    belongs = _belongs(steps, tree, units)
    starts = _starts(steps, units, belongs)
    if len(starts) == 1:
        return [(None, list(steps))]
    turn_of = {x.span.span_id: bisect_right(starts, at) - 1 for at, x in enumerate(units)}
    begun_ns = [units[start].span.start_ns for start in starts]
    turns: list[list[Step]] = [[] for _ in starts]
    for step in steps:
        owner = belongs[step.span.span_id]
        if owner is not None:
            turns[turn_of[owner]].append(step)
        elif step.kind != "workflow":  # a workflow above the turns belongs to none
            turns[max(bisect_right(begun_ns, step.span.start_ns) - 1, 0)].append(step)
    return [(units[start], turn) for start, turn in zip(starts, turns, strict=True)]


def _units(steps: Sequence[Step], tree: Tree) -> list[Step]:
    """The outermost steps that may each be a turn. A single workflow around everything is looked into."""
    inside: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        place = tree.place(step)
        if step.kind in _UNITS and (place.outer is not None or place.tool is None):
            inside["" if place.outer is None else place.outer.span.span_id].append(step)
    units = inside[""]
    while len(units) == 1 and units[0].kind == "workflow" and (inner := inside.get(units[0].span.span_id)):
        units = inner
    return units


def _belongs(steps: Sequence[Step], tree: Tree, units: Sequence[Step]) -> dict[str, str | None]:
    """For each step, by its span's id, the unit that it lies in; None for none."""
    found: dict[str, str | None] = {x.span.span_id: x.span.span_id for x in units}
    for step in steps:
        path: list[str] = []
        above: Step | None = step
        while above is not None and above.span.span_id not in found:
            path.append(above.span.span_id)
            place = tree.place(above)
            above = place.tool or place.outer
        owner = None if above is None else found[above.span.span_id]
        found.update(dict.fromkeys(path, owner))
    return found


@dataclass(slots=True)
class _Told:
    """What a turn so far, or a unit, shows of where one turn ends: `..._at` is the place among all steps."""

    session_at: int = -1
    session: str | None = None
    answer_at: int = -1
    answer: str | None = None

    def add(self, other: "_Told") -> None:
        """Take in what a unit tells: of two the first session and the last answer count."""
        if other.session and (not self.session or other.session_at < self.session_at):
            self.session_at, self.session = other.session_at, other.session
        if other.answer and other.answer_at > self.answer_at:
            self.answer_at, self.answer = other.answer_at, other.answer


def _starts(steps: Sequence[Step], units: Sequence[Step], belongs: dict[str, str | None]) -> list[int]:
    """Which of `units` open a turn; the first always does."""
    parts: dict[str, list[tuple[int, Step]]] = {x.span.span_id: [] for x in units}
    for at, step in enumerate(steps):
        owner = belongs[step.span.span_id]
        if owner is not None:
            parts[owner].append((at, step))
    starts, turn = [0], _Told()
    for number, unit in enumerate(units):
        part = parts[unit.span.span_id]
        told = _told(part)
        if number and _is_new_turn(turn, told, part):
            starts.append(number)
            turn = _Told()
        turn.add(told)
    return starts


def _told(part: Sequence[tuple[int, Step]]) -> _Told:
    session_at, session = next(((at, x.session_id) for at, x in part if x.session_id), (-1, None))
    answers = ((at, final_text(x.output)) for at, x in reversed(part) if x.output)
    answer_at, answer = next(((at, text) for at, text in answers if text), (-1, None))
    return _Told(session_at, session, answer_at, answer)


def _is_new_turn(before: _Told, after: _Told, part: Sequence[tuple[int, Step]]) -> bool:
    if before.session and after.session and before.session != after.session:
        return True
    if before.answer is None:
        return False
    openings = {x.kind: x.input for _, x in reversed(part) if x.input is not None}  # the first of each kind
    answer = before.answer.strip()
    return any(_goes_on(given, answer) for given in openings.values())


def _goes_on(given: tuple[Message, ...], answer: str) -> bool:
    """Whether a conversation holds `answer`, and the user speaks after it."""
    said = False
    for message in reversed(given):
        if message.role == "user" and message.text is not None:
            said = True
        elif message.role == "assistant" and not message.calls and (message.text or "").strip() == answer:
            return said
    return False
