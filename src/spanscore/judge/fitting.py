"""Make a transcript fit its budget by leaving out what a judge misses least, and saying so where it stood."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spanscore.judge.marks import left_out

_LONG_FLOOR_BYTES = 600
_ANY_FLOOR_BYTES = 120
_NOTE_BYTES = 80


@dataclass(frozen=True, slots=True)
class Passage:
    """Some lines of a transcript.

    `number` is that of the step or past message they belong to, `turn` that of the turn in a session, `call` the place
    of the tool call whose arguments they are; `long`: their middle is the first thing to go.
    """

    text: str
    part: Literal["frame", "history", "step"] = "frame"
    number: int = 0
    long: bool = False
    turn: int | None = None
    call: int | None = None

    @property
    def place(self) -> tuple[int, int]:
        """What orders steps, and past messages, over all turns."""
        return (self.turn or 0, self.number)

    @property
    def named(self) -> str:
        """The step, as a note on what was left out calls it."""
        return str(self.number) if self.turn is None else f"{self.number} of turn {self.turn}"


@dataclass(frozen=True, slots=True)
class Fitted:
    """A transcript's lines within their bound.

    `shown_calls` are the places of the tool calls whose arguments are there whole; `left_out` is how many steps,
    messages and characters are not there.
    """

    text: str
    shown_calls: frozenset[int]
    left_out: Mapping[str, int]


def fit(passages: Sequence[Passage], max_bytes: int, focus: Collection[int] = (), *, tag: str = "") -> Fitted:
    """The passages as lines of at most `max_bytes` of UTF-8.

    What goes, in this order, and only as far as needed: the middle of the longest `long` passages; the oldest past
    messages; steps, from the middle outwards; the middle of the longest of all that is left. The steps of the calls
    in `focus` go last.
    """
    fitted = list(passages)
    if _size(fitted) <= max_bytes:
        return Fitted(_joined(fitted), _whole(passages, fitted), {})
    kept = {x.place for x in fitted if x.call is not None and x.call in focus}
    fitted = _shorten([x for x in fitted if x.long and x.place not in kept], fitted, max_bytes, _LONG_FLOOR_BYTES, tag)
    fitted, messages = _drop(fitted, "history", max_bytes, tag)
    fitted, steps = _drop(fitted, "step", max_bytes, tag, kept)
    fitted = _shorten(fitted, fitted, max_bytes, _ANY_FLOOR_BYTES, tag)
    joined = _joined(fitted)
    text = elide(joined, max_bytes, tag)
    shown = _whole(passages, fitted) if text == joined else frozenset[int]()
    counted = {"steps": steps, "messages": messages, "characters": max(len(_joined(passages)) - len(text), 0)}
    return Fitted(text, shown, {what: count for what, count in counted.items() if count})


def _whole(passages: Sequence[Passage], fitted: Sequence[Passage]) -> frozenset[int]:
    """The places of the tool calls whose arguments are the same in both."""
    now = {x.call: x.text for x in fitted if x.call is not None}
    return frozenset(x.call for x in passages if x.call is not None and now.get(x.call) == x.text)


def elide(text: str, max_bytes: int, tag: str = "") -> str:
    """`text` in at most `max_bytes` of UTF-8: its beginning, how much is missing, its end.

    >>> elide("x" * 1000, 60)
    'xxxxxxxxxxxxxxxx [... 976 characters left out ...] xxxxxxxx'
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return text
    keep = max(max_bytes - len(left_out(f"{len(text)} characters", tag)) - 2, 0)
    head, tail = data[: keep - keep // 3].decode(errors="ignore"), data[len(data) - keep // 3 :].decode(errors="ignore")
    # on one line, so that the tail does not begin a line of its own and pass for one of the transcript's
    return f"{head} {left_out(f'{len(text) - len(head) - len(tail)} characters', tag)} {tail}"


def _size(passages: Iterable[Passage]) -> int:
    return sum(_bytes(x) for x in passages)


def _bytes(passage: Passage) -> int:
    return len(passage.text.encode("utf-8", "replace")) + 1


def _joined(passages: Iterable[Passage]) -> str:
    return "\n".join(x.text for x in passages)


def _shorten(
    which: Sequence[Passage], passages: list[Passage], max_bytes: int, floor_bytes: int, tag: str
) -> list[Passage]:
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
    return [replace(x, text=elide(x.text, cap - 1, tag)) if id(x) in chosen else x for x in passages]


def _drop(
    passages: list[Passage],
    part: Literal["history", "step"],
    max_bytes: int,
    tag: str,
    kept: Collection[tuple[int, int]] = (),
) -> tuple[list[Passage], int]:
    """Leave out whole past messages (the oldest first) or steps (the middle first; the first and the last stay).

    Also returns how many were left out; those of `kept` never are.
    """
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
    for place in (x for x in order if x not in kept):
        if over <= 0:
            break
        over -= sizes[place] - (0 if gone else _NOTE_BYTES)
        gone.add(place)
    if not gone:
        return passages, 0
    dropped = [x for x in passages if x.part == part and x.place in gone]
    first, last = min(dropped, key=lambda x: x.place), max(dropped, key=lambda x: x.place)
    what = f"{len(gone)} earlier message(s)" if part == "history" else f"step(s) {first.named} to {last.named}"
    left = [x for x in passages if x.part != part or x.place not in gone]
    where = next(i for i, x in enumerate(passages) if x is dropped[0])
    return [*left[:where], replace(first, text=left_out(what, tag), long=False, call=None), *left[where:]], len(gone)
