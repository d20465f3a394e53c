"""Find the attribute that holds what a dialect read from a span: change one and read the span again."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

from spanscore.model.step import Step

_MAX_LEAVES = 200
_MAX_CHARS = 40  # of a text that are looked for: enough to be found nowhere else
_MIN_WORD_CHARS = 4
_MAX_PARTS = 3  # that hold one value together and are worth naming
_PLAIN = re.compile(r"[^\W_][\w .,:;?-]*")  # reads the same however often it is encoded
_MARK = "~"

Lens: TypeAlias = Callable[[Step], Any]
"""What a step says of one fact."""


class Again(Protocol):
    """Reads a step's span again without a part of it. Parts are opaque here."""

    def parts(self, step: Step) -> Iterable[tuple[Any, str]]:
        """The parts of a step's span, each with what it holds as text."""

    def name(self, step: Step, part: Any) -> str:
        """A part in words for people."""

    def without(self, step: Step, *parts: Any) -> Step:
        """The step as it would have been read without these parts."""

    def with_text(self, step: Step, part: Any, old: str, new: str) -> Step:
        """The step as it would have been read with `new` in the place of `old` in this part."""


def held(again: Again, step: Step, lens: Lens, value: Any) -> list[Any]:
    """The parts of a step's span from which it tells what `lens` shows; `value` is that, or what is alike in it.

    First a piece of the value's text is marked wherever it stands: where the mark shows, there the value was read, even
    if other parts repeat it. A value without text is looked for by leaving out each part in turn.
    """
    original = lens(step)
    parts = list(again.parts(step))
    for piece in _pieces(value):
        marked = (x for x, text in parts if piece in text)
        found = [x for x in marked if _differs(again.with_text(step, x, piece, piece + _MARK), step, lens, original)]
        if found:
            return found[:_MAX_PARTS]
    number = str(value) if isinstance(value, int) else None
    likely = [x for x in parts if number is not None and number in x[1]]
    for candidates in (likely, parts):
        found = [x for x, _ in candidates if _differs(again.without(step, x), step, lens, original)]
        if found:
            return found[:_MAX_PARTS]
    return []


def _differs(changed: Step, step: Step, lens: Lens, original: Any) -> bool:
    """Whether the fact is another one. A part without which the span is something else holds no fact of it."""
    return changed.kind == step.kind and lens(changed) != original


def _pieces(value: Any) -> Iterator[str]:
    """The longest plain piece of text in a value, of which it can be told where it was read; then its longest word.

    The word is for text that was recorded chunk by chunk.
    """
    pieces = (x for text in _texts(value) for x in _PLAIN.findall(text[: _MAX_CHARS * 10]))
    longest = max((x.strip()[:_MAX_CHARS].strip() for x in pieces), key=len, default="")
    if longest:
        yield longest
        word = max(longest.split(), key=len)
        if word != longest and len(word) >= _MIN_WORD_CHARS:
            yield word


def _texts(value: Any) -> Iterator[str]:
    """The texts in a JSON value, not the keys."""
    waiting = [value]
    for _ in range(_MAX_LEAVES):
        if not waiting:
            return
        node = waiting.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            waiting += node.values()
        elif isinstance(node, (list, tuple)):
            waiting += node
        elif hasattr(node, "text"):  # a message of the history
            waiting.append(node.text)
