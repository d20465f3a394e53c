"""The identity of a model call."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import chain, islice
from typing import Any, Literal, TypeAlias

from spanscore.model.json import dumps
from spanscore.model.span import changed, record
from spanscore.model.step import Message, Step, StepFact
from spanscore.model.trace import TOKEN_DETAILS
from spanscore.turns.basis import conversation
from spanscore.turns.basis.conversation import is_item
from spanscore.turns.basis.tool_boundary import digest, requests_tools, stopped_for_tools

_UNIQUE = re.compile(r"[0-9A-Za-z]+[-_][0-9A-Za-z_-]{16,}|[0-9A-Za-z_-]{20,}")
"""Ids that no two calls share by chance; those of test servers and small local ones are shorter,
and repeat.
"""

Part: TypeAlias = Literal[
    "response_id",
    "text",
    "calls",
    "names",
    "requested_ids",
    "question",
    "system",
    "conversation",
    "whole_input",
    "input_tokens",
    "output_tokens",
]
"""The name of a field of `CallIdentity`."""

COUNTS: tuple[Part, ...] = ("input_tokens", "output_tokens")


class Verdict(Enum):
    """Whether two reports agree."""

    SAME = auto()
    """Both record something, and all that both record is equal."""

    DIFFERENT = auto()
    """Both record something, and it differs."""

    UNKNOWN = auto()
    """There is nothing that both record."""


@record()
class CallIdentity:
    """What identifies a model call in one report of it, as far as that report records it.

    What was cut or redacted in the report is left out. Values serve only for comparison: `of` may
    make digests of them.
    """

    response_id: str | None = None
    """The provider's id of the answer."""

    text: object = None
    """The text of the answer without white space, which each instrumentation puts between parts in
    its own way.
    """

    calls: object = None
    """The tool calls that were requested, with their arguments, in order."""

    names: object = None
    """The names of their tools, sorted.

    Instrumentations that lie above each other record arguments differently.
    """

    requested_ids: tuple[str, ...] = ()
    """The ids of these calls, sorted, without ids of items: an emitter records either those or the
    calls'.
    """

    question: object = None
    """The user's last message in the input."""

    system: object = None
    """The system prompt without white space."""

    conversation: tuple[Hashable, ...] = ()
    """The user's messages in the input, and the ids of its calls and results: what any
    instrumentation records.
    """

    whole_input: object = None
    """The whole input but for system messages: what a proxy passes on as it came."""

    input_tokens: int | None = None
    output_tokens: int | None = None

    @classmethod
    def of(cls, step: Step, *parts: Part, as_digests: bool = False) -> "CallIdentity":
        """The named parts of what a step records.

        `as_digests`: texts and messages are replaced by digests, for identities that are kept
        longer than their steps.
        """
        values: dict[str, Any] = {part: _VALUES[part](step) for part in parts}
        if as_digests:
            for part in _DIGESTED.intersection(parts):
                values[part] = digest(dumps(values[part], sort_keys=True)) if values[part] else None
        return cls(**values)


def agree(one: CallIdentity, other: CallIdentity, *parts: Part) -> Verdict:
    """Whether two identities agree in the named parts; no text, no calls and a count of 0 are
    nothing recorded.

    >>> one = CallIdentity(text="Paris", output_tokens=3)
    >>> agree(one, CallIdentity(text="Paris"), "text", "output_tokens")
    <Verdict.SAME: 1>
    >>> agree(one, CallIdentity(text="Paris", output_tokens=4), "text", "output_tokens")
    <Verdict.DIFFERENT: 2>
    >>> agree(one, CallIdentity(), "text", "output_tokens")
    <Verdict.UNKNOWN: 3>
    """
    verdict = Verdict.UNKNOWN
    for part in parts:
        ours, theirs = getattr(one, part), getattr(other, part)
        if ours and theirs:
            if ours != theirs:
                return Verdict.DIFFERENT
            verdict = Verdict.SAME
    return verdict


def are_unique(ids: Iterable[str]) -> bool:
    """Whether no two calls share any of these ids by chance."""
    return all(map(_UNIQUE.fullmatch, ids))


