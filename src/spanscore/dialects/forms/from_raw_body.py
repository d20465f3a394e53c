"""Find what a model call's flattened messages leave out, in the request or response that its span
keeps as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spanscore.dialects.forms.provider_bodies import SYSTEM, messages_of, system_of
from spanscore.dialects.forms.provider_bodies import offered as listed_tools
from spanscore.dialects.forms.structure import structure
from spanscore.model.span import Value
from spanscore.model.step import Message
from spanscore.model.trace import Tool

_TOOLS = '"tools"'  # what a request that lists tools contains; most are not parsed for it
_THOUGHTS = ('"reasoning_content"', '"reasoning":"', '"reasoning": "')
"""What a chat completion that contains a model's thoughts has one of."""


def is_lost(flat: Sequence[Message], body: Value) -> bool:
    """Whether what flattened messages leave out may have been in a request or response that was
    cut.
    """
    return isinstance(body, str) and _lacks(flat) and structure(body).damaged


def completed(flat: tuple[Message, ...], body: Value, role: str) -> tuple[Message, ...]:
    """The messages of a request or response, where flattened ones leave out calls, ids, arguments
    or results of theirs.

    Instrumentations leave out what is empty (no arguments, an empty result), and older ones more
    than that.
    """
    if not _lacks(flat):
        return flat
    complete = messages_of(body, role)
    if complete is None or not _contains_more(complete, flat):
        return flat
    return tuple(x for x in flat if x.role == "system" and x not in complete) + complete


def with_reasoning(flat: tuple[Message, ...] | None, body: Value) -> tuple[Message, ...] | None:
    """The only message of an answer, with what the model thought, which flattened messages leave
    out.
    """
    if not flat or len(flat) > 1 or flat[0].reasoning or not isinstance(body, str):
        return flat
    if not any(x in body for x in _THOUGHTS):  # few bodies are parsed
        return flat
    answer = messages_of(body, "assistant")
    thought = (
        answer[0].reasoning
        if answer and len(answer) == 1 and answer[0].text == flat[0].text
        else None
    )
    return (replace(flat[0], reasoning=thought),) if thought else flat


def without_gaps(message: Message) -> Message:
    """The message with the arguments that were left out because there were none."""
    if all(x.arguments is not None for x in message.calls):
        return message
    return replace(
        message, calls=tuple(replace(x, arguments=x.arguments or {}) for x in message.calls)
    )


def system(body: Value) -> str | None:
    """The instructions that stand beside the messages of a request."""
    return system_of(_object(body, SYSTEM))


def offered(*bodies: Value) -> tuple[Tool, ...] | None:
    """The tools that a request offers, or the response that repeats them."""
    return listed_tools(*(structure(x).value for x in bodies if isinstance(x, str) and _TOOLS in x))


def _object(body: Value, keys: tuple[str, ...]) -> Mapping[str, Any]:
    """The JSON object of a request that may have one of the keys; empty without parsing where it
    has none.
    """
    if not isinstance(body, str) or not any(f'"{x}"' in body for x in keys):
        return {}
    request = structure(body).value
    return request if isinstance(request, dict) else {}


def _lacks(flat: Sequence[Message]) -> bool:
    """Whether some call or result is incomplete, or a call before the last message has no
    result.
    """
    calls = [x for message in flat for x in message.calls]
    results = [x for message in flat for x in message.results]
    if any(x.call_id is None or x.arguments is None for x in calls) or any(
        x.value is None for x in results
    ):
        return True
    return len(results) < sum(len(x.calls) for x in flat[:-1])


def _contains_more(complete: Sequence[Message], flat: Sequence[Message]) -> bool:
    """Whether `complete` contains all that `flat` does, and more calls, results or fields of
    them.
    """
    more, less = _counts(complete), _counts(flat)
    texts = {x.text for x in complete}
    needed = (x.text for x in flat if x.role != "system" and x.text)
    return (
        more != less
        and all(x >= y for x, y in zip(more, less, strict=True))
        and all(x in texts for x in needed)
    )


def _counts(messages: Sequence[Message]) -> tuple[int, ...]:
    calls = [x for message in messages for x in message.calls]
    results = [x for message in messages for x in message.results]
    return (
        len(calls),
        sum(x.call_id is not None for x in calls),
        sum(x.arguments is not None for x in calls),
        len(results),
        sum(x.call_id is not None for x in results),
        sum(x.value is not None for x in results),
    )
