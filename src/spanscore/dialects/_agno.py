"""Read what is Agno's own in OpenInference's spans: agents named by their node, and which results are errors."""

from dataclasses import replace
from typing import Any

from spanscore.dialects._base import Facts, text
from spanscore.dialects._identities import identity
from spanscore.dialects._json import structure
from spanscore.model.span import Span
from spanscore.model.step import Message, ToolResult

SCOPE = "openinference.instrumentation.agno"

_PAUSED = "I have tools to execute, but "
"""What a run says in the model's stead that waits for a person; its answer is that of the run that goes on."""


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place. The name of an agent's span has its method after the agent's."""
    if facts["kind"] == "agent":
        facts["agent_name"] = text(span.attributes.get("graph.node.name")) or facts["agent_name"]
        returned = span.attributes.get("output.value")
        if facts.get("output_text") and isinstance(returned, str) and returned.startswith('"'):
            facts["output_text"] = returned  # text is recorded as it is, even where it is JSON
        if (facts.get("output_text") or "").startswith(_PAUSED):
            facts["output_text"] = None
    elif facts["kind"] == "model" and facts.get("input") and any(x.results for x in facts["input"]):
        failed = _failed(structure(span.attributes.get("input.value")).value)
        facts["input"] = tuple(_told(x, failed) for x in facts["input"])


def _failed(request: Any) -> dict[object, str]:
    """What the failed calls of a request returned, by their ids; messages as attributes do not say that they failed."""
    said = request.get("messages") if isinstance(request, dict) else None
    told = [x for x in said if isinstance(x, dict)] if isinstance(said, list) else []
    failed = ((identity(x.get("tool_call_id")), x.get("content")) for x in told if x.get("tool_call_error") is True)
    return {answered: text(content) or "error" for answered, content in failed if answered is not None}


def _told(message: Message, failed: dict[object, str]) -> Message:
    """A message with its errors. A model is told nothing where a tool returned null, false or 0: the tool's span is."""
    if not message.results:
        return message
    results = (
        ToolResult(x.call_id, None if x.value == "" else x.value, x.error or failed.get(x.call_id))
        for x in message.results
    )
    return replace(message, results=tuple(results))
