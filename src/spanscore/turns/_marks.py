"""The places in a turn where a model asked for tools and where one is told what they returned: there it goes on."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from spanscore.model.json import Json, dumps
from spanscore.model.step import Message, Step
from spanscore.turns import _conversation

_MAX_CALLS = 100
"""Calls at one place that are compared: the latest."""


class Wanted(NamedTuple):
    """A tool call as it is looked for elsewhere; `kind` stands for its name and arguments, "" if not known."""

    call_id: str | None
    name: str
    kind: str


class Mark(NamedTuple):
    """A place in a turn between a model's calls and their results: the calls asked for there, the latest first.

    `question` stands for what the user asked, None where that is not told; `conversation` for all that was said before
    the calls, with them, "" where that is not told; `passed` is how many calls of the turn lie before them.
    """

    question: str | None
    calls: tuple[Wanted, ...]
    conversation: str
    passed: int


def left(model: Step) -> Mark | None:
    """The mark that a model call leaves: it asked for tools."""
    calls = [wanted(x.call_id, x.name, x.arguments) for m in model.output or () for x in m.calls]
    if not calls:
        return None
    given = model.input or ()
    passed = sum(len(x.calls) for x in _conversation.tail(given, None))
    return Mark(_question(given), latest(calls), _digest(given, model.system, calls), passed)


def entered(model: Step) -> Mark | None:
    """The mark at which a model call goes on: it was told what tools returned."""
    given = model.input or ()
    told = _conversation.tail(given, None)
    results = [x for m in told for x in m.results]
    if not results:
        return None
    calls = [wanted(x.call_id, x.name, x.arguments) for m in told for x in m.calls]
    if not calls:  # the input holds only what is new
        return Mark(_question(given), latest([Wanted(x.call_id, "", "") for x in results]), "", 0)
    end = next(i for i in range(len(given), 0, -1) if given[i - 1].calls)
    start = next((i for i in range(end, 0, -1) if not given[i - 1].calls), 0)
    asked = [wanted(x.call_id, x.name, x.arguments) for m in given[start:end] for x in m.calls]
    return Mark(
        _question(given), latest(calls), _digest(given[:start], model.system, asked), max(len(calls) - len(asked), 0)
    )


def may_meet(one: Mark, other: Mark) -> bool:
    """Whether what is left at one mark goes on at the other: by question, calls and ids, as far as each is known."""
    if one.question is not None and other.question is not None and one.question != other.question:
        return False
    told = {x.call_id: x for x in other.calls if x.call_id}
    if told and any(x.call_id for x in one.calls):
        same = [(x, told[x.call_id]) for x in one.calls if x.call_id in told]
        return bool(same) and all(is_same(x, y) for x, y in same)
    return one.conversation == other.conversation


def keys(mark: Mark) -> list[str]:
    """By what a mark is found: the ids of its calls, the latest first, then the conversation."""
    ids = dict.fromkeys(f"id {x.call_id}" for x in mark.calls if x.call_id)
    return [*ids, mark.conversation] if mark.conversation else [*ids]


def is_same(one: Wanted, other: Wanted) -> bool:
    """Whether two may be the same call, whatever their ids."""
    if one.name and other.name and one.name != other.name:
        return False
    return not one.kind or not other.kind or one.kind == other.kind


def wanted(call_id: str | None, name: str | None, arguments: Json) -> Wanted:
    """A tool call as it is looked for."""
    kind = "" if arguments is None else _hash(dumps([name, arguments], sort_keys=True))
    return Wanted(call_id, name or "", kind)


def latest(calls: Sequence[Wanted]) -> tuple[Wanted, ...]:
    """The last of some calls, the latest first."""
    return tuple(reversed(calls[-_MAX_CALLS:]))


def _question(messages: tuple[Message, ...]) -> str | None:
    said = _conversation.opening(messages).text
    return None if said is None else _hash(said)


def _digest(before: Sequence[Message], system: str | None, calls: Sequence[Wanted]) -> str:
    """Stands for a conversation up to the calls that its last message asked for, whatever their ids."""
    said = [
        [x.role, x.text or "", [[c.name, c.arguments] for c in x.calls], [r.value for r in x.results]] for x in before
    ]
    return _hash(dumps([system or "", said, [x[1:] for x in calls]], sort_keys=True))


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
