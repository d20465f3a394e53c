"""Make a transcript fit its budget by leaving out what a judge misses least, and saying so where it
stood.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from spanscore.judge.choosing import Weighing, Worth
from spanscore.judge.eliding import elide
from spanscore.judge.marks import left_out
from spanscore.judge.passage import Kind, Part, Passage, Unit

_NOTE_BYTES = 90
_FLOORS: Mapping[Kind, int] = {
    "note": 300,
    "head": 200,
    "arguments": 400,
    "error": 300,
    "input": 400,
    "instructions": 1500,
    "plan": 200,
    "output": 600,
}
_LEAST_BYTES = 120
_CITED_BYTES, _MOST_CITED, _CLEARLY_CITED = 200, 3, 0.5
_FOCUS_SHARE, _FRAME_SHARE = 0.7, 0.5
_TIGHT_BYTES = 80
_MAX_HALVINGS = 40
_NEVER_FIRST, _IN_FOCUS = 500.0, 1000.0
_NAMES: Mapping[Part, str] = {
    "tool": "tool(s)",
    "history": "earlier message(s)",
    "document": "document(s)",
    "step": "step(s)",
}
_COUNTED: Mapping[Part, str] = {
    "tool": "tools",
    "history": "messages",
    "document": "documents",
    "step": "steps",
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A transcript's lines within their bound.

    `shown_calls` are the places of the tool calls whose arguments are there whole; `left_out` is
    how many steps, messages, tools, documents and characters are not there.
    """

    text: str
    shown_calls: frozenset[int]
    left_out: Mapping[str, int]


def fit(
    passages: Sequence[Passage],
    max_bytes: int,
    focus: Collection[int] = (),
    *,
    tag: str = "",
    weighing: Callable[[], Weighing] | None = None,
) -> Fitted:
    """The passages as lines of at most `max_bytes` of UTF-8; marks of what is left out end in
    `tag`.

    Each passage gets a share of the room by its worth, and at least a floor. `weighing` gives what
    is known of their worth from fitting them before; it is only asked where something has to be
    left out. Where not even the floors fit, whole units are left out first, in the order of their
    worth: older messages, tools that were not called, documents, steps; the first and the last step
    and the calls in `focus` last.
    """
    if _size(passages) <= max_bytes:
        return Fitted(_joined(passages), _calls(passages), {})
    sizes = [_bytes(passage) for passage in passages]
    worths = (weighing or partial(Weighing, passages))().worths(focus)
    floors = _floors(passages, sizes, worths, focus, max_bytes)
    dropped = _dropped(_units(passages, floors, worths, focus), sum(floors) - max_bytes)
    notes = _notes(passages, dropped, tag)
    kept = [place for place, passage in enumerate(passages) if passage.unit not in dropped]
    room = max_bytes - sum(len(note) + 1 for note in notes.values())
    shares = _shares([(sizes[place], floors[place], worths[place].weight) for place in kept], room)
    shown: dict[int, Passage] = {}
    for place, share in zip(kept, shares, strict=True):
        passage = passages[place]
        shortened = elide(passage.text, share - 1, tag, worths[place].places)
        shown[place] = replace(passage, text=shortened)
    lines = {place: passage.text for place, passage in shown.items()}
    joined = "\n".join(text for _, text in sorted({**notes, **lines}.items()))
    text = elide(joined, max_bytes, tag)
    whole: list[Passage] = []
    if text == joined:
        whole = [x for place, x in shown.items() if x.text == passages[place].text]
    missing = Counter(_COUNTED[part] for part, _, _ in dropped)
    missing["characters"] = _chars(passages) - _chars(shown.values()) + len(joined) - len(text)
    return Fitted(text, _calls(whole), dict(+missing))


def _chars(passages: Iterable[Passage]) -> int:
    return sum(len(passage.text) for passage in passages)


def _floors(
    passages: Sequence[Passage],
    sizes: Sequence[int],
    worths: Sequence[Worth],
    focus: Collection[int],
    max_bytes: int,
) -> list[int]:
    """The least bytes of each passage that is shown, with room for what is cited of it.

    Calls in focus are whole, as far as a part of the room goes. Where the frame would take more
    than a part of it, its floors are lower.
    """
    room = max_bytes * _FOCUS_SHARE
    floors: list[int] = []
    for passage, size, worth in zip(passages, sizes, worths, strict=True):
        least = (
            _LEAST_BYTES if passage.part == "history" else _FLOORS.get(passage.kind, _LEAST_BYTES)
        )
        cited = sum(place.weight >= _CLEARLY_CITED for place in worth.places)
        floor = min(size, least + _CITED_BYTES * min(cited, _MOST_CITED))
        if passage.call is not None and passage.call in focus and size <= room:
            room -= size
            floor = size
        floors.append(floor)
    of_frame = sum(
        floor for passage, floor in zip(passages, floors, strict=True) if passage.part == "frame"
    )
    share = _FRAME_SHARE * max_bytes / max(of_frame, 1)
    if share >= 1:
        return floors
    return [
        min(floor, max(int(floor * share), _TIGHT_BYTES)) if passage.part == "frame" else floor
        for passage, floor in zip(passages, floors, strict=True)
    ]


