"""Transcripts shortened to their budget."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from spanscore.judge.marks import left_out, whole_marks
from spanscore.judge.passages import Kind, Part, Passage, Unit

Span: TypeAlias = tuple[int, int]

_WINDOW_CHARACTERS = (160, 50)
_MARK_BYTES = 60
_LEAST_GAP_CHARACTERS = 8  # at most 32 bytes
_MAX_WINDOWS = 40


class Place(NamedTuple):
    """Characters of a text that something else refers to, and how much they matter."""

    start: int
    end: int
    weight: float


def elide(text: str, max_bytes: int, tag: str = "", places: Sequence[Place] = ()) -> str:
    """`text` in at most `max_bytes` of UTF-8 (but never less than one mark): beginning, end and
    around `places`.

    In the place of what went stands a mark that ends in `tag`. No genuine mark is cut in two.

    >>> elide("x" * 1000, 90)
    'xxxxxxxxxxxxxxxxxxxx [... 970 characters left out ...] xxxxxxxxxx'
    >>> elide("x" * 1000 + " TP1 " + "x" * 1000, 240, places=[Place(1001, 1004, 1.0)]).count("TP1")
    1
    """
    if len(text.encode("utf-8", "replace")) <= max_bytes:
        return text
    kept = _kept(text, max_bytes, places) if places else None
    return _with_marks(text, kept or _ends(text, max_bytes - _MARK_BYTES), tag)


def _kept(text: str, max_bytes: int, places: Sequence[Place]) -> list[Span] | None:
    """The characters to keep, in order; None where there is no room for any of `places`."""
    room = max_bytes - _MARK_BYTES
    spans = _ends(text, room // 3)
    found = False
    for place in sorted(places, key=lambda x: (-x.weight, x.start))[:_MAX_WINDOWS]:
        for width in _WINDOW_CHARACTERS:
            more = _united([*spans, _window(text, place, width)])
            if _bytes_of(text, more) + _MARK_BYTES * (len(more) - 2) <= room:
                spans = more
                found = True
                break
    if not found:
        return None
    return _grown(text, spans, room)


def _grown(text: str, spans: list[Span], room: int) -> list[Span]:
    """`spans` with what room is left given to the beginning."""
    spare = room - _bytes_of(text, spans) - _MARK_BYTES * (len(spans) - 2)
    if spare <= 0:
        return spans
    start = spans[0][1]
    more = text[start : start + spare].encode("utf-8", "replace")[:spare].decode(errors="ignore")
    return _united([(0, start + len(more)), *spans])


def _ends(text: str, room: int) -> list[Span]:
    """The first and the last characters of `text`, in `room` bytes, of which the first have two
    thirds.
    """
    tail_bytes = max(room, 0) // 3
    head_bytes = max(room, 0) - tail_bytes
    data = text.encode("utf-8", "replace")
    head = len(data[:head_bytes].decode(errors="ignore"))
    tail = len(data[len(data) - tail_bytes :].decode(errors="ignore")) if tail_bytes else 0
    return [(0, head), (len(text) - tail, len(text))]


def _window(text: str, place: Place, width: int) -> Span:
    """A place with the object, line or sentence around it, as far as that is within `width`, else
    half of that.
    """
    start, end = max(place.start - width, 0), min(place.end + width, len(text))
    before, after = text[start : place.start], text[place.end : end]
    opened = max(before.rfind(x) for x in ("{", "\n", ". "))
    closed = min((x for x in map(after.find, ("}", "\n", ". ")) if x >= 0), default=-1)
    left = start + opened if opened >= 0 else max(place.start - width // 2, 0)
    right = place.end + closed + 1 if closed >= 0 else min(place.end + width // 2, len(text))
    return left, right


def _united(spans: Sequence[Span]) -> list[Span]:
    """Spans in order; those with less between them than a mark would take are one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1] + _LEAST_GAP_CHARACTERS:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _bytes_of(text: str, spans: Sequence[Span]) -> int:
    return sum(len(text[start:end].encode("utf-8", "replace")) for start, end in spans)


