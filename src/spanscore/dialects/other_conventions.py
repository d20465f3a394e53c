"""Facts from other conventions' attributes, set by hand.

Tracing backends accept a question, an answer, a call or a count under any of these names, whatever
else the span records. Only missing facts are filled in, and none that is known to be cut or
redacted.
"""

from typing import Any, NamedTuple

from spanscore.dialects.dialect import Context
from spanscore.dialects.forms.arguments import failure, tools
from spanscore.dialects.forms.decorated_calls import (
    is_call,
    only_argument,
    read_call,
    read_function,
    recorded,
)
from spanscore.dialects.forms.messages import Messages, message, messages, system_text
from spanscore.dialects.forms.provider_bodies import conversation, offered
from spanscore.dialects.forms.structure import (
    NOT_RECORDED,
    Facts,
    Parsed,
    Side,
    add_damaged,
    add_missing,
    first_text,
    indexed,
    objects,
    read_tokens,
    structure,
)
from spanscore.model.json import printed
from spanscore.model.span import Attributes, Span, Value
from spanscore.model.step import Message, StepFact

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
_INPUTS = tuple(given for given, _ in _SIDES)
_OUTPUTS = (*(produced for _, produced in _SIDES), "final_result")
_ARGUMENTS = tuple(given for given, _ in _CALLS)
_RESULTS = tuple(returned for _, returned in _CALLS)
_MODELS = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "ai.model.id",
    "llm.response.model",
    "llm.model_name",
    "model",
)
_AGENTS = ("agent.name", "gen_ai.agent")
_EVENTS = "events"
_NOTHING = (*NOT_RECORDED, "")
_STATUSES = ("gen_ai.tool.status", "tool.status")
_FAILURES = frozenset({"error", "failure", "failed"})


class _Place(NamedTuple):
    """Where one side of a model call is: in attributes that start with one of `flat`, or in one of
    those named `whole`.
    """

    side: Side
    flat: tuple[str, ...]
    whole: tuple[str, ...]
    role: str


_PLACES = (
    _Place("input", ("llm.input_messages.", "gen_ai.input.messages."), _INPUTS, "user"),
    _Place("output", ("llm.output_messages.", "gen_ai.output.messages."), _OUTPUTS, "assistant"),
)


