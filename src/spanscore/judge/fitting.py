"""Make a transcript fit its budget by leaving out what a judge misses least, and saying so where it stood."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

_LONG_FLOOR_BYTES = 600
_ANY_FLOOR_BYTES = 120
_NOTE_BYTES = 60


@dataclass(frozen=True, slots=True)
class Passage:
    """Some lines of a transcript.

    `number` is that of the step or past message they belong to, `turn` that of the turn in a session; `long`: their
    middle is the first thing to go.
    """

    text: str
    part: Literal["frame", "history", "step"] = "frame"
    number: int = 0
    long: bool = False
    turn: int | None = None

    @property
    def place(self) -> tuple[int, int]:
        """What orders steps, and past messages, over all turns."""
        return (self.turn or 0, self.number)

    @property
    def named(self) -> str:
        """The step, as a note on what was left out calls it."""
        return str(self.number) if self.turn is None else f"{self.number} of turn {self.turn}"


def fit(passages: Sequence[Passage], max_bytes: int) -> tuple[str, bool]:
    """The passages as lines of at most `max_bytes` of UTF-8, and whether anything was left out.

    What goes, in this order, and only as far as needed: the middle of the longest `long` passages; the oldest past
    messages; steps, from the middle outwards; the middle of the longest of all that is left.
    """
    fitted = list(passages)
    if _size(fitted) <= max_bytes:
        return _joined(fitted), False
    fitted = _shorten([x for x in fitted if x.long], fitted, max_bytes, _LONG_FLOOR_BYTES)
    fitted = _drop(fitted, "history", max_bytes)
    fitted = _drop(fitted, "step", max_bytes)
    fitted = _shorten(fitted, fitted, max_bytes, _ANY_FLOOR_BYTES)
    return elide(_joined(fitted), max_bytes), True


def elide(text: str, max_bytes: int) -> str:
    """`text` in at most `max_bytes` of UTF-8: its beginning, how much is missing, its end.

    >>> elide("x" * 1000, 60)
    'xxxxxxxxxxxxxxxx [... 976 characters left out ...] xxxxxxxx'
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return text
    keep = max(max_bytes - len(_left_out(f"{len(text)} characters")) - 2, 0)
    head, tail = data[: keep - keep // 3].decode(errors="ignore"), data[len(data) - keep // 3 :].decode(errors="ignore")
    # on one line, so that the tail does not begin a line of its own and pass for one of the transcript's
    return f"{head} {_left_out(f'{len(text) - len(head) - len(tail)} characters')} {tail}"


def _left_out(what: str) -> str:
    return f"[... {what} left out ...]"


def _size(passages: Iterable[Passage]) -> int:
    return sum(_bytes(x) for x in passages)


def _bytes(passage: Passage) -> int:
    return len(passage.text.encode("utf-8", "replace")) + 1


def _joined(passages: Iterable[Passage]) -> str:
    return "\n".join(x.text for x in passages)


def _shorten(which: Sequence[Passage], passages: list[Passage], max_bytes: int, floor_bytes: int) -> list[Passage]:
    """Bring the longest of `which` down to one common length, so that the whole fits; never below the floor."""
    over = _size(passages) - max_bytes
    if over <= 0 or not which:
        return passages
    sizes = sorted((_bytes(x) for x in which), reverse=True)
    cap = floor_bytes
    longest = 0
    for count, following in enumerate([*sizes[1:], 0], 1):
        longest += sizes[count - 1]
        if longest - count * following >= over:
            cap = max((longest - over) // count, floor_bytes)
            break
    chosen = set(map(id, which))
    return [replace(x, text=elide(x.text, cap - 1)) if id(x) in chosen else x for x in passages]


def _drop(passages: list[Passage], part: Literal["history", "step"], max_bytes: int) -> list[Passage]:
    """Leave out whole past messages (the oldest first) or steps (the middle first; the first and the last stay)."""
    sizes: dict[tuple[int, int], int] = {}
    for passage in passages:
        if passage.part == part:
            sizes[passage.place] = sizes.get(passage.place, 0) + _bytes(passage)
    order = sorted(sizes)
    if part == "step":
        inner = sorted(range(1, len(order) - 1), key=lambda index: abs(2 * index - len(order) + 1))
        order = [order[index] for index in inner]
    over = _size(passages) - max_bytes
    gone: set[tuple[int, int]] = set()
    for place in order:
        if over <= 0:
            break
        over -= sizes[place] - (0 if gone else _NOTE_BYTES)
        gone.add(place)
    if not gone:
        return passages
    dropped = [x for x in passages if x.part == part and x.place in gone]
    first, last = min(dropped, key=lambda x: x.place), max(dropped, key=lambda x: x.place)
    what = f"{len(gone)} earlier message(s)" if part == "history" else f"step(s) {first.named} to {last.named}"
    left = [x for x in passages if x.part != part or x.place not in gone]
    where = next(i for i, x in enumerate(passages) if x is dropped[0])
    return [*left[:where], replace(first, text=_left_out(what), long=False), *left[where:]]