def _with_marks(text: str, spans: Sequence[Span], tag: str) -> str:
    """What is in `spans`, with a mark between them; on one line, so that nothing passes for a line
    of its own.
    """
    genuine = whole_marks(text, tag)
    pieces: list[str] = []
    at = 0
    for span in spans:
        start, end = (_moved(genuine, edge, side) for edge, side in zip(span, (1, 0), strict=True))
        if start < end:
            if start > at:
                pieces.append(left_out(f"{start - at} characters", tag))
            pieces.append(text[start:end])
            at = end
    if at < len(text):
        pieces.append(left_out(f"{len(text) - at} characters", tag))
    return " ".join(pieces)


def _moved(genuine: Sequence[Span], edge: int, side: int) -> int:
    """An edge of a span, or that side of the mark in which it is; `genuine` are the marks, in
    order.
    """
    place = bisect_left(genuine, (edge, 0)) - 1
    is_inside = place >= 0 and genuine[place][0] < edge < genuine[place][1]
    return genuine[place][side] if is_inside else edge


_MAX_READ_CHARACTERS = 200_000
_MAX_CITING_CHARACTERS = 20_000
_MAX_PLACES = 200
_TOKEN = re.compile(r"\w+")
_KEY_END = re.compile(r'"\s?:')
_UNSPACED = "\u2e80"  # from here on, scripts without spaces between words

_WEIGHTS: Mapping[Kind, float] = {
    "note": 1.0,
    "input": 6.0,
    "instructions": 6.0,
    "plan": 3.0,
    "output": 8.0,
    "head": 3.0,
    "arguments": 2.5,
    "result": 1.0,
    "error": 4.0,
    "text": 2.0,
    "reasoning": 0.7,
}
_CITING: Mapping[Kind, float] = {"output": 3.0, "arguments": 1.5, "text": 0.7, "input": 0.5}
_CITABLE: Collection[Kind] = ("result", "error", "reasoning", "text")
_DECISIVE, _SHARES_FOCUS = 2.0, 4.0
_MOST_OF_CITED = 6.0


class Worth(NamedTuple):
    """How much a passage matters beside the others, and which places in it are cited."""

    weight: float
    places: tuple[Place, ...] = ()


