"""Read what OpenLIT recorded up to 1.36: a request's messages as lines of one text, tool calls as
lists in words.
"""

import json
import re
from typing import Any

from spanscore.dialects.forms.arguments import call_id
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.structure import literal, opened
from spanscore.dialects.forms.truncation import is_cut_or_redacted
from spanscore.dialects.forms.values import Facts, add_damaged, text
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_COMPLETION,
    GEN_AI_PROMPT,
    GEN_AI_SYSTEM,
    GEN_AI_TOOL_ARGS,
    GEN_AI_TOOL_CALL_ID,
    GEN_AI_TOOL_NAME,
)
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall

SCOPE = "openlit.otel.tracing"

_LINE = re.compile(r"^(system|developer|user|assistant|model|tool): ", re.MULTILINE)
_WHOLE = re.compile(r"^user: (\[\{'.*\}\])$", re.MULTILINE)
_LIST = "[{'"
_PRINTED = f"user: {_LIST}"
_MAX_CALLS = 1000
_RECORDED = frozenset({GEN_AI_PROMPT, GEN_AI_COMPLETION})


def complete(span: Span, facts: Facts) -> None:
    """Open the messages and the tool calls of a model call, in place."""
    attributes = span.attributes
    prompt, completion = _recorded(span)
    is_gemini = attributes.get(GEN_AI_SYSTEM) == "gemini"
    # Both are plain text, which is not cut where it begins as JSON does.
    plain = {
        side
        for side, x in (("input", prompt), ("output", completion))
        if x is not None and not is_cut_or_redacted(x)
    }
    facts["damaged"] = facts.get("damaged", frozenset()) - plain
    if prompt is not None:
        facts["input"] = _whole(prompt) or _by_line(prompt, is_gemini=is_gemini)
        if _PRINTED in prompt and not _WHOLE.search(prompt):
            add_damaged(facts, "input")
    if span.dropped_attributes_count:
        add_damaged(facts, "input", "output")
    calls = _calls(attributes)
    if calls or completion:
        is_none = completion == "None" and (is_gemini or calls)
        facts["output"] = (Message("assistant", None if is_none else completion, calls=calls),)


def _recorded(span: Span) -> tuple[str | None, str | None]:
    """The prompt and the completion, which versions that record none on the span have in its
    events.
    """
    holder = span.attributes
    if _RECORDED.isdisjoint(holder):
        holder = {key: value for x in span.events for key, value in x.attributes.items()}
    return text(holder.get(GEN_AI_PROMPT)), text(holder.get(GEN_AI_COMPLETION))


def _whole(prompt: str) -> tuple[Message, ...] | None:
    r"""All messages of the request, which it prints in the place of one that has no text; None
    where all have.

    >>> [x.text for x in _whole("user: Go on.\nuser: [{'role': 'user', 'content': 'Go on.'}]")]
    ['Go on.']
    """
    found = _WHOLE.findall(prompt)
    value: Any = literal(found[-1]) if found else None
    return messages(value).messages if isinstance(value, list) else None


def _by_line(prompt: str, *, is_gemini: bool = False) -> tuple[Message, ...]:
    r"""The messages, each from a line that begins with a role to the next such line; a user's
    without text, none.

    >>> [(x.role, x.text) for x in _by_line("system: Be\nbrief.\nuser: Why?\nuser: ")]
    [('system', 'Be\nbrief.'), ('user', 'Why?')]
    """
    starts = list(_LINE.finditer(prompt))
    if not starts:  # a plain prompt
        return (Message("user", prompt),)
    ends = [x.start() - 1 for x in starts[1:]] + [len(prompt)]
    lines = [(x[1], prompt[x.end() : end]) for x, end in zip(starts, ends, strict=True)]
    if is_gemini:
        lines = [(role, _text_part(content)) for role, content in lines]
    # or it was a tool's result
    remaining = (x for x in lines if x[0] != "user" or (x[1] and not x[1].startswith(_LIST)))
    return tuple(_message(role, content) for role, content in remaining)


def _text_part(content: str) -> str:
    """The text among the parts of a message of Gemini's, each with its name; "" where it has
    none.
    """
    return (
        content.removeprefix("text: ").split(", function_call: ")[0]
        if content.startswith("text: ")
        else ""
    )


def _message(role: str, content: str) -> Message:
    if role == "tool":
        return Message(role, results=(ToolResult(None, opened(content)),))
    return Message({"developer": "system", "model": "assistant"}.get(role, role), content)


def _calls(attributes: Attributes) -> tuple[RequestedCall, ...]:
    """The calls that a model requested, from lists of names, of ids and of arguments; none if their
    lengths differ.

    >>> _calls(
    ...     {
    ...         "gen_ai.tool.name": "f, g",
    ...         "gen_ai.tool.call.id": "1, 2",
    ...         "gen_ai.tool.args": '{"a": 1}, {}',
    ...     }
    ... )[1]
    RequestedCall(call_id='2', name='g', arguments={})
    """
    names, ids = (
        str(attributes.get(x) or "").split(", ") for x in (GEN_AI_TOOL_NAME, GEN_AI_TOOL_CALL_ID)
    )
    given = _values(str(attributes.get(GEN_AI_TOOL_ARGS) or ""))
    if names == [""] or len(names) != len(given) or len(given) > _MAX_CALLS:
        return ()
    known = ids if len(ids) == len(names) else [""] * len(names)
    return tuple(map(RequestedCall, map(call_id, known), names, given))


def _values(text: str) -> list[Json]:
    """The JSON values in a text that lists them with commas between, as far as they can be read."""
    decoder, at, values = json.JSONDecoder(), 0, list[Json]()
    while at < len(text) and len(values) <= _MAX_CALLS:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        values.append(value)
        at = end + 2
    return values
