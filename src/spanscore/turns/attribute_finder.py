"""The attribute behind a fact, found by rereading."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from spanscore.model.json import dumps
from spanscore.model.step import Step, ToolResult
from spanscore.model.trace import Expected, RequestedCall
from spanscore.turns.basis import conversation
from spanscore.turns.calls.call_facts import Call
from spanscore.turns.calls.tool_errors import inferred_error
from spanscore.turns.facts.source import Sourced
from spanscore.turns.facts.user_input import set_down_in

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


class Recorded(NamedTuple):
    """A result that was recorded, be it null."""

    value: Any


class Place(NamedTuple):
    """Where a call or a result stands: in which field of a step, and as which, and of how many, in
    its messages.
    """

    field: str
    at: int
    among: int
    itself: RequestedCall | ToolResult


def of_fact(
    name: str, found: Sourced, call: Call | None = None, place: Place | None = None
) -> FactGetter:
    """What any reading of a span contains of the fact that was found in its step; `call` where it
    is a fact of one.
    """
    field = found.field
    if place is not None:
        return _in_message(name, field, place, inferred=_is_inferred(name, found, call))
    if field in {"input", "output"} and name in _IN_MESSAGES:
        return _IN_MESSAGES[name]
    if field == "arguments":
        return lambda step: (
            step.arguments if not step.positional else (step.arguments, step.positional)
        )
    if field == "result" and name == "error":
        return lambda step: inferred_error(step.result)
    if field == "result":
        return lambda step: Recorded(step.result) if step.has_result else None
    return _agent if field == "agent_name" else lambda step: getattr(step, field)


def _agent(step: Step) -> str | None:
    """The agent that a step names: the one that it belongs to, or that works in it."""
    return step.agent_name or step.runs_agent


def of_tool(name: str) -> FactGetter:
    """What any reading of a span contains of a tool on offer."""
    return lambda step: next((x for x in step.tools or () if x.name == name), None)


def placed(found: Sourced, call: Call | None) -> Place | None:
    """Where the call or result stands of which a fact was found in the messages of a step; None for
    any other fact.
    """
    if call is None or found.field not in {"calls", "results"}:
        return None
    for field in ("output", "input"):
        standing = _standing(found.step, field, found.field)
        at = (
            _at_call(standing, call, found.step)
            if found.field == "calls"
            else _at_result(standing, call)
        )
        if at is not None:
            return Place(field, at, len(standing), standing[at])
    return None


def repeated(request: RequestedCall, step: Step) -> Place | None:
    """Where a call stands word for word in what another step was given, or put out."""
    for field in ("input", "output"):
        calls = _standing(step, field, "calls")
        if request in calls:
            return Place(field, calls.index(request), len(calls), request)
    return None


def _at_call(calls: Sequence[RequestedCall], call: Call, step: Step) -> int | None:
    """Which of these is the call as it was requested, or repeated; its id may have been removed."""
    for one in (x.call for x in (call.request, call.repeated) if x is not None and x.step is step):
        for at, other in enumerate(calls):
            if other is one or (
                other.name is one.name and other.arguments is one.arguments and one.call_id is None
            ):
                return at
    return None


def _at_result(results: Sequence[ToolResult], call: Call) -> int | None:
    returned = None if call.returned is None else call.returned.result
    return next((at for at, x in enumerate(results) if x is returned), None)


def _is_inferred(name: str, found: Sourced, call: Call | None) -> bool:
    returned = None if call is None or call.returned is None else call.returned.result
    return (
        name == "error" and returned is not None and not returned.error and found.field == "results"
    )


def _in_message(name: str, field: str, place: Place, *, inferred: bool) -> FactGetter:
    def show(step: Step) -> Any:
        standing = _standing(step, place.field, field)
        if len(standing) == place.among:
            one = standing[place.at]
        elif place.itself in standing:  # what went was another one
            one = place.itself
        else:
            return None
        if inferred:
            return inferred_error(one.value)
        return Recorded(one.value) if name == "result" else getattr(one, name)

    return show


def _standing(step: Step, field: str, which: str) -> list[Any]:
    """The calls, or the results, in the messages of a step."""
    return [x for message in getattr(step, field) or () for x in getattr(message, which)]


def _plan(step: Step) -> tuple[str, tuple[str, ...]] | None:
    """The texts of the output, and the steps that were set down by a call."""
    texts = [x.text for x in step.output or () if x.text and x.text.strip()]
    planned = "\n".join(texts), next((x for x in map(set_down_in, step.output or ()) if x), ())
    return planned if any(planned) else None


_IN_MESSAGES: Mapping[str, FactGetter] = {
    "user_input": lambda step: conversation.opening(step.input or ()).text,
    "history": lambda step: conversation.history(conversation.opening(step.input or ())),
    "system_instructions": lambda step: conversation.system_text(step.input or ()),
    "final_output": lambda step: conversation.final_text(step.output or ()),
    "plan": _plan,
}
