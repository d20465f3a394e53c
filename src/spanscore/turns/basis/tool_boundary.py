"""Where a turn that is spread over traces was parted: between a model's tool calls and the call with their results."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from spanscore.model.json import Json, dumps
from spanscore.model.span import STATUS_ERROR
from spanscore.model.step import Message, Step
from spanscore.turns.basis import conversation, stitch_keys

_MAX_NAME = 1000
"""Characters of a tool's name that count."""

_MAX_CALLS = 100
"""Calls at one place that are compared: the latest."""


class Wanted(NamedTuple):
    """A tool call as it is looked for elsewhere; `kind` stands for its name and arguments, "" if not known."""

    call_id: str | None
    name: str
    kind: str


UNRECORDED = Wanted(None, "", "")
"""A call that was requested, of which nothing is recorded."""


class ToolBoundary(NamedTuple):
    """A place in a turn between a model's calls and their results: the calls asked for there, the latest first.

    `question` stands for the user's question, None where it is not recorded; `conversation` for all messages before
    the calls, and the calls, "" where these are not recorded; `passed` is how many calls of the turn lie before them.
    `silent` stands for the messages without the calls: a model call is found by it that does not record its requests.
    """

    question: str | None
    calls: tuple[Wanted, ...]
    conversation: str
    passed: int
    silent: tuple[str, ...] = ()


def pending_after(model: Step) -> ToolBoundary | None:
    """The boundary after a model call that requested tools; None after any other."""
    calls = [wanted(x.call_id, x.name, x.arguments) for m in model.output or () for x in m.calls]
    if not calls:
        return None
    given = model.input or ()
    passed = sum(len(x.calls) for x in conversation.tail(given, None))
    return ToolBoundary(_question(given), latest(calls), _digest(given, model.system, calls), passed)


def maybe_pending_after(model: Step) -> ToolBoundary | None:
    """The boundary after a model call that may have requested tools without recording it; None where that cannot be.

    Some emitters leave the calls out of a model's output: only the input of the next model call contains them.
    """
    given = model.input or ()
    produced = model.output or ()
    is_told = model.output is not None or bool(model.finish_reasons)
    if not given or not is_told or model.span.status_code == STATUS_ERROR or any(x.calls for x in produced):
        return None
    passed = sum(len(x.calls) for x in conversation.tail(given, None))
    return ToolBoundary(_question(given), (), "", passed, (_silent(given, model.system, _texts(produced)),))


def asks_for_tools(model: Step) -> bool:
    """Whether a model call that tells of no calls did ask for some, as far as its finish reasons and silence show."""
    return (model.output is not None and not _texts(model.output)) or stopped_for_tools(model)


def stopped_for_tools(model: Step) -> bool:
    """Whether a model call's finish reasons say that it asked for tools."""
    return any("tool" in x.lower() or x == "function_call" for x in model.finish_reasons)


def resumed_by(model: Step) -> ToolBoundary | None:
    """The boundary before a model call whose input ends with results of tools; None before any other."""
    given = model.input or ()
    told = conversation.tail(given, None)
    results = [x for m in told for x in m.results]
    if not results:
        return None
    calls = [wanted(x.call_id, x.name, x.arguments) for m in told for x in m.calls]
    if len(calls) == len(results) and {x.call_id for x in calls}.isdisjoint(x.call_id for x in results):
        # items of a response have ids of their own
        calls = [x._replace(call_id=y.call_id) for x, y in zip(calls, results, strict=True)]
    if not calls:  # the input holds only what is new, or leaves the calls out
        start = next((i for i in range(len(given), 0, -1) if not given[i - 1].results), 0)
        heard = _heard(given, start, start, model.system)
        return ToolBoundary(_question(given), latest([Wanted(x.call_id, "", "") for x in results]), "", 0, heard)
    end = next(i for i in range(len(given), 0, -1) if given[i - 1].calls)
    start = next((i for i in range(end, 0, -1) if not given[i - 1].calls), 0)
    asked = [wanted(x.call_id, x.name, x.arguments) for m in given[start:end] for x in m.calls]
    return ToolBoundary(
        _question(given),
        latest(calls),
        _digest(given[:start], model.system, asked),
        max(len(calls) - len(asked), 0),
        _heard(given, start, end, model.system),
    )