def _answer(step: Step) -> list[Message]:
    """The messages that a model produced, as far as they are whole."""
    if "output" in step.damaged:
        return []
    return [message for message in step.output or () if not message.damaged]


def _input(step: Step) -> tuple[Message, ...]:
    """The messages that a model was given, if they are whole."""
    return () if is_cut(step, "input") else step.input or ()


def _text(step: Step) -> str:
    return _squeezed(message.text for message in _answer(step))


def _calls(step: Step) -> tuple[Any, ...]:
    called = chain.from_iterable(message.calls for message in _answer(step))
    return tuple((call.name, call.arguments) for call in called)


def _names(step: Step) -> tuple[str, ...]:
    called = chain.from_iterable(message.calls for message in _answer(step))
    return tuple(sorted(call.name for call in called))


def _requested_ids(step: Step) -> tuple[str, ...]:
    called = chain.from_iterable(message.calls for message in _answer(step))
    return tuple(
        sorted({call.call_id for call in called if call.call_id and not is_item(call.call_id)})
    )


def _question(step: Step) -> str | None:
    return conversation.opening(_input(step)).text


def _system(step: Step) -> str:
    if "system" in step.damaged:
        return ""
    return _squeezed([step.system or conversation.system_text(_input(step))])


def _conversation(step: Step) -> tuple[Hashable, ...]:
    return tuple(_user_texts_and_ids(_input(step)))


def _user_texts_and_ids(messages: Iterable[Message]) -> Iterator[Hashable]:
    for message in messages:
        if message.role == "user" and message.text:
            yield message.text
        for call in message.calls:
            yield call.call_id
        for result in message.results:
            yield result.call_id


def _whole_input(step: Step) -> list[Any]:
    return [_as_json(message) for message in step.input or () if message.role != "system"]


def _as_json(message: Message) -> list[Any]:
    calls = [[call.call_id, call.name, call.arguments] for call in message.calls]
    results = [[result.call_id, result.value] for result in message.results]
    return [message.role, (message.text or "").strip(), calls, results]


def _squeezed(texts: Iterable[str | None]) -> str:
    """Texts without the white space in them."""
    return "".join("".join(text for text in texts if text).split())


_DIGESTED: frozenset[Part] = frozenset({"text", "calls", "question", "system", "whole_input"})

_VALUES: Mapping[Part, Callable[[Step], Any]] = {
    "response_id": lambda step: step.response_id,
    "text": _text,
    "calls": _calls,
    "names": _names,
    "requested_ids": _requested_ids,
    "question": _question,
    "system": _system,
    "conversation": _conversation,
    "whole_input": _whole_input,
    "input_tokens": lambda step: step.input_tokens,
    "output_tokens": lambda step: step.output_tokens,
}


MODEL_FACTS: Mapping[str, StepFact | None] = {
    "input": "input",
    "output": "output",
    "system": "system",
    "tools": "tools",
    "model": None,
    "input_tokens": "tokens",
    "output_tokens": "tokens",
    **dict.fromkeys(TOKEN_DETAILS),
    "response_id": None,
    "previous_response_id": None,
}
"""What one report of a model call may have that another lacks, each with the fact that is damaged
if it was cut.
"""

_TOOL_FACTS: Mapping[str, StepFact | None] = {
    "call_id": None,
    "arguments": "arguments",
    "error": None,
}
_COUNTS = ("input_tokens", "output_tokens")
_MESSAGES = frozenset({"input", "output"})


def differ(one: object, other: object) -> bool:
    """Whether both are recorded and not the same."""
    return bool(one) and bool(other) and one != other