class Weighing:
    """The worth of passages beside each other.

    Its making is linear in the length of the texts that are read.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = passages
        cited_by = _citations(passages)
        self._cited = [list(_cited(passage, at, cited_by)) for at, passage in enumerate(passages)]
        self._spread = Counter(token for cited in self._cited for token in {x.token for x in cited})

    def worths(self, focus: Collection[int] = ()) -> list[Worth]:
        """The worth of each passage, in order, where the calls at the places `focus` matter
        most.
        """
        last_in_focus: dict[str, int] = {}
        for at, passage in enumerate(self._passages):
            if passage.call is not None and passage.call in focus:
                last_in_focus |= {
                    token: at for token, _, _ in _tokens(passage.text[:_MAX_CITING_CHARACTERS])
                }
        return [self._worth(at, focus, last_in_focus) for at in range(len(self._passages))]

    def _worth(self, at: int, focus: Collection[int], last_in_focus: Mapping[str, int]) -> Worth:
        passage = self._passages[at]
        weight = _WEIGHTS[passage.kind] * (_DECISIVE if passage.decisive else 1)
        if passage.call is not None and passage.call in focus:
            weight *= _SHARES_FOCUS
        best: dict[str, float] = {}
        places: list[Place] = []
        for token, start, value, citing in self._cited[at]:
            in_focus = _SHARES_FOCUS if last_in_focus.get(token, -1) > at else 0.0
            worth = value * max(citing, in_focus) / self._spread[token]
            places.append(
                Place(start, start + len(token), worth if token not in best else worth / 4)
            )
            best[token] = worth
        return Worth(weight + min(sum(best.values()), _MOST_OF_CITED), tuple(places))


class _Cited(NamedTuple):
    """A token of a passage that others cite: where it stands, how well it identifies, how much its
    citing counts.
    """

    token: str
    start: int
    value: float
    citing: float


def _citations(passages: Sequence[Passage]) -> dict[str, list[tuple[int, float]]]:
    """For each token, the passages that cite it by their place, each with the weight of its
    citing.
    """
    cited: dict[str, list[tuple[int, float]]] = {}
    for at, passage in enumerate(passages):
        weight = _CITING.get(passage.kind, 0.0) if passage.part in ("frame", "step") else 0.0
        if not weight:
            continue
        weight *= _DECISIVE if passage.decisive else 1
        for token in {x for x, _, _ in _tokens(passage.text[:_MAX_CITING_CHARACTERS])}:
            cited.setdefault(token, []).append((at, weight))
    return cited


def _cited(
    passage: Passage, at: int, cited_by: Mapping[str, Sequence[tuple[int, float]]]
) -> Iterator[_Cited]:
    """The tokens of a passage that others cite, up to a bound."""
    if passage.kind not in _CITABLE and passage.part not in ("history", "document"):
        return
    count = 0
    for token, start, value in _tokens(passage.text[:_MAX_READ_CHARACTERS]):
        citing = _citing(cited_by.get(token, ()), at)
        if citing:
            yield _Cited(token, start, value, citing)
            count += 1
        if count == _MAX_PLACES:
            return


def _citing(places: Sequence[tuple[int, float]], at: int) -> float:
    """How much it counts that passages at `places` cite one at `at`: those after it, or the user's
    words before it.
    """
    others = [x for x in (*places[:1], *places[-2:]) if x[0] != at]
    if not others:
        return 0.0
    return max((weight for place, weight in others if place > at), default=_CITING["input"])


def _tokens(text: str) -> Iterator[tuple[str, int, float]]:
    """The tokens of a text that can identify something, where each stands, and how well it
    identifies.
    """
    for found in _TOKEN.finditer(text):
        token, start = found[0].lower(), found.start()
        if _KEY_END.match(text, found.end()):
            continue
        if any(x.isdigit() for x in token):
            if len(token) > 1:
                yield token, start, 1.0 if len(token) > 2 else 0.3
        elif token[0] >= _UNSPACED:
            for place in range(len(token) - 1):
                yield token[place : place + 2], start + place, 0.05
        elif len(token) > 3:
            yield token, start, 0.15


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
_NAMES: Mapping[Part, tuple[str, str]] = {
    "tool": ("tool(s)", "tools"),
    "history": ("earlier message(s)", "messages"),
    "document": ("document(s)", "documents"),
    "step": ("step(s)", "steps"),
}
"""Of what can be left out, in a mark and in a score's metadata."""


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
    sizes = [_bytes(passage) for passage in passages]
    if sum(sizes) <= max_bytes:
        return Fitted("\n".join(x.text for x in passages), _calls(passages), {})
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
    missing = Counter(_NAMES[part][1] for part, _, _ in dropped)
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
    in_frame = [place for place, passage in enumerate(passages) if passage.part == "frame"]
    share = _FRAME_SHARE * max_bytes / max(sum(floors[place] for place in in_frame), 1)
    for place in in_frame if share < 1 else ():
        floors[place] = min(floors[place], max(int(floors[place] * share), _TIGHT_BYTES))
    return floors


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
    name, _ = _NAMES[gap[0].part]
    first, last = gap[0].number, gap[-1].number
    if gap[0].part != "step":
        return f"{len({x.unit for x in gap})} {name}"
    return f"{name} {first}" if first == last else f"{name} {first} to {last}"


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


def _bytes(passage: Passage) -> int:
    return len(passage.text.encode("utf-8", "replace")) + 1