def may_meet(one: ToolBoundary, other: ToolBoundary) -> bool:
    """Whether a turn that ends at one boundary goes on at the other: by question, calls and ids, as far as recorded."""
    if one.question is not None and other.question is not None and one.question != other.question:
        return False
    if not one.calls:
        return not set(one.silent).isdisjoint(other.silent)
    told = defaultdict[str, list[Wanted]](list)
    for call in other.calls:
        if call.call_id:
            told[call.call_id].append(call)
    if told and any(x.call_id for x in one.calls):
        # the id alone does not say that it is the same call: some number calls anew in each answer
        same = [(x, told[x.call_id]) for x in one.calls if x.call_id and x.call_id in told]
        return bool(same) and all(any(is_same(x, y) for y in alike) for x, alike in same)
    return one.conversation == other.conversation


def keys(boundary: ToolBoundary) -> list[str]:
    """The keys of a boundary: the ids of its calls, the latest first, then the conversation, with and without them.

    The ids of calls made before those at the boundary come after the conversation with these, which some emitters
    record without ids.
    """
    own = max(len(boundary.calls) - boundary.passed, 0)
    ids = [
        dict.fromkeys(stitch_keys.tool_call(x.call_id) for x in each if x.call_id)
        for each in (boundary.calls[:own], boundary.calls[own:])
    ]
    return [*ids[0], *([boundary.conversation] if boundary.conversation else ()), *ids[1], *boundary.silent]


def is_same(one: Wanted, other: Wanted) -> bool:
    """Whether two may be the same call, whatever their ids."""
    if one.name and other.name and one.name != other.name:
        return False
    return not one.kind or not other.kind or one.kind == other.kind


def wanted(call_id: str | None, name: str | None, arguments: Json) -> Wanted:
    """A tool call as it is looked for."""
    kind = "" if arguments is None else digest(dumps([name, arguments], sort_keys=True))
    return Wanted(call_id, (name or "")[:_MAX_NAME], kind)


def latest(calls: Sequence[Wanted]) -> tuple[Wanted, ...]:
    """The last of some calls, the latest first."""
    return tuple(reversed(calls[-_MAX_CALLS:]))


def digest(text: str) -> str:
    """Stands for a text, in few characters."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _question(messages: tuple[Message, ...]) -> str | None:
    said = conversation.opening(messages).text
    return None if said is None else digest(said)


def _digest(before: Sequence[Message], system: str | None, calls: Sequence[Wanted]) -> str:
    """Stands for a conversation up to the calls that its last message asked for, whatever their ids."""
    said = [
        [x.role, x.text or "", [[c.name, c.arguments] for c in x.calls], [r.value for r in x.results]] for x in before
    ]
    return digest(dumps([system or "", said, [x[1:] for x in calls]], sort_keys=True))


def _heard(given: Sequence[Message], start: int, end: int, system: str | None) -> tuple[str, ...]:
    """Stands for a conversation up to the calls that `given[start:end]` ask for, but without them.

    FirstOf with what the model said beside them; then without, as it is known to who did not record that either.
    """
    before = next((i for i in range(start, 0, -1) if given[i - 1].role != "assistant" or given[i - 1].calls), 0)
    said = _texts(given[before:end])
    found = (_silent(given[:before], system, texts) for texts in (said, []))
    return tuple(dict.fromkeys(found)) if before else ()


def _silent(before: Sequence[Message], system: str | None, said: list[str]) -> str:
    return stitch_keys.unsaid(digest(dumps([_digest(before, system, ()), said])))


def _texts(messages: Sequence[Message]) -> list[str]:
    return [x.text for x in messages if x.text]
