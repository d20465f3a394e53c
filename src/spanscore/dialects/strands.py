"""Strands Agents: the semantic conventions, and the names of the agent's tools beside them."""

from spanscore.dialects import semconv
from spanscore.dialects._arguments import tools
from spanscore.dialects._base import Context, Dialect, Facts, text
from spanscore.dialects._json import opened
from spanscore.model.span import Span
from spanscore.model.trace import Tool


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans."""
    attributes = span.attributes
    facts = semconv.read(span, context)
    if facts["kind"] == "agent" and facts.get("tools") is None and "gen_ai.agent.tools" in attributes:
        facts["tools"] = tools(attributes["gen_ai.agent.tools"])
    elif facts["kind"] == "tool" and facts["tool_name"] is not None:
        schema = opened(attributes.get("gen_ai.tool.json_schema"))
        facts["tools"] = (Tool(facts["tool_name"], text(attributes.get("gen_ai.tool.description")), schema),)
    return facts


DIALECT = Dialect("strands", read, scopes=("strands.telemetry.tracer",), marks=(b"strands.telemetry", b"gen_ai."))
