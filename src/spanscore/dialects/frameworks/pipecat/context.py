"""Read Pipecat's context, which contains of a model's calls what no span of theirs does."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from spanscore.model.json import Json
from spanscore.model.span import Value
from spanscore.model.step import Message, MessageFact, Step, ToolResult

_CALLS: frozenset[MessageFact] = frozenset({"calls"})
_CANCELLED = "CANCELLED"
# after a function's name
_FAILS, _MISSES = "` failed and returned no result.", "` is not currently available."
# of a result that is empty or 0, or that has not come
_PLACEHOLDERS = ("COMPLETED", "IN_PROGRESS", _CANCELLED)


def with_results(
    messages: tuple[Message, ...] | None, context: Value
) -> tuple[Message, ...] | None:
    """The messages without the words that stand for a tool's result; a tool's own text is JSON in
    `context`.
    """
    if messages is None or not any(x.results for x in messages):
        return messages
    raw = context if isinstance(context, str) else ""
    words = [x for x in _PLACEHOLDERS if x in raw and f'\\"{x}\\"' not in raw]
    if not words and _FAILS not in raw and _MISSES not in raw:
        return messages
    return tuple(
        replace(x, results=_results(x.results, words)) if x.results else x for x in messages
    )


def with_calls(models: Sequence[Step]) -> list[Step]:
    """The model calls of a conversation in order, each with the tools that it requested.

    Pipecat puts each call of one answer into a message of its own.
    """
    found = list(models)
    for at, (step, after) in enumerate(pairwise(models)):
        if any(x.calls for x in step.output or ()):
            continue
        text = next((x.text for x in step.output or () if x.text), None)
        calls = tuple(call for message in _added(step, after) for call in message.calls)
        if calls:
            found[at] = replace(step, output=(Message("assistant", text, calls=calls),))
        elif "input" in after.damaged:  # it may have contained some
            found[at] = replace(step, output=(Message("assistant", text, damaged=_CALLS),))
    return found


def _added(step: Step, after: Step) -> Sequence[Message]:
    """The messages of a request that the one before it lacks, up to the user's next one."""
    before, now = step.input or (), after.input or ()
    if len(now) <= len(before) or not all(map(_alike, before, now)):
        return ()
    added = now[len(before) :]
    ends = next((at for at, x in enumerate(added) if x.role == "user"), len(added))
    return added[:ends]


def _alike(one: Message, other: Message) -> bool:
    """Whether a message is the same as before; the result of a call may have come in between."""
    return one is other or (
        one.role == other.role
        and one.calls == other.calls
        and (one.role == "tool" or one.text == other.text)
    )


def _results(results: tuple[ToolResult, ...], words: Sequence[str]) -> tuple[ToolResult, ...]:
    known = [replace(x, error=str(x.value)) if _is_failure(x.value, words) else x for x in results]
    return tuple(x for x in known if x.error or x.value not in words)


def _is_failure(value: Json, words: Sequence[str]) -> bool:
    if not isinstance(value, str) or value == _CANCELLED:
        return value == _CANCELLED in words
    return value.startswith("The function `") and value.endswith((_FAILS, _MISSES))
