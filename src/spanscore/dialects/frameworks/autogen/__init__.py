"""AutoGen's own telemetry: agents and tools without content, and the messages that its runtime
delivers to a team.
"""

from typing import Any

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.forms.values import Facts, text
from spanscore.dialects.frameworks.autogen import messages as autogen_messages
from spanscore.dialects.keys.gen_ai import GEN_AI_TOOL_DESCRIPTION
from spanscore.model.span import Span
from spanscore.model.trace import Tool

_PARTICIPANT = "ChatAgentContainer"  # every participant of a team is sent what its manager is sent
# its own messages are sent to participants only, to each a copy
_SPEAKING_MANAGER = "MagenticOneOrchestrator"


def read(span: Span, context: Context) -> Facts:
    """The facts of a span.

    The message of a delivery to a team's manager is the question or an agent's answer.
    """
    attributes = span.attributes
    if "message" in attributes:
        delivered = structure(attributes["message"])
        if delivered.damaged:  # any fact of the turn may have been in it
            return {"kind": "other", "damaged": frozenset({"input", "output"})}
        content = delivered.value if isinstance(delivered.value, dict) else {}
        return _delivery(content, attributes.get("recipient_agent_class"))
    if "messaging.operation" in attributes:
        return {"kind": "other"}
    facts = semconv.read(span, context)
    described = text(attributes.get(GEN_AI_TOOL_DESCRIPTION))
    if facts["kind"] == "tool" and described is not None and (name := facts.get("tool_name")):
        facts["tools"] = (Tool(name, described),)
    return facts


def _delivery(delivered: dict[str, Any], recipient: object) -> Facts:
    if isinstance(delivered.get("messages"), list):
        return {
            "kind": "workflow",
            "input": autogen_messages.chat_messages(delivered["messages"]) or None,
        }
    response, result = delivered.get("response"), delivered.get("result")
    is_copy = recipient == _PARTICIPANT and delivered.get("name") != _SPEAKING_MANAGER
    if is_copy or not (isinstance(response, dict) or isinstance(result, dict)):
        return {"kind": "other"}
    if not isinstance(
        response, dict
    ):  # of a team inside the team: its own manager received all messages before the answer
        listed = result.get("messages") if isinstance(result, dict) else None
        return _answer_facts(delivered, listed[-1:] if isinstance(listed, list) else [])
    inner = response.get("inner_messages")
    items = [*(inner if isinstance(inner, list) else ()), response.get("chat_message")]
    facts = _answer_facts(delivered, items)
    facts["input_tokens"] = autogen_messages.tokens(items, "prompt_tokens")
    facts["output_tokens"] = autogen_messages.tokens(items, "completion_tokens")
    return facts


def _answer_facts(delivered: dict[str, Any], items: list[Any]) -> Facts:
    sources = (x.get("source") for x in reversed(items) if isinstance(x, dict))
    name = text(delivered.get("name")) or next((x for x in map(text, sources) if x), None)
    return {
        "kind": "agent",
        "agent_name": name,
        "output": autogen_messages.chat_messages(items) or None,
    }


QUIRKS = autogen_messages.QUIRKS

DIALECT = Dialect(
    "autogen",
    read,
    scopes=("autogen-core", "autogen SingleThreadedAgentRuntime", "autogen GrpcWorkerAgentRuntime"),
    prefilters=(b"autogen",),
)
