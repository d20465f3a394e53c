"""What identifies a model call in a report of it, and whether two reports agree in that."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from enum import Enum, auto
from itertools import chain
from typing import Any, Literal, TypeAlias

from spanscore.model.json import dumps
from spanscore.model.record import record
from spanscore.model.step import Message, Step
from spanscore.turns.basis import conversation
from spanscore.turns.basis.call_ids import is_item
from spanscore.turns.basis.tool_boundary import digest
from spanscore.turns.dedup.merge import is_cut

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
