"""Mend what OpenInference records of OpenAI's Agents SDK for JavaScript: texts left out, tools that are none."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.structure import structure
from spanscore.model.span import Span, Value
from spanscore.model.step import Message

SCOPE = "@arizeai/openinference-instrumentation-openai-agents"


def is_pseudo_tool(span: Span) -> bool:
    """A hand-off, which the model asks for by a tool's name; the list of tools that an MCP server was asked for."""
    return span.scope.name == SCOPE and (span.name.startswith("handoff to ") or span.name == "mcp_tools")


def with_texts(flat: Sequence[Message], request: Value) -> Sequence[Message]:
    """The flattened messages of a request, with the agent's earlier texts, which only the request itself holds.

    Both list the same items; the flattened ones may have a system message before them.
    """
    if all(not _is_bare(x) for x in flat):
        return flat
    items = structure(request).value
    before = len(flat) - len(items) if isinstance(items, list) else -1
    if before not in {0, 1}:
        return flat
    return [*flat[:before], *(_filled(x, item) for x, item in zip(flat[before:], items, strict=True))]


def _is_bare(said: Message) -> bool:
    return said.role == "assistant" and said.text is None and not said.calls


def _filled(said: Message, item: Any) -> Message:
    told = message(item, "assistant") if _is_bare(said) else None
    return said if told is None else replace(said, text=told.text, reasoning=told.reasoning)
