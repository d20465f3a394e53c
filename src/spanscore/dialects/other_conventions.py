"""Complete what a span's own dialect found by the attributes of other conventions on it, as people set them by hand.

Tracing backends take a question, an answer, a call or a count under any of these names, whatever else the span says.
Only what is missing is filled in, and nothing of what was recorded as cut or hidden.
"""

from typing import Any

from spanscore.dialects.dialect import Context
from spanscore.dialects.forms.decorated_calls import is_call, only_argument, read_call, read_function, recorded
from spanscore.dialects.forms.indexed import indexed
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.provider_bodies import conversation, offered
from spanscore.dialects.forms.structure import Parsed, structure
from spanscore.dialects.forms.values import Facts, first_count, first_text
from spanscore.model.json import printed
from spanscore.model.span import Attributes, Span, Value
from spanscore.model.step import Message

_SIDES = (
    ("gen_ai.input.messages", "gen_ai.output.messages"),
    ("langfuse.observation.input", "langfuse.observation.output"),
    ("langwatch.input", "langwatch.output"),
    ("llm.input_messages", "llm.output_messages"),
    ("input.value", "output.value"),
    ("input", "output"),
    ("traceloop.entity.input", "traceloop.entity.output"),
    ("gen_ai.prompt", "gen_ai.completion"),
    ("raw_input", "response"),
)
_CALLS = (
    ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    ("tool_arguments", "tool_response"),
    ("ai.toolCall.args", "ai.toolCall.result"),
    ("gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"),
    *_SIDES,
)
_FLAT = (("input", "llm.input_messages.", "user"), ("output", "llm.output_messages.", "assistant"))
_COUNTS = (
    ("input_tokens", ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")),
    ("output_tokens", ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")),
)
_MODELS = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "ai.model.id",
    "llm.response.model",
    "llm.model_name",
    "model",
)
_STATUSES = ("gen_ai.tool.status", "tool.status")
_FAILURES = frozenset({"error", "failure", "failed"})


def complete(span: Span, context: Context, facts: Facts) -> None:
    """Fill in, in place, what a span's own dialect did not find."""
    kind = facts["kind"]
    if kind == "model":
        _complete_model(span.attributes, facts)
    elif kind == "tool":
        _complete_tool(span, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        _complete_function(span.attributes, facts)


def _complete_model(attributes: Attributes, facts: Facts) -> None:
    for at, (fact, prefix, role) in enumerate(_FLAT):
        if _lacks(facts, fact):
            _complete_side(attributes, at, prefix, role, facts)
    for fact, keys in _COUNTS:
        if facts.get(fact) is None:
            facts[fact] = first_count(attributes, keys)
    facts["model"] = facts.get("model") or first_text(attributes, _MODELS)


def _complete_side(attributes: Attributes, at: int, prefix: str, role: str, facts: Facts) -> None:
    """What a model was given, or what it answered: flattened as OpenInference has it, or in one attribute."""
    fact = _FLAT[at][0]
    flat = [x.get("message") for x in indexed(attributes, prefix) if isinstance(x, dict)]
    found = tuple(x for x in (message(y, role) for y in flat) if x is not None)
    value = _opened(_first(attributes, tuple(x[at] for x in _SIDES)))
    if found or value is None:
        facts[fact] = found or facts.get(fact)
        return
    parsed = structure(value)
    facts[fact] = _said(parsed, value, role)
    if parsed.damaged and facts[fact] is None:
        facts["damaged"] = facts.get("damaged", frozenset()) | {fact}
    if facts.get("tools") is None:
        facts["tools"] = offered(parsed.value)


def _said(parsed: Parsed, value: Value, role: str) -> tuple[Message, ...] | None:
    """Messages in any outline; a text or a value that holds none is what was said."""
    told = conversation(parsed.value, role)
    if told or parsed.damaged or parsed.value is None:
        return told or None
    return (Message(role, value if isinstance(value, str) else printed(parsed.value)),)


def _complete_function(attributes: Attributes, facts: Facts) -> None:
    """What an agent or the code around it was given and returned."""
    missing = {
        "input": not (facts.get("input") or facts.get("input_text")) and _lacks(facts, "input"),
        "output": not any(facts.get(x) for x in ("output", "output_text", "output_json")) and _lacks(facts, "output"),
    }
    sides = {fact: tuple(x[at] for x in _SIDES) for at, fact in enumerate(missing)}
    given, returned = (_first(attributes, sides[x]) if missing[x] else None for x in missing)
    if given is None and returned is None:
        return
    called = recorded(_opened(given)).value
    found: Facts = {}
    read_function(only_argument(called) if is_call(called) else called, recorded(_opened(returned)), found)
    facts.update({key: value for key, value in found.items() if value is not None and missing[key.split("_")[0]]})


def _complete_tool(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    held = (attributes, *(x.attributes for x in span.events)) if span.events else (attributes,)
    given = returned = None
    if facts.get("arguments") is None and not facts.get("positional") and _lacks(facts, "arguments"):
        given = next((x for x in (_first(y, tuple(z[0] for z in _CALLS)) for y in held) if x is not None), None)
    if not facts.get("has_result") and _lacks(facts, "result"):
        returned = next((x for x in (_first(y, tuple(z[1] for z in _CALLS)) for y in held) if x is not None), None)
    if given is not None or returned is not None:
        found: Facts = {}
        read_call(span, _opened(given), _opened(returned), found)
        facts["damaged"] = facts.get("damaged", frozenset()) | found.pop("damaged")
        facts.update({key: value for key, value in found.items() if value is not None and not facts.get(key)})
    status = first_text(attributes, _STATUSES)
    if status is not None and status.lower() in _FAILURES and not facts.get("error"):
        facts["error"] = printed(facts["result"]) if facts.get("result") is not None else status


def _lacks(facts: Facts, fact: str) -> bool:
    """Whether nothing says what a fact is, nor that it was lost."""
    return facts.get(fact) is None and fact not in facts.get("damaged", ())


def _first(attributes: Attributes, keys: tuple[str, ...]) -> Value:
    return next((attributes[x] for x in keys if attributes.get(x) not in (None, "")), None)


def _opened(value: Value) -> Any:
    """The value out of LangWatch's `{"type": …, "value": …}`; any other as it is."""
    if not isinstance(value, str) or not value.startswith('{"type"'):
        return value
    parsed = structure(value).value
    return parsed["value"] if isinstance(parsed, dict) and parsed.keys() == {"type", "value"} else value
