"""Open what OpenLLMetry's instrumentations of Google's SDKs make text of by str(): calls and
results beside texts.

They leave calls out of answers. The oldest record only what was sent last, and a chat's call twice.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Error
from google.protobuf.struct_pb2 import Struct
from google.protobuf.text_format import Parse, ParseError

from spanscore.dialects.forms import gemini_calls
from spanscore.dialects.forms.messages import blocks
from spanscore.dialects.forms.reprs import STRING, opened_repr
from spanscore.dialects.forms.values import Facts, text
from spanscore.dialects.keys.gen_ai import GEN_AI_SYSTEM
from spanscore.dialects.quirk import Items, Quirk
from spanscore.model.json import Json
from spanscore.model.span import STATUS_ERROR, Span
from spanscore.model.step import Step

_SCOPES = (
    "opentelemetry.instrumentation.google_generativeai",
    "opentelemetry.instrumentation.vertexai",
)

# a chat's, and the call that it makes for it
_SENT, _GENERATED = "gemini.send_message", "gemini.generate_content"
_OLDEST = "Gemini"  # what they called the system
_UNKNOWN = "unknown"  # the model of a chat
_MAX_CHARS = 256 * 1024
_FIELDS = r"(?:[a-z_]+=None ?)*+"
_PART = re.compile(
    rf"{_FIELDS}(function_call|function_response)=(Function(?:Call|Response)\(\n.*\n\)) ?{_FIELDS}",
    re.DOTALL,
)
_ELISIONS = re.compile(
    rf"(?:{STRING})|(<(?:dict len=\d+|\.\.\. [^<>'\"\n]{{1,80}} \.\.\.)>)", re.DOTALL
)
"""What the SDK prints of objects that are large or deep: their values are lost."""

_ELIDED = "<elided>"
_BEGIN = "function_response {\n"
_PROTO_PART = re.compile(
    r'function_response \{\n  name: "([\w.:-]{1,256})"\n(?:  response \{\n((?: {4}.*\n)*+)  \}\n)?+'
    r'(?:  id: "([\w.:-]{1,256})"\n)?+\}\n?\n?'
)


def opened_items(span: Span, items: Items) -> Items:
    """Flattened messages, each with its parts as they were before they were printed."""
    return [_opened_item(span, x) for x in items]


def _opened_item(span: Span, item: dict[str, Any]) -> dict[str, Any]:
    """The fields of a message, whose content or blocks may be parts that were printed.

    The oldest instrumentations put a line break behind all that was sent, and first had no role.
    """
    is_first = "user" in item and "content" not in item
    content = item["user"] if is_first else item.get("content")
    parts = [opened for x in blocks(content) or () for opened in _opened_block(x)] or _proto_parts(
        content
    )
    if isinstance(content, str) and (is_first or span.attributes.get(GEN_AI_SYSTEM) == _OLDEST):
        content = content.removesuffix("\n")
    role = {"role": "user"} if is_first else {}
    return {**item, **role, "content": parts or content}


def _opened_block(block: Any) -> list[Any]:
    content = block.get("text") if isinstance(block, dict) else None
    return _proto_parts(content) or [unprinted_part(block)]


def unprinted_part(block: Any) -> Any:
    r"""A text block, or the call or the result that it contains as str() prints a part of the Gen
    AI SDK.

    >>> unprinted_part(
    ...     {"type": "text", "text": "function_call=FunctionCall(\n  name='f'\n) text=None"}
    ... )
    {'function_call': {'name': 'f'}}
    """
    content = block.get("text") if isinstance(block, dict) else None
    found = _PART.fullmatch(content) if isinstance(content, str) else None
    value = opened_repr(found[2]) if found else None
    if found is None or not isinstance(value, dict):
        return block
    if any(x[1] for x in _ELISIONS.finditer(found[2])):
        value |= dict.fromkeys(("args", "response") & value.keys(), _ELIDED)
    return {found[1]: value}


def _proto_parts(content: object) -> list[Any]:
    """The results that a text consists of, as str() prints protobuf messages; empty for any other
    text.
    """
    if not isinstance(content, str) or not content.startswith(_BEGIN) or len(content) > _MAX_CHARS:
        return []
    parts: list[Any] = []
    at = 0
    while at < len(content):
        found = _PROTO_PART.match(content, at)
        value = None if found is None else _struct(found[2] or "")
        if found is None or value is None:
            return []
        identity = {} if found[3] is None else {"id": found[3]}
        parts.append({"function_response": {"name": found[1], "response": value, **identity}})
        at = found.end()
    return parts


def _struct(printed: str) -> dict[str, Json] | None:
    """The JSON object that str() of a protobuf Struct prints; None for what is none."""
    struct = Struct()
    try:
        Parse(printed, struct)
        value = MessageToDict(struct)
    except (ParseError, Error, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def complete(span: Span, facts: Facts) -> None:
    """Open a model call's envelopes, in place.

    Where it answered nothing but calls, these are left out.
    """
    if facts["kind"] != "model":
        return
    gemini_calls.without_envelopes(facts, objects=True)
    if facts.get("model") == _UNKNOWN:
        facts["model"] = None
    is_whole = not span.dropped_attributes_count and span.status_code != STATUS_ERROR
    if (
        is_whole
        and facts.get("output") is None
        and facts.get("input")
        and facts.get("output_tokens")
    ):
        facts["output"] = ()


def refine_trace(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps, of a chat's calls those that show what was sent; the call that each makes is
    bookkeeping.
    """
    sent = [x for x in steps if x.span.name == _SENT]
    if not sent:
        return steps
    changed = dict[str, Step]()
    inner = iter(
        sorted((x for x in steps if x.span.name == _GENERATED), key=lambda x: x.span.start_ns)
    )
    call = next(inner, None)
    for step in sorted(sent, key=lambda x: x.span.start_ns):
        while call is not None and call.span.start_ns < step.span.start_ns:
            call = next(inner, None)
        if call is not None and _is_inside(call, step):
            changed[call.span.span_id] = replace(call, kind="other")
            changed[step.span.span_id] = replace(step, model=step.model or text(call.model))
    return [changed.get(x.span.span_id, x) for x in steps]


def _is_inside(call: Step, chat: Step) -> bool:
    same = (
        call.span.parent_span_id == chat.span.parent_span_id
        and call.output_tokens == chat.output_tokens
    )
    return (
        same and chat.span.start_ns <= call.span.start_ns and call.span.end_ns <= chat.span.end_ns
    )


QUIRKS = (
    Quirk(
        name="google_genai",
        under="openllmetry",
        scopes=_SCOPES,
        items=opened_items,
        complete=complete,
        refine_trace=refine_trace,
    ),
)
