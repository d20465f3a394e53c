"""Read what is Agno's own in OpenInference's spans: agents named by their node, and which results are errors."""

from dataclasses import replace
from typing import Any

from spanscore.dialects._base import Facts, text
from spanscore.dialects._json import structure
from spanscore.model.span import Span
from spanscore.model.step import Message, ToolResult

SCOPE = "openinference.instrumentation.agno"


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place. The name of an agent's span has its method after the agent's."""
    if facts["kind"] == "agent":
        facts["agent_name"] = text(span.attributes.get("graph.node.name")) or facts["agent_name"]
    elif facts["kind"] == "model" and facts.get("input") and any(x.results for x in facts["input"]):
        failed = _failed(structure(span.attributes.get("input.value")).value)
        facts["input"] = tuple(_told(x, failed) for x in facts["input"])


def _failed(request: Any) -> dict[object, str]:
    """What the failed calls of a request returned, by their ids; messages as attributes do not say that they failed."""
    said = request.get("messages") if isinstance(request, dict) else None
    told = [x for x in said if isinstance(x, dict)] if isinstance(said, list) else []
    failed = [x for x in told if x.get("tool_call_error") is True and isinstance(x.get("tool_call_id"), str)]
    return {x["tool_call_id"]: text(x.get("content")) or "error" for x in failed}


def _told(message: Message, failed: dict[object, str]) -> Message:
    """A message with its errors. A model is told nothing where a tool returned null, false or 0: the tool's span is."""
    if not message.results:
        return message
    results = (
        ToolResult(x.call_id, None if x.value == "" else x.value, x.error or failed.get(x.call_id))
        for x in message.results
    )
    return replace(message, results=tuple(results))