@dataclass(slots=True)
class _Weighed:
    """A unit with the bytes of its floors and its worth."""

    floor: int = 0
    worth: float = 0.0


def _units(
    passages: Sequence[Passage],
    floors: Sequence[int],
    worths: Sequence[Worth],
    focus: Collection[int],
) -> dict[Unit, _Weighed]:
    """What can be left out, in reading order."""
    found: dict[Unit, _Weighed] = {}
    for passage, floor, worth in zip(passages, floors, worths, strict=True):
        if passage.part == "frame":
            continue
        unit = found.setdefault(passage.unit, _Weighed())
        unit.floor += floor
        if passage.kind != "head":
            unit.worth += worth.weight
        if passage.call is not None and passage.call in focus:
            unit.worth += _IN_FOCUS
    steps = [x for x in found if x[0] == "step"]
    for unit_name in {*steps[:1], *steps[-1:]}:
        found[unit_name].worth += _NEVER_FIRST
    past = [x for x in found if x[0] == "history"]
    for place, unit_name in enumerate(past):
        found[unit_name].worth = found[unit_name].worth * 0.1 + place / len(past)
    return found


def _dropped(units: Mapping[Unit, _Weighed], over: int) -> set[Unit]:
    """The units to leave out so that `over` bytes are saved, the notes in their place included; the
    least worth first.

    Of units with the same worth, those in the middle go first.
    """
    names = list(units)
    middle = (len(names) - 1) / 2
    order = sorted(range(len(names)), key=lambda x: (units[names[x]].worth, abs(x - middle)))
    dropped: set[int] = set()
    for place in order:
        if over <= 0:
            break
        part = names[place][0]
        beside = [x for x in (place - 1, place + 1) if x in dropped and names[x][0] == part]
        over += _NOTE_BYTES * (1 - len(beside)) - units[names[place]].floor
        dropped.add(place)
    return {names[place] for place in dropped}


def _notes(passages: Sequence[Passage], dropped: Collection[Unit], tag: str) -> dict[int, str]:
    """By the place of the first passage of each gap, the mark that says what stood there."""
    found: dict[int, str] = {}
    gap: list[Passage] = []
    for place, passage in enumerate([*passages, Passage("")]):
        if gap and (passage.unit not in dropped or passage.part != gap[0].part):
            found[place - len(gap)] = left_out(_named(gap), tag)
            gap = []
        if passage.unit in dropped:
            gap.append(passage)
    return found


def _named(gap: Sequence[Passage]) -> str:
    """What a gap contained, such as `step(s) 4 to 9`; of all but steps, how many."""
    part = gap[0].part
    if part != "step":
        return f"{len({x.unit for x in gap})} {_NAMES[part]}"
    first, last = gap[0].number, gap[-1].number
    return f"step(s) {first}" if first == last else f"step(s) {first} to {last}"


def _shares(wanted: Sequence[tuple[int, int, float]], room: int) -> list[int]:
    """How many bytes each passage gets, of (size, floor, weight): by weight, never less than its
    floor.

    The level is found at which all the shares together fill the room: `min(size, max(floor, level *
    weight))`.

    >>> _shares([(1000, 100, 1.0), (1000, 100, 3.0), (50, 50, 1.0)], 850)
    [200, 600, 50]
    """

    def at(level: float) -> list[int]:
        return [min(size, max(floor, int(level * weight))) for size, floor, weight in wanted]

    low, high = 0.0, float(max((size / weight for size, _, weight in wanted), default=0.0))
    for _ in range(_MAX_HALVINGS):
        level = (low + high) / 2
        if sum(at(level)) <= room:
            low = level
        else:
            high = level
    return at(low)


def _calls(passages: Iterable[Passage]) -> frozenset[int]:
    return frozenset(x.call for x in passages if x.call is not None)


def _size(passages: Iterable[Passage]) -> int:
    return sum(_bytes(x) for x in passages)


def _bytes(passage: Passage) -> int:
    return len(passage.text.encode("utf-8", "replace")) + 1


def _joined(passages: Iterable[Passage]) -> str:
    return "\n".join(x.text for x in passages)
