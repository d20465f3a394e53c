"""The boundary between tool calls and their results."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from spanscore.model.json import Json, dumps
from spanscore.model.span import STATUS_ERROR
from spanscore.model.step import Message, Step, ToolResult
from spanscore.turns.basis import conversation, stitch_keys

_MAX_NAME = 1000
"""Characters of a tool's name that count."""

_MAX_CALLS = 100
"""Calls at one place that are compared: the latest."""


class Wanted(NamedTuple):
    """A tool call as it is looked for elsewhere; `kind` stands for its name and arguments, "" if
    not known.
    """

    call_id: str | None
    name: str
    kind: str


UNRECORDED = Wanted(None, "", "")
"""A call that was requested, of which nothing is recorded."""


class ToolBoundary(NamedTuple):
    """A place in a turn between a model's calls and their results: the calls requested there, the
    latest first.

    `question` stands for the user's question, None where it is not recorded; `conversation` for all
    messages before the calls, and the calls, "" where these are not recorded; `passed` is how many
    calls of the turn lie before them. `silent` stands for the messages without the calls: a model
    call is found by it that does not record its requests.
    """

    question: str | None
    calls: tuple[Wanted, ...]
    conversation: str
    passed: int
    silent: tuple[str, ...] = ()


def pending_after(model: Step) -> ToolBoundary | None:
    """The boundary after a model call that requested tools; None after any other."""
    calls = _wanted_in(model.output or ())
    if not calls:
        return None
    given = model.input or ()
    passed = sum(len(x.calls) for x in conversation.tail(given, None))
    return ToolBoundary(
        _question(given), latest(calls), _digest(given, model.system, calls), passed
    )


def maybe_pending_after(model: Step) -> ToolBoundary | None:
    """The boundary after a model call that may have requested tools without recording it; None
    where that cannot be.

    Some emitters leave the calls out of a model's output: only the input of the next model call
    contains them.
    """
    given = model.input or ()
    produced = model.output or ()
    is_recorded = model.output is not None or bool(model.finish_reasons)
    if (
        not given
        or not is_recorded
        or model.span.status_code == STATUS_ERROR
        or any(x.calls for x in produced)
    ):
        return None
    passed = sum(len(x.calls) for x in conversation.tail(given, None))
    return ToolBoundary(
        _question(given), (), "", passed, (_silent(given, model.system, _texts(produced)),)
    )


def requests_tools(model: Step) -> bool:
    """Whether a model call that records no tool calls requested some, as far as its finish reasons
    and output show.
    """
    return (model.output is not None and not _texts(model.output)) or stopped_for_tools(model)


def stopped_for_tools(model: Step) -> bool:
    """Whether a model call stopped to have tools called, by its finish reasons."""
    return any("tool" in x.lower() or x == "function_call" for x in model.finish_reasons)


def resumed_by(model: Step) -> ToolBoundary | None:
    """The boundary before a model call whose input ends with results of tools; None before any
    other.
    """
    given = model.input or ()
    of_turn = conversation.tail(given, None)
    results = [result for message in of_turn for result in message.results]
    if not results:
        return None
    calls = _with_ids_of_results(_wanted_in(of_turn), results)
    if not calls:
        return _resumed_without_calls(model, results)
    end = _after_last(given, len(given), lambda message: bool(message.calls))
    start = _after_last(given, end, lambda message: not message.calls)
    requested = _wanted_in(given[start:end])
    return ToolBoundary(
        _question(given),
        latest(calls),
        _digest(given[:start], model.system, requested),
        max(len(calls) - len(requested), 0),
        _without_calls(given, start, end, model.system),
    )


def _resumed_without_calls(model: Step, results: Sequence[ToolResult]) -> ToolBoundary:
    """The boundary before a model call whose input contains only what is new, or leaves the calls
    out.
    """
    given = model.input or ()
    start = _after_last(given, len(given), lambda message: not message.results)
    without_calls = _without_calls(given, start, start, model.system)
    calls = latest([Wanted(result.call_id, "", "") for result in results])
    return ToolBoundary(_question(given), calls, "", 0, without_calls)


