"""LangWatch's SDK: a type for each span, and an input and an output that each say what kind of value they are."""

from typing import Any

from spanscore.dialects._arguments import tools
from spanscore.dialects._base import Context, Dialect, Facts, count, first_text, text
from spanscore.dialects._content import ContentSwitch
from spanscore.dialects._functions import damaged, read_call, read_function
from spanscore.dialects._identities import first_identity
from spanscore.dialects._json import Parsed, structure
from spanscore.dialects._reprs import evaluated
from spanscore.dialects._requests import conversation
from spanscore.model.json import printed
from spanscore.model.span import Attributes, Span, Value

_TYPE, _INPUT, _OUTPUT = "langwatch.span.type", "langwatch.input", "langwatch.output"
_KINDS = {
    "llm": "model",
    "agent": "agent",
    "tool": "tool",
    "rag": "retrieval",
    **dict.fromkeys(("span", "chain", "workflow", "task", "module"), "workflow"),
}
_SESSIONS = ("langwatch.thread.id", "langwatch.thread_id", "thread_id", "gen_ai.conversation.id")
_USERS = ("langwatch.user.id", "langwatch.user_id", "user_id")
_TOKENS = (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
_KEYS = {"type", "value"}


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; guardrails and evaluations are none of a turn's steps."""
    attributes = span.attributes
    kind = _KINDS.get(str(attributes.get(_TYPE)), "other")
    metadata = structure(attributes.get("metadata")).value
    named = metadata if isinstance(metadata, dict) else {}
    facts: Facts = {
        "kind": kind,
        "session_id": first_identity(attributes, _SESSIONS) or first_identity(named, _SESSIONS),
        "user_id": first_identity(attributes, _USERS) or first_identity(named, _USERS),
    }
    given, returned = _value(attributes.get(_INPUT)), _value(attributes.get(_OUTPUT))
    if kind == "model":
        _read_model(attributes, given, returned, facts)
    elif kind == "tool":
        _read_tool(span, given, returned, facts)
    elif kind == "retrieval":
        facts["query"] = None if given is None else printed(given)
        found = structure(attributes.get("langwatch.contexts")).value
        documents = found.get("value", found) if isinstance(found, dict) else found
        facts["documents"] = tuple(documents) if isinstance(documents, list) else ()
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        facts["agent_name"] = text(span.name) if kind == "agent" else None
        read_function(given, Parsed(returned), facts)
        facts["damaged"] = damaged(input=given, output=returned)
    return facts


def _value(recorded: Value) -> Any:
    """The value out of its envelope `{"type": …, "value": …}`; there are two around messages of an unusual content."""
    parsed = structure(recorded).value
    value = parsed["value"] if isinstance(parsed, dict) and parsed.keys() == _KEYS else parsed
    is_enclosed = isinstance(value, dict) and value.keys() == _KEYS and value["type"] == "chat_messages"
    return value["value"] if is_enclosed else value


def _read_model(attributes: Attributes, given: Any, returned: Any, facts: Facts) -> None:
    facts["input"], facts["output"] = conversation(_named(given), "user"), conversation(returned, "assistant")
    facts["damaged"] = damaged(input=given, output=returned)
    parameters = structure(attributes.get("langwatch.params")).value
    offered = parameters.get("tools", parameters.get("functions")) if isinstance(parameters, dict) else None
    facts["tools"] = None if offered is None else tools(offered)
    facts["model"] = first_text(attributes, ("gen_ai.response.model", "gen_ai.request.model"))
    metrics = structure(_value(attributes.get("langwatch.metrics"))).value
    counted = metrics if isinstance(metrics, dict) else {}
    for fact, name in _TOKENS:
        told = (attributes.get(f"gen_ai.usage.{fact}"), attributes.get(f"gen_ai.usage.{name}"), counted.get(name))
        facts[fact] = next((x for x in map(count, told) if x is not None), None)


def _named(given: Any) -> Any:
    """Messages, in which those of tools have a role: LangWatch's handler for LangChain does not know it."""
    listed = given if isinstance(given, list) else ()
    if not any(isinstance(x, dict) and x.get("role") == "unknown" for x in listed):
        return given
    return [{**x, "role": "tool"} if isinstance(x, dict) and x.get("role") == "unknown" else x for x in listed]


def _content(returned: Any) -> Any:
    """What a tool returned, out of LangChain's message, of which its callback handler does not know the role."""
    message = returned[0] if isinstance(returned, list) and len(returned) == 1 else None
    return message.get("content") if isinstance(message, dict) and message.get("role") == "unknown" else returned


def _read_tool(span: Span, given: Any, returned: Any, facts: Facts) -> None:
    facts["tool_name"] = text(span.name)
    read_call(span, given, _content(returned), facts)
    facts["arguments"] = evaluated(facts.get("arguments"))
    if _OUTPUT in span.attributes and returned is None:
        facts["result"], facts["has_result"] = None, True


DIALECT = Dialect(
    "langwatch",
    read,
    keys=(_TYPE,),
    marks=(b"langwatch.span.type",),
    content=(ContentSwitch("set dataCapture to `all`"),),
)
