"""Find the attribute that contains what a dialect read from a span: change one and read the span
again.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from spanscore.model.expected import Expected
from spanscore.model.json import dumps
from spanscore.model.step import Step

_MAX_LEAVES = 200
_MAX_CHARS = 40  # of a text that are looked for: enough to be found nowhere else
_MIN_WORD_CHARS = 4
_MAX_WORDS = 3
_MAX_NAMED = 3  # parts that contain one value jointly and are worth naming
_MAX_JOINT = 20
"""Parts of which those are looked for that contain a value only jointly, as a name that must stand
in two places.
"""

_MAX_READ_PARTS = 2_000_000
"""How many parts are read again for all facts of one turn: some ten seconds; what is then left
names no part.
"""
_PLAIN = re.compile(r"[^\W_][\w .,:;?-]*")  # reads the same however often it is encoded
_WORD = re.compile(r"[^\W_]+")
_CHANGED_END = "~"
_JOINT = "__"  # between the names of an MCP server and its tool
_EMPTY, _EMPTY_IN_TEXT = '""', r"\"\""
_EMPTIES = (_EMPTY, _EMPTY_IN_TEXT, "''", "[]", "{}", "null", "None")

FactGetter: TypeAlias = Callable[[Step], Any]
"""What a step contains of one fact."""

_Differs: TypeAlias = Callable[[Sequence[Any]], bool | None]
"""Whether a fact is another one with these parts changed; None where the span then is something
else.
"""


class Rereader(Protocol):
    """Rereads a step's span without a part of it. Parts are opaque here."""

    def parts(self, step: Step) -> Iterable[tuple[Any, str]]:
        """The parts of a step's span, each with its content as text."""

    def name(self, step: Step, part: Any) -> str:
        """A part in words for people."""

    def without(self, step: Step, *parts: Any) -> Step:
        """The step as it would have been read without these parts."""

    def with_text(self, step: Step, parts: Sequence[Any], old: str, new: str) -> Step:
        """The step as it would have been read with `new` in the place of `old` in these parts."""


class AttributeFinder:
    """Finds the parts that contain the facts of one turn; the work for all of them in sum is
    bounded.
    """

    def __init__(self, rereader: Rereader) -> None:
        self._rereader = rereader
        self._left = _MAX_READ_PARTS
        self._known: dict[int, tuple[Step, Sequence[tuple[Any, str]]]] = {}

    def parts(self, step: Step, getter: FactGetter, value: Any) -> list[Any]:
        """The parts of a step's span that contain what `getter` shows; `value` is that, or what is
        alike in it.

        First the value, or a piece of its text, is made another wherever it stands: where that
        shows, there the value was read, even if other parts repeat it. Else it is looked for by
        leaving out parts with a word of it. None where the span by itself does not contain the
        value.
        """
        original = getter(self._rereader.without(step))
        if original is None or original != getter(step):
            return []
        contents = self._parts(step)

        def differs(changed: Step) -> bool | None:
            self._left -= len(contents)
            return getter(changed) != original if changed.kind == step.kind else None

        for old, new in _changes(value):
            containing = [x for x, text in contents if contains(text, old)]
            found = self._search(
                containing,
                lambda x: differs(self._rereader.with_text(step, x, old, new)),  # noqa: B023 - used up within the round
            )
            if found:
                return found
        likely = [x for x, text in contents if _may_contain(text, value)]
        return self._search(likely, lambda x: differs(self._rereader.without(step, *x)))

    def _parts(self, step: Step) -> Sequence[tuple[Any, str]]:
        """All parts of a step's span: they are the same for all facts of the step."""
        if id(step) not in self._known:
            self._known[id(step)] = step, tuple(self._rereader.parts(step))
        return self._known[id(step)][1]

    def _search(self, parts: Sequence[Any], differs: _Differs) -> list[Any]:
        """Those of these parts that, changed each by itself, make a difference; else the few that
        do so jointly.

        Where all of them make none they are passed by at once, else they are halved.
        """
        if not parts or self._left <= 0:
            return []
        is_other = differs(parts)
        if is_other is False or len(parts) == 1:
            return list(parts) if is_other else []
        middle = len(parts) // 2
        found = self._search(parts[:middle], differs)
        if len(found) < _MAX_NAMED:
            found += self._search(parts[middle:], differs)
        if not found and is_other and len(parts) <= _MAX_JOINT:
            found = _needed(parts, differs)
        return found[:_MAX_NAMED]


def _needed(parts: Sequence[Any], differs: _Differs) -> list[Any]:
    """Of parts that make a difference jointly those that it takes; none where these are too many to
    be named.
    """
    needed = list(parts)
    for part in parts:
        rest = [x for x in needed if x is not part]
        if rest and differs(rest):
            needed = rest
    return needed if len(needed) <= _MAX_NAMED else []


def contains(text: str, piece: str) -> bool:
    """Whether the text of a part contains a piece of a value; `""` is the empty text, by itself or
    in JSON.
    """
    return piece in text or (piece == _EMPTY and not text)


def _may_contain(text: str, value: Any) -> bool:
    """Whether a part contains a word of a value, or the value as JSON or Python prints it; or a
    number to add.
    """
    if isinstance(value, int) and text.isdecimal():
        return True
    for leaf in _leaves(value):
        words = _WORD.findall(leaf[: _MAX_CHARS * 10]) if isinstance(leaf, str) else []
        if not leaf and not isinstance(leaf, (int, float)):
            words = list(_EMPTIES)  # emitters write one for another
        if any(contains(text, x) for x in words or (dumps(leaf), str(leaf)) if x):
            return True
    return False


def _changes(value: Any) -> Iterator[tuple[str, str]]:
    """What is looked for, each with what is put in its place: pieces of the value's text, else what
    it has instead.
    """
    for piece in _pieces(value):
        yield piece, piece + _CHANGED_END
    leaf = next(_leaves(value), None)
    if isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
        yield dumps(leaf), dumps(leaf + 1)
    elif not leaf or leaf is True:
        yield dumps(leaf), "[9]"  # without a quote, since it may stand in JSON that is text in JSON
        yield str(leaf) or _EMPTY_IN_TEXT, "[9]"  # as Python prints it


def _pieces(value: Any) -> Iterator[str]:
    """The longest plain piece of text in a value, by which its place in the span is found; then its
    longest words.

    The words are for text that was recorded chunk by chunk, and their longest part for a name that
    is made of several.
    """
    texts = (x for x in _leaves(value) if isinstance(x, str))
    pieces = (x for text in texts for x in _PLAIN.findall(text[: _MAX_CHARS * 10]))
    longest = max((x.strip()[:_MAX_CHARS].strip() for x in pieces), key=len, default="")
    if longest:
        words = sorted(longest.split(), key=len, reverse=True)[:_MAX_WORDS]
        part = max(words[0].split(_JOINT), key=len)
        yield longest
        yield from (
            x for x in dict.fromkeys((*words, part)) if x != longest and len(x) >= _MIN_WORD_CHARS
        )


def _leaves(value: Any) -> Iterator[Any]:
    """The texts, numbers, truth values and nulls in a JSON value, not the keys; and what is
    empty.
    """
    waiting = [value]
    for _ in range(_MAX_LEAVES):
        if not waiting:
            return
        node = waiting.pop()
        if isinstance(node, Expected):
            node = node.to_json()
        if isinstance(node, dict) and node:
            waiting += node.values()
        elif isinstance(node, (list, tuple)) and node:
            waiting += node
        else:  # a message of the history has a text
            yield getattr(node, "text", node)