def _wanted_in(messages: Sequence[Message]) -> list[Wanted]:
    """The calls that messages request."""
    found: list[Wanted] = []
    for message in messages:
        found += [wanted(call.call_id, call.name, call.arguments) for call in message.calls]
    return found


def _with_ids_of_results(calls: list[Wanted], results: Sequence[ToolResult]) -> list[Wanted]:
    """The calls with the ids of their results, where there are as many and no id is the same: items
    of a response have other ids.
    """
    ids = [result.call_id for result in results]
    if len(calls) != len(ids) or not {call.call_id for call in calls}.isdisjoint(ids):
        return calls
    return [call._replace(call_id=call_id) for call, call_id in zip(calls, ids, strict=True)]


def _after_last(messages: Sequence[Message], end: int, matches: Callable[[Message], bool]) -> int:
    """The index after the last of `messages[:end]` that matches; 0 where none does."""
    for at in range(end, 0, -1):
        if matches(messages[at - 1]):
            return at
    return 0


def may_meet(one: ToolBoundary, other: ToolBoundary) -> bool:
    """Whether a turn that ends at one boundary may continue at the other, by their questions, calls
    and ids, as far as these are recorded.
    """
    if one.question is not None and other.question is not None and one.question != other.question:
        return False
    if not one.calls:
        return not set(one.silent).isdisjoint(other.silent)
    by_id = defaultdict[str, list[Wanted]](list)
    for call in other.calls:
        if call.call_id:
            by_id[call.call_id].append(call)
    if by_id and any(x.call_id for x in one.calls):
        # the id alone does not show that it is the same call: some number calls anew in each answer
        same = [(x, by_id[x.call_id]) for x in one.calls if x.call_id and x.call_id in by_id]
        return bool(same) and all(any(is_same(x, y) for y in alike) for x, alike in same)
    return one.conversation == other.conversation


def keys(boundary: ToolBoundary) -> list[str]:
    """The keys of a boundary: the ids of its calls, the latest first, then the conversation, with
    and without them.

    The ids of calls made before those at the boundary come after the conversation with these, which
    some emitters record without ids.
    """
    own = max(len(boundary.calls) - boundary.passed, 0)
    ids = [
        dict.fromkeys(stitch_keys.tool_call(x.call_id) for x in each if x.call_id)
        for each in (boundary.calls[:own], boundary.calls[own:])
    ]
    return [
        *ids[0],
        *([boundary.conversation] if boundary.conversation else ()),
        *ids[1],
        *boundary.silent,
    ]


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
    """A short digest of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _question(messages: tuple[Message, ...]) -> str | None:
    text = conversation.opening(messages).text
    return None if text is None else digest(text)


def _digest(before: Sequence[Message], system: str | None, calls: Sequence[Wanted]) -> str:
    """A digest of a conversation up to the calls that its last message requested, whatever their
    ids.
    """
    messages = [
        [
            x.role,
            x.text or "",
            [[c.name, c.arguments] for c in x.calls],
            [r.value for r in x.results],
        ]
        for x in before
    ]
    return digest(dumps([system or "", messages, [x[1:] for x in calls]], sort_keys=True))


def _without_calls(
    given: Sequence[Message], start: int, end: int, system: str | None
) -> tuple[str, ...]:
    """Digests of a conversation up to the calls that `given[start:end]` request, but without these
    calls.

    The first includes the model's text beside the calls; the second does not, as some emitters do
    not record that text either.
    """
    before = _after_last(
        given, start, lambda message: message.role != "assistant" or bool(message.calls)
    )
    beside = _texts(given[before:end])
    found = (_silent(given[:before], system, texts) for texts in (beside, []))
    return tuple(dict.fromkeys(found)) if before else ()


def _silent(before: Sequence[Message], system: str | None, texts: list[str]) -> str:
    return stitch_keys.without_calls(digest(dumps([_digest(before, system, ()), texts])))


def _texts(messages: Sequence[Message]) -> list[str]:
    return [x.text for x in messages if x.text]