def complete(span: Span, context: Context, facts: Facts) -> None:
    """Fill in, in place, the facts that a span's own dialect did not find."""
    kind = facts["kind"]
    if kind in {"model", "agent"}:
        _complete_setting(span.attributes, facts)
    if kind == "model":
        _complete_model(span.attributes, facts)
    elif kind == "tool":
        _complete_tool(span, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        _complete_function(span.attributes, facts)
        if kind == "agent":
            facts["agent_name"] = facts.get("agent_name") or first_text(span.attributes, _AGENTS)


def _complete_setting(attributes: Attributes, facts: Facts) -> None:
    """Fill in the instructions and the tools on offer that are in the conventions' attributes."""
    instructions = attributes.get("gen_ai.system_instructions")
    if instructions is not None and _lacks(facts, "system"):
        facts["system"], is_cut = system_text(instructions)
        if is_cut:
            add_damaged(facts, "system")
    definitions = attributes.get("gen_ai.tool.definitions")
    if definitions is not None and _lacks(facts, "tools"):
        facts["tools"] = tools(definitions)
        if facts["tools"] is None:
            add_damaged(facts, "tools")


def _complete_model(attributes: Attributes, facts: Facts) -> None:
    for place in _PLACES:
        if _lacks(facts, place.side):
            _complete_side(attributes, place, facts)
    if _EVENTS in attributes and _lacks(facts, "input") and _lacks(facts, "output"):
        given, produced = conversation_of(attributes[_EVENTS])
        facts["input"], facts["output"] = given.messages, produced.messages
        if given.damaged:
            add_damaged(facts, "input", "output")
    read_tokens(attributes, facts)
    facts["model"] = facts.get("model") or first_text(attributes, _MODELS)


def _complete_side(attributes: Attributes, place: _Place, facts: Facts) -> None:
    """Fill in a model's input or output: flattened as in OpenInference, or in one attribute."""
    side = place.side
    items = (x for prefix in place.flat for x in indexed(attributes, prefix))
    flat = [x.get("message") for x in items if isinstance(x, dict)]
    found = tuple(x for x in (message(y, place.role) for y in flat) if x is not None)
    value = _opened(_first(attributes, place.whole))
    if found or value is None:
        facts[side] = found or facts.get(side)
        return
    parsed = structure(value)
    facts[side] = _messages_of(parsed, value, place.role)
    if parsed.damaged and facts[side] is None:
        add_damaged(facts, side)
    if facts.get("tools") is None:
        facts["tools"] = offered(parsed.value)


def _messages_of(parsed: Parsed, value: Value, role: str) -> tuple[Message, ...] | None:
    """The messages of a value in any form; a text, or a value without messages, is the content of
    one message.
    """
    found = conversation(parsed.value, role)
    if found or parsed.damaged or parsed.value is None:
        return found or None
    return (Message(role, value if isinstance(value, str) else printed(parsed.value)),)


def _complete_function(attributes: Attributes, facts: Facts) -> None:
    """Fill in the input and output of an agent, or of the code around it."""
    given = returned = None
    if not (facts.get("input") or facts.get("input_text")) and _lacks(facts, "input"):
        given = _first(attributes, _INPUTS)
    is_answered = facts.get("output") or facts.get("output_text") or facts.get("output_json")
    if not is_answered and _lacks(facts, "output"):
        returned = _first(attributes, _OUTPUTS)
    if given is None and returned is None:
        return
    called = recorded(_opened(given)).value
    found: Facts = {}
    read_function(
        only_argument(called) if is_call(called) else called, recorded(_opened(returned)), found
    )
    add_missing(facts, found, missing=_NOTHING)


def _complete_tool(span: Span, facts: Facts) -> None:
    given = returned = None
    if (
        facts.get("arguments") is None
        and not facts.get("positional")
        and _lacks(facts, "arguments")
    ):
        given = _first_in_span(span, _ARGUMENTS)
    if not facts.get("has_result") and _lacks(facts, "result"):
        returned = _first_in_span(span, _RESULTS)
    if given is not None or returned is not None:
        found: Facts = {}
        read_call(span, _opened(given), _opened(returned), found)
        add_missing(facts, found, missing=_NOTHING)
    status = first_text(span.attributes, _STATUSES)
    if status is not None and status.lower() in _FAILURES and not facts.get("error"):
        facts["error"] = failure(facts["result"]) if facts.get("result") is not None else status


def _first_in_span(span: Span, names: tuple[str, ...]) -> Value:
    """The first of the names in a span's attributes, else in those of its events."""
    for attributes in (span.attributes, *(x.attributes for x in span.events)):
        found = _first(attributes, names)
        if found is not None:
            return found
    return None


def _lacks(facts: Facts, fact: StepFact) -> bool:
    """Whether a fact is neither recorded nor known to be lost."""
    return facts.get(fact) is None and fact not in facts.get("damaged", ())


def _first(attributes: Attributes, names: tuple[str, ...]) -> Value:
    for key in names:  # for every span: a generator would take twice as long
        value = attributes.get(key)
        if value not in (None, ""):
            return value
    return None


def _opened(value: Value) -> Any:
    """The value out of LangWatch's `{"type": …, "value": …}`; any other as it is."""
    if not isinstance(value, str) or not value.startswith('{"type"'):
        return value
    parsed = structure(value).value
    if isinstance(parsed, dict) and parsed.keys() == {"type", "value"}:
        return parsed["value"]
    return value


_NAME, _INDEX = "event.name", "gen_ai.message.index"
_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}


def conversation_of(value: Value) -> tuple[Messages, Messages]:
    """What a model was given, and what it chose; no messages where the list has no such events."""
    parsed, damaged = structure(value)
    listed = [x for x in objects(parsed) if x.get(_NAME) in _ROLES]
    if all(isinstance(x.get(_INDEX), int) for x in listed if x[_NAME] != "gen_ai.choice"):
        listed.sort(key=_place)
    given: list[Any] = [_body(x) for x in listed if x[_NAME] != "gen_ai.choice"]
    chosen: list[Any] = [_body(x) for x in listed if x[_NAME] == "gen_ai.choice"]
    return (
        Messages(messages(given).messages if given else None, damaged),
        Messages(messages(chosen, "assistant").messages if chosen else None, damaged),
    )


def _place(event: dict[str, Any]) -> tuple[bool, int]:
    return event[_NAME] == "gen_ai.choice", event.get(_INDEX) or 0


def _body(event: dict[str, Any]) -> dict[str, Any]:
    """The message of an event; its role is in the name where the message states none."""
    inner = event.get("message")
    return {"role": _ROLES[event[_NAME]], **(inner if isinstance(inner, dict) else event)}
