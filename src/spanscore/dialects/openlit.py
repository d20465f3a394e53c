"""OpenLIT's instrumentations of LangChain and LangGraph: the conventions, with what Python printed of messages."""

import re

from spanscore.dialects import _langchain, semconv
from spanscore.dialects._base import Context, Dialect, Facts, text
from spanscore.dialects._json import literal, structure
from spanscore.model.span import Attributes, Span

_LANGCHAIN, _LANGGRAPH = "openlit.instrumentation.langchain", "openlit.instrumentation.langgraph"
_STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
# Atomic: a list ends at the first bracket before another field, so that not each of its brackets is tried as its end.
_FIELDS = "type|name|id|additional_kwargs|response_metadata|tool_call_id"
_PRINTED = re.compile(
    rf"content=(?>({_STRING}|\[.*?\])(?= (?:{_FIELDS})=))(?: .*)? tool_call_id=({_STRING})(.*)", re.DOTALL
)
_FAILED = " status='error'"
_MAX_CHARS = 64 * 1024


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans. The agent is the graph; what it calls agents inside are the graph's nodes."""
    facts, attributes = semconv.read(span, context), span.attributes
    if span.scope.name == _LANGGRAPH and facts["kind"] in {"agent", "workflow"}:
        graph = text(attributes.get("gen_ai.workflow.name"))
        facts["kind"], facts["agent_name"] = "agent" if graph else "workflow", graph
        if not graph:
            facts["input"] = facts["output"] = None
    if facts["kind"] == "agent" and facts.get("input") is None:
        facts["input"] = _langchain.state_messages(structure(attributes.get("gen_ai.workflow.input")).value)
        facts["output"] = None  # of a graph, all that was ever said
    elif facts["kind"] == "tool":
        _read_tool(attributes, facts)
    return facts


def _read_tool(attributes: Attributes, facts: Facts) -> None:
    given = facts.get("arguments")
    if isinstance(given, str):
        facts["arguments"] = literal(given)
    returned = attributes.get("gen_ai.tool.call.result")
    printed = _PRINTED.fullmatch(returned) if isinstance(returned, str) and len(returned) <= _MAX_CHARS else None
    if printed is not None:
        content, answers, rest = printed.groups()
        message = {"type": "tool", "content": literal(content), "tool_call_id": literal(answers)}
        answer = _langchain.tool_output({**message, "status": "error" if _FAILED in rest else "success"})
        if answer is not None:
            facts["result"], facts["error"] = answer.value, facts.get("error") or answer.error


DIALECT = Dialect("openlit", read, scopes=(_LANGCHAIN, _LANGGRAPH), marks=(b"openlit.",))
