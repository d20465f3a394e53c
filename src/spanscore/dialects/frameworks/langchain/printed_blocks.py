"""Open content blocks of LangChain's messages that OpenLLMetry records as text, since it does not
know their type.
"""

import re
from dataclasses import replace
from typing import Any

from spanscore.dialects.forms.structure import structure
from spanscore.dialects.keys.gen_ai import GEN_AI_INPUT_MESSAGES, GEN_AI_OUTPUT_MESSAGES
from spanscore.model.json import dumps
from spanscore.model.span import Span

_KEYS = (GEN_AI_INPUT_MESSAGES, GEN_AI_OUTPUT_MESSAGES)
_CALLS, _THOUGHTS = (
    frozenset({"function_call", "tool_use"}),
    frozenset({"reasoning", "thinking", "redacted_thinking"}),
)
_PRINTED = re.compile(rf'\\"type\\": \\"(?:{"|".join(sorted(_CALLS | _THOUGHTS))})\\"')
"""How such a block looks, as JSON in a text in JSON."""


def opened_blocks(span: Span) -> Span:
    """The span without the calls that its messages repeat as text, and with thoughts as
    thoughts.
    """
    changed: dict[str, Any] = {}
    for key in _KEYS:
        recorded = span.attributes.get(key)
        if isinstance(recorded, str) and _PRINTED.search(recorded):
            messages = structure(recorded).value
            if isinstance(messages, list):
                changed[key] = dumps([_opened(x) for x in messages])
    return replace(span, attributes={**span.attributes, **changed}) if changed else span


def _opened(message: Any) -> Any:
    parts = message.get("parts") if isinstance(message, dict) else None
    if not isinstance(parts, list) or message.get("role") != "assistant":
        return message
    called = [x.get("id") for x in parts if isinstance(x, dict) and x.get("type") == "tool_call"]
    found = list[Any]()
    for part in parts:
        block = _block(part)
        if block is None:
            found.append(part)
        elif block.get("type") in _THOUGHTS:
            found.append(block)
        elif block.get("call_id", block.get("id")) not in called:
            found.append(part)
    return {**message, "parts": found}


def _block(part: Any) -> dict[str, Any] | None:
    """The block that a part prints; None for any other part."""
    content = part.get("content") if isinstance(part, dict) and part.get("type") == "text" else None
    block = (
        structure(content).value if isinstance(content, str) and content.startswith("{") else None
    )
    kind = block.get("type") if isinstance(block, dict) else None
    return (
        block
        if isinstance(block, dict) and isinstance(kind, str) and kind in _CALLS | _THOUGHTS
        else None
    )
