"""What survives when long conversations are shortened for a judge: what is chosen, beside a cut in
the middle.

    python -m bench.shortening PATH...

PATH: results of tau-bench or tau2-bench (bench/trajectories.py). A *deciding fact* is a value of a
benchmark's expected action (an id, a date, a flight, an amount) that a tool result of the
conversation contains: to see whether the action was right, a judge has to find it there. A *change*
is a call of the agent that changes something. Printed for each budget, over all conversations that
are longer: the share of deciding facts that a result in the transcript still shows, and of changes
whose arguments are there whole, each for the transcript as it is sent and for one whose middle is
cut.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from bench.trajectories import Trajectory, read
from spanscore.judge import passages as steps
from spanscore.judge.omission import elide
from spanscore.judge.passages import Passage
from spanscore.judge.transcript import BYTES_PER_TOKEN, render
from spanscore.model.json import dumps
from spanscore.model.tool_names import may_change

BUDGETS = (1000, 2000, 3000, 4000, 6000)
_WHOLE = 1_000_000
_RESULTS = re.compile(r"^   (?:result|error)[^:\n]*: (.*(?:\n {6}.*)*)", re.MULTILINE)
_LONG = ("result", "error", "arguments", "reasoning")
_LONG_FLOOR, _ANY_FLOOR = 600, 120


class Survived(NamedTuple):
    """How much of the conversations' facts and changes a way of shortening kept."""

    facts: int
    changes: int


def main(paths: Sequence[str]) -> None:
    """Print the table."""
    trajectories = [x for path in paths for x in read(Path(path))]
    print(f"{len(trajectories)} conversations")
    print("budget  longer  facts  chosen  middle cut  changes  chosen  middle cut")
    for budget in BUDGETS:
        print(_row(budget, trajectories))


def _row(budget: int, trajectories: Sequence[Trajectory]) -> str:
    longer = facts = made = 0
    kept = {"chosen": Survived(0, 0), "cut": Survived(0, 0)}
    for trajectory in trajectories:
        whole = render(trajectory.session, max_tokens=_WHOLE, rules=())
        if whole.tokens <= budget:
            continue
        longer += 1
        deciding = [x for x in _values(trajectory) if _shows(whole.text, x)]
        calls = [x for x in _changes(trajectory) if f"arguments: {x}\n" in whole.text]
        facts += len(deciding)
        made += len(calls)
        chosen = render(trajectory.session, max_tokens=budget, rules=()).text
        for name, text in (("chosen", chosen), ("cut", _middle_cut(trajectory, budget))):
            before = kept[name]
            kept[name] = Survived(
                before.facts + sum(_shows(text, x) for x in deciding),
                before.changes + sum(f"arguments: {x}\n" in text for x in calls),
            )
    chosen_facts, cut_facts = (kept[x].facts / max(facts, 1) for x in ("chosen", "cut"))
    chosen_changes, cut_changes = (kept[x].changes / max(made, 1) for x in ("chosen", "cut"))
    return (
        f"{budget:6}  {longer:6}  {facts:5}  {chosen_facts:6.2f}  {cut_facts:10.2f}  {made:7} "
        f" {chosen_changes:6.2f}  {cut_changes:10.2f}"
    )


def _values(trajectory: Trajectory) -> set[str]:
    """The values of the expected actions that change something, as results contain them."""
    leaves = (
        x
        for action in trajectory.expected
        if may_change(action.name)
        for x in _leaves(action.arguments)
    )
    return {text for x in leaves if len(text := x if isinstance(x, str) else dumps(x)) > 2}


def _leaves(value: Any) -> Iterator[str | int | float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif (
        isinstance(value, str | int | float)
        and not isinstance(value, bool)
        and any(map(str.isdigit, str(value)))
    ):
        yield value


def _changes(trajectory: Trajectory) -> list[str]:
    calls = [call for trace in trajectory.session.traces for call in trace.tool_calls or ()]
    return [dumps(call.arguments) for call in calls if may_change(call.name)]


def _shows(text: str, value: str) -> bool:
    """Whether a tool result in a transcript contains `value` as a whole word."""
    word = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)")
    return any(word.search(found[1]) for found in _RESULTS.finditer(text))


def _middle_cut(trajectory: Trajectory, budget: int) -> str:
    """The same conversation with the middle of long passages cut, then the steps in the middle left
    out.
    """
    passages = list(steps.turns_passages(trajectory.session, steps.Numbers()))
    room = budget * BYTES_PER_TOKEN
    passages = _all_cut([x.kind in _LONG for x in passages], passages, room, _LONG_FLOOR)
    units = list(dict.fromkeys(x.unit for x in passages if x.part == "step"))
    inner = sorted(units[1:-1], key=lambda unit: abs(2 * units.index(unit) - len(units) + 1))
    gone = set()
    while _size(x for x in passages if x.unit not in gone) > room and inner:
        gone.add(inner.pop(0))
    passages = [x for x in passages if x.unit not in gone]
    passages = _all_cut([True] * len(passages), passages, room, _ANY_FLOOR)
    return elide("\n".join(x.text for x in passages), room) + "\n"


def _all_cut(
    chosen: Sequence[bool], passages: Sequence[Passage], room: int, floor: int
) -> list[Passage]:
    """The longest of the chosen passages brought down to one length, so that all fit, but never
    below the floor.
    """
    low, high = floor, max((len(x.text.encode()) for x in passages), default=floor)
    while low < high:
        cap = (low + high + 1) // 2
        sizes = [len(x.text.encode()) + 1 for x in passages]
        if (
            sum(min(size, cap) if cut else size for size, cut in zip(sizes, chosen, strict=True))
            <= room
        ):
            low = cap
        else:
            high = cap - 1
    return [
        replace(x, text=elide(x.text, low)) if cut else x
        for x, cut in zip(passages, chosen, strict=True)
    ]


def _size(passages: Iterable[Passage]) -> int:
    return sum(len(x.text.encode()) + 1 for x in passages)


if __name__ == "__main__":
    main(sys.argv[1:])