def merged(step: Step, other: Step) -> Step:
    """One report of a model call, completed by another; of messages with the same texts, those with
    more calls count.

    LiteLLM's own span records the texts, and not always the calls beside them or their ids. A count
    of no tokens counts less than one of some: what reads a stream may miss them. What was cut or
    redacted in one report is taken from the other where it is whole there.
    """
    filled = _fill(step, other, MODEL_FACTS)
    if _has_more_calls(other.input, filled.input):
        filled = changed(filled, input=other.input)
    if _has_more_calls(other.output, filled.output):
        filled = changed(filled, output=other.output)
    missed: dict[str, Any] = {
        x: getattr(other, x) for x in _COUNTS if getattr(filled, x) == 0 and getattr(other, x)
    }
    return changed(filled, **missed) if missed else filled


def merged_tools(step: Step, other: Step) -> Step:
    """One report of a tool call, completed by another."""
    filled = _fill(step, other, _TOOL_FACTS)
    is_cut = "result" in filled.damaged and "result" not in other.damaged
    if other.has_result and (is_cut or not filled.has_result):
        damaged = filled.damaged.difference({"result"}).union(
            other.damaged.intersection({"result"})
        )
        filled = changed(filled, result=other.result, has_result=True, damaged=damaged)
    return filled


def _has_more_calls(theirs: Sequence[Message] | None, ours: Sequence[Message] | None) -> bool:
    """Whether messages name more calls, or more of their ids, than other messages with the same
    texts.

    At most as many calls are looked at as the other messages may contain, since many reports may be
    compared with them.
    """
    if theirs is None or ours is None or theirs is ours or len(ours) > 2 * len(theirs):
        return False
    count = sum(1 for _ in _called(theirs))
    if sum(1 for _ in islice(_called(ours), count)) >= count:
        return False
    return _texts_of(theirs) == _texts_of(ours)


def _texts_of(messages: Sequence[Message]) -> set[str]:
    return {message.text for message in messages if message.text and not message.results}


def _called(messages: Sequence[Message]) -> Iterator[None]:
    """One for each call that messages name, and one for each id of a call or result."""
    for message in messages:
        for call in message.calls:
            yield None
            if call.call_id is not None:
                yield None
        for result in message.results:
            if result.call_id is not None:
                yield None


def _fill(step: Step, other: Step, facts: Mapping[str, StepFact | None]) -> Step:
    """`step`, completed from `other` where it lacks a fact or has only a part of it; damaged only
    as far as the result still is.
    """
    found: dict[str, Any] = {}
    for field in facts:
        theirs = getattr(other, field)
        if theirs is not None and (
            getattr(step, field) is None or _is_whole_of(step, other, field)
        ):
            found[field] = theirs
    if not found:
        return step
    taken = {fact for field in found if (fact := facts[field]) is not None}
    filled = changed(step, **found)
    if taken.isdisjoint(step.damaged) and taken.isdisjoint(other.damaged):
        return filled
    if filled.input_tokens is None or filled.output_tokens is None:
        taken.discard("tokens")
    if "output" in found and not _has_all_output(step, other):
        taken.discard("output")
    return changed(
        filled, damaged=step.damaged.difference(taken).union(other.damaged.intersection(taken))
    )


def _has_all_output(step: Step, other: Step) -> bool:
    """Whether another report contains everything that the model produced.

    A report of the same emitter may leave out the calls beside a text. So only a finish reason, or
    a report of another emitter, shows that no calls were requested.
    """
    if any(x.calls for x in other.output or ()):
        return True
    if stopped_for_tools(step) or requests_tools(other):
        return False
    return (
        bool(step.finish_reasons or other.finish_reasons)
        or step.span.scope.name != other.span.scope.name
    )


def _is_whole_of(step: Step, other: Step, field: str) -> bool:
    """Whether a report contains the whole of what another one contains in part; False if it records
    much less of it.
    """
    ours, theirs = (getattr(x, field) if field in _MESSAGES else () for x in (step, other))
    if len(ours) > 2 * len(theirs) or not is_cut(step, field) or is_cut(other, field):
        return False
    return field != "output" or _has_all_output(step, other)


def is_cut(step: Step, field: str) -> bool:
    """Whether a field of a report was cut or redacted, if only in one of its messages."""
    if field in step.damaged:
        return True
    messages: Sequence[Message] = getattr(step, field) or () if field in _MESSAGES else ()
    return any(message.damaged for message in messages)
