"""LangWatch's SDK: a type for each span, and an input and an output, each with the type of its
value.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeGuard

from spanscore.dialects import keys
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, IgnoredSpans
from spanscore.dialects.forms.arguments import tools
from spanscore.dialects.forms.decorated_calls import damaged, read_call, read_function
from spanscore.dialects.forms.provider_bodies import conversation, system_of
from spanscore.dialects.forms.provider_bodies import offered as listed_tools
from spanscore.dialects.forms.structure import (
    Facts,
    Parsed,
    as_list,
    as_object,
    evaluated,
    first_identity,
    first_text,
    read_tokens,
    read_usage,
    structure,
    text,
)
from spanscore.model.json import printed
from spanscore.model.span import Attributes, LogRecord, Span, Value
from spanscore.model.step import StepKind

_TYPE, _INPUT, _OUTPUT = "langwatch.span.type", "langwatch.input", "langwatch.output"
_KINDS: Final[dict[str, StepKind]] = {
    "llm": "model",
    "agent": "agent",
    "tool": "tool",
    "rag": "retrieval",
    **dict.fromkeys(
        (
            *("span", "chain", "workflow", "task", "module", "component"),
            *("server", "client", "producer", "consumer"),
        ),
        "workflow",
    ),
}
_CONTEXTS = ("langwatch.contexts", "langwatch.rag_contexts", "langwatch.rag.contexts")
"""Of the JavaScript SDK, of the Python one, and as its server names them."""
_ERRORS = ("span.error.message", "exception.message", "exception.type")
"""Where attributes alone record why a tool failed."""
_SESSIONS = (
    "langwatch.thread.id",
    "langwatch.thread_id",
    "thread_id",
    "threadId",
    keys.GEN_AI_CONVERSATION_ID,
)
_USERS = ("langwatch.user.id", "langwatch.user_id", "user_id", "userId")
_KEYS = {"type", "value"}


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether somebody wrote the span for LangWatch, without saying what it is, and by no other
    convention.
    """
    attributes = span.attributes
    if attributes.keys().isdisjoint((_INPUT, _OUTPUT)) or span.dropped_attributes_count:
        return False
    return not any(x.startswith(("gen_ai.", "llm.", "traceloop.")) for x in attributes)


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; guardrails and evaluations are none of a turn's steps."""
    attributes = span.attributes
    kind = (
        _KINDS.get(str(attributes.get(_TYPE)), "other")
        if _TYPE in attributes
        else _kind_of_messages(attributes)
    )
    metadata = structure(attributes.get("metadata", attributes.get("langwatch.metadata"))).value
    named = as_object(metadata)
    facts: Facts = {
        "kind": kind,
        "session_id": first_identity(attributes, _SESSIONS) or first_identity(named, _SESSIONS),
        "user_id": first_identity(attributes, _USERS) or first_identity(named, _USERS),
    }
    is_text = kind not in {"tool", "retrieval"}
    given, returned = (_value(attributes.get(x), is_text=is_text) for x in (_INPUT, _OUTPUT))
    if kind == "model":
        _read_model(attributes, given, returned, facts)
    elif kind == "tool":
        _read_tool(span, given, returned, facts)
    elif kind == "retrieval":
        _read_retrieval(attributes, given, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        facts["agent_name"] = text(span.name) if kind == "agent" else None
        read_function(given, Parsed(returned), facts)
        facts["damaged"] = damaged(input=given, output=returned)
    return facts


def _kind_of_messages(attributes: Attributes) -> StepKind:
    """What a span without a type is: a model call where messages went in or came out."""
    sides = (structure(attributes.get(x)).value for x in (_INPUT, _OUTPUT))
    is_model = any(isinstance(x, dict) and x.get("type") == "chat_messages" for x in sides)
    return "model" if is_model else "workflow"


def _value(recorded: Value, *, is_text: bool = False) -> Any:
    """The value out of its envelope `{"type": …, "value": …}`; there are two around messages of an
    unusual content, and one around each element of a list. `is_text`: a list of one stands for
    the text that it holds; what a tool returned stays the list that it is.
    """
    parsed = structure(recorded).value
    if not _is_enclosed(parsed):
        is_only_text = is_text and _is_one(parsed) and isinstance(parsed[0], str)
        return parsed[0] if is_only_text else parsed
    value = parsed["value"]
    if _is_enclosed(value) and value["type"] == "chat_messages":
        return value["value"]
    if parsed["type"] != "list":
        return value
    elements = _elements(value)
    return elements[0] if is_text and _is_one(elements) else elements


def _is_enclosed(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and value.keys() == _KEYS


def _is_one(elements: Any) -> bool:
    return isinstance(elements, list) and len(elements) == 1


def _elements(listed: Any) -> Any:
    """The elements of a list without their envelopes, where all have one."""
    if not isinstance(listed, list) or not listed or not all(map(_is_enclosed, listed)):
        return listed
    return [x["value"] for x in listed]


def _read_model(attributes: Attributes, given: Any, returned: Any, facts: Facts) -> None:
    facts["input"] = conversation(_named(given), "user")
    facts["output"] = conversation(_joined(returned), "assistant")
    facts["damaged"] = damaged(input=given, output=returned)
    parameters = structure(attributes.get("langwatch.params")).value
    offered = as_object(parameters).get("tools", as_object(parameters).get("functions"))
    facts["tools"] = listed_tools(given, returned) if offered is None else tools(offered)
    facts["system"] = system_of(as_object(given))
    facts["model"] = first_text(attributes, (keys.GEN_AI_RESPONSE_MODEL, keys.GEN_AI_REQUEST_MODEL))
    read_tokens(attributes, facts)
    read_usage(structure(_value(attributes.get("langwatch.metrics"))).value, facts)


def _joined(returned: Any) -> Any:
    """A model's output; of DSPy's, which is a list of texts, all of them."""
    is_texts = isinstance(returned, list) and all(isinstance(x, str) for x in returned)
    return "\n".join(returned) if is_texts and returned else returned


def _read_retrieval(attributes: Attributes, given: Any, facts: Facts) -> None:
    facts["query"] = None if given is None else printed(given)
    recorded = next((attributes[key] for key in _CONTEXTS if key in attributes), None)
    found = structure(recorded).value
    documents = found.get("value", found) if isinstance(found, dict) else found
    facts["documents"] = tuple(as_list(documents))


def _named(given: Any) -> Any:
    """Messages, in which those of tools have a role: LangWatch's handler for LangChain leaves it
    out.
    """
    listed = as_list(given)
    if not any(isinstance(x, dict) and x.get("role") == "unknown" for x in listed):
        return given
    return [
        {**x, "role": "tool"} if isinstance(x, dict) and x.get("role") == "unknown" else x
        for x in listed
    ]


def _content(returned: Any) -> Any:
    """What a tool returned, out of LangChain's message, whose role its callback handler leaves
    out.
    """
    message = returned[0] if isinstance(returned, list) and len(returned) == 1 else None
    if isinstance(message, dict) and message.get("role") == "unknown":
        return message.get("content")
    return returned


def _read_tool(span: Span, given: Any, returned: Any, facts: Facts) -> None:
    facts["tool_name"] = text(span.name)
    error = first_text(span.attributes, _ERRORS)
    read_call(span, given, _content(returned), facts, error=error)
    facts["arguments"] = evaluated(facts.get("arguments"))
    if _OUTPUT in span.attributes and returned is None:
        facts["result"], facts["has_result"] = None, True


DIALECT = Dialect(
    "langwatch",
    read,
    keys=(_TYPE,),
    matches=matches,
    matching_keys=(_INPUT, _OUTPUT),
    prefilters=(b"langwatch.span.type", b"langwatch.input", b"langwatch.output"),
    ignored=IgnoredSpans(keys=("langwatch.reserved.causality_depth",)),
    content=(ContentSwitch("set dataCapture to `all`"),),
    by_hand=True,
)
