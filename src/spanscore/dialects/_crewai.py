"""Read what is CrewAI's own: agents named after a method, tools by the name a model asks for, what a task is."""

import re

from spanscore.dialects._base import Facts, text
from spanscore.dialects._json import structure
from spanscore.dialects._reprs import unprinted
from spanscore.model.span import Span
from spanscore.model.step import Message

OPENINFERENCE_SCOPE = "openinference.instrumentation.crewai"
OPENLLMETRY_SCOPE = "opentelemetry.instrumentation.crewai.instrumentation"
_METHOD = re.compile(r"\._?\w+$")
_ASKED_FOR = re.compile(r"Tool Name: (.+)")


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of one of OpenInference's spans, in place."""
    attributes = span.attributes
    if facts["kind"] == "agent":
        facts["agent_name"] = text(attributes.get("graph.node.id")) or _METHOD.sub("", span.name)
        done = structure(attributes.get("output.value")).value
        task = text(done.get("description")) if isinstance(done, dict) and "raw" in done else None
        if task is not None:
            facts["input"] = (Message("user", task),)
    elif facts["kind"] == "tool":
        described = _ASKED_FOR.match(str(attributes.get("tool.description", "")))
        facts["tool_name"] = described[1].strip() if described else facts["tool_name"]
        facts["result"] = unprinted(facts.get("result"))


def complete_openllmetry(span: Span, facts: Facts) -> None:
    """Add to the facts of one of OpenLLMetry's spans, in place: the agent's prompt is built around the task."""
    if facts["kind"] == "workflow":
        facts["input_text"] = facts.get("input_text") or text(span.attributes.get("crewai.task.description"))
