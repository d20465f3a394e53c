"""MLflow's tracing SDKs: a type, inputs and outputs, each attribute encoded as JSON, even plain text."""

from typing import Any

from spanscore.dialects._arguments import tools
from spanscore.dialects._base import Context, Dialect, Facts, count, text
from spanscore.dialects._functions import damaged, read_function, read_result
from spanscore.dialects._json import is_redacted, opened, structure
from spanscore.dialects._requests import conversation
from spanscore.dialects.semconv import status_error
from spanscore.model.span import Attributes, Span, Value

_TYPE = "mlflow.spanType"
_KINDS = {
    "LLM": "model",
    "CHAT_MODEL": "model",
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "CHAIN": "workflow",
    "WORKFLOW": "workflow",
    "TASK": "workflow",
    "UNKNOWN": "workflow",  # of a function that is decorated without a type
}


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans."""
    attributes = span.attributes
    kind = _KINDS.get(str(_value(attributes, _TYPE)), "other")
    facts: Facts = {
        "kind": kind,
        "session_id": text(_value(attributes, "mlflow.trace.session")),
        "user_id": text(_value(attributes, "mlflow.trace.user")),
    }
    given, returned = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    if kind == "model":
        _read_model(attributes, given, returned, facts)
    elif kind == "tool":
        facts["tool_name"] = text(_value(attributes, "mlflow.spanFunctionName")) or text(span.name)
        facts["error"] = status_error(span)
        facts["damaged"] = damaged(arguments=given, result=returned)
        if given is not None and not is_redacted(given):
            facts["arguments"] = opened(given)
        read_result(returned, facts)
    elif kind == "retrieval":
        query, found = opened(given), structure(returned).value
        values = list(query.values()) if isinstance(query, dict) else [query]
        facts["query"] = next((x for x in values if isinstance(x, str)), None)
        facts["documents"] = tuple(found) if isinstance(found, list) else ()
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        facts["agent_name"] = text(span.name) if kind == "agent" else None
        read_function(opened(given), opened(returned), facts)
        facts["damaged"] = damaged(input=given, output=returned)
    return facts


def _value(attributes: Attributes, key: str) -> Any:
    return opened(attributes.get(key))


def _read_model(attributes: Attributes, given: Value, returned: Value, facts: Facts) -> None:
    request, response = structure(given), structure(returned)
    facts["input"] = conversation(request.value, "user")
    facts["output"] = conversation(response.value, "assistant")
    parts = (("input", request.damaged), ("output", response.damaged))
    facts["damaged"] = frozenset(fact for fact, cut in parts if cut)
    body = request.value if isinstance(request.value, dict) else {}
    offered = attributes.get("mlflow.chat.tools", body.get("tools"))
    facts["tools"] = None if offered is None else tools(offered)
    system = body.get("instructions", body.get("system"))
    facts["system"] = system if isinstance(system, str) else None
    facts["model"] = text(_value(attributes, "mlflow.llm.model")) or text(body.get("model"))
    usage = _value(attributes, "mlflow.chat.tokenUsage")
    if isinstance(usage, dict):
        facts["input_tokens"], facts["output_tokens"] = (
            count(usage.get("input_tokens")),
            count(usage.get("output_tokens")),
        )


DIALECT = Dialect("mlflow", read, keys=(_TYPE,), marks=(b"mlflow.spanType",))
