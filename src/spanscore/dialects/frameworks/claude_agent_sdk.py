"""The Claude Agent SDK's queries and results."""

from spanscore.dialects import keys
from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms.arguments import result
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.structure import Facts, as_object, read_tokens, structure, text
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span

_OPENINFERENCE = (
    "openinference.instrumentation.claude_agent_sdk",
    "@arizeai/openinference-instrumentation-claude-agent-sdk",
)
_INTEGRATION = ("langsmith.metadata.ls_integration", "claude-agent-sdk")
_QUERY = "claude.conversation"


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of one of OpenInference's spans, in place.

    An agent's has the name of a method, no agent's.
    """
    if facts["kind"] == "agent":
        facts["agent_name"] = None
        read_tokens(span.attributes, facts)
    elif facts["kind"] == "tool" and facts.get("has_result"):
        facts["result"] = result(_answer_of_subagent(facts["result"]))


def _answer_of_subagent(returned: Json) -> Json:
    """The content blocks out of what the tool that starts a sub-agent returns; any other tool's
    result as it is.
    """
    content = as_object(returned).get("content")
    if (
        not isinstance(returned, dict)
        or not isinstance(content, list)
        or not isinstance(returned.get("status"), str)
    ):
        return returned
    if all(isinstance(x, dict) and isinstance(x.get("type"), str) for x in content):
        return content
    return returned


def reported_to_langsmith(span: Span) -> bool:
    """Whether a run of LangSmith's is of this SDK."""
    return span.attributes.get(_INTEGRATION[0]) == _INTEGRATION[1]


def complete_langsmith(span: Span, facts: Facts) -> None:
    """Add to the facts of one of LangSmith's runs, in place."""
    if span.name == _QUERY:
        _complete_query(span.attributes, facts)
    elif facts["kind"] == "tool":
        _complete_tool(facts)


def _complete_query(attributes: Attributes, facts: Facts) -> None:
    request = structure(attributes.get(keys.GEN_AI_PROMPT)).value
    facts |= {
        "kind": "agent",
        "output": messages(attributes.get(keys.GEN_AI_COMPLETION), "assistant").messages,
    }
    if isinstance(request, dict):
        facts |= {"input_text": text(request.get("prompt")), "system": text(request.get("system"))}


def _complete_tool(facts: Facts) -> None:
    """Take LangSmith's object from around the arguments, and MCP's from around the result."""
    called_with, returned = facts.get("arguments"), facts.get("result")
    if isinstance(called_with, dict) and called_with.keys() == {"input"}:
        facts["arguments"] = called_with["input"]
    if (
        isinstance(returned, dict)
        and "content" in returned
        and returned.keys() <= {"content", "is_error"}
    ):
        facts["result"] = result(returned["content"])


QUIRKS = (
    Quirk(
        name="claude_agent_sdk",
        under="openinference",
        scopes=_OPENINFERENCE,
        complete=complete_openinference,
        returns_state=True,
    ),
    Quirk(
        name="claude_agent_sdk",
        under="langsmith",
        matches=reported_to_langsmith,
        complete=complete_langsmith,
    ),
)
