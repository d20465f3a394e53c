"""AgentOps: its decorators' functions with what they took and returned, and model calls with calls
as spans inside.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from spanscore.dialects import keys
from spanscore.dialects.conventions import openllmetry
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.decorated_calls import (
    damaged,
    is_call,
    read_arguments,
    read_call,
    read_recorded,
)
from spanscore.dialects.forms.structure import Facts, first_text, indexed, opened, structure, text
from spanscore.model.span import Attributes, Span, Value, changed
from spanscore.model.step import Message, Step, StepKind, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_KIND, _REQUEST = "agentops.span.kind", keys.GEN_AI_REQUEST_TYPE
_KINDS: Final[dict[str, StepKind]] = {
    "session": "workflow",
    "workflow": "workflow",
    "task": "workflow",
    "operation": "workflow",
    "chain": "workflow",
    "agent": "agent",
    "tool": "tool",
    "llm": "model",
}
_SCOPE, _CALLS = "agentops", "agentops.instrumentation.providers.openai.wrappers.chat"
_NAMES, _ENTITY = (keys.AGENT_NAME, "operation.name", "agentops.entity.name"), "agentops.entity"
_ANTHROPIC, _RESULT = "anthropic.", "[Tool Result: "


def read(span: Span, context: Context) -> Facts:
    """The facts of a decorated function, a model call, or a call that a model requested."""
    if span.scope.name == _CALLS:
        return _read_request(span.attributes)
    stated = _KINDS.get(str(span.attributes.get(_KIND)))
    if stated in {None, "model"}:
        return _read_model(span, context)
    facts: Facts = {"kind": stated}
    if stated == "tool":
        _read_tool(span, facts)
    else:
        facts["agent_name"] = first_text(span.attributes, _NAMES) if stated == "agent" else None
        if stated == "agent" or context.outermost:
            _read_function(span.attributes, facts)
    return facts


def _read_request(attributes: Attributes) -> Facts:
    """A call that a model requested, which lies inside the model call and records nothing of how it
    went.
    """
    return {
        "kind": "other",
        "tool_name": text(attributes.get(keys.TOOL_NAME)),
        "call_id": call_id(attributes.get("tool.call.id")),
        "arguments": arguments(attributes.get(keys.TOOL_PARAMETERS)),
        "damaged": damaged(arguments=attributes.get(keys.TOOL_PARAMETERS)),
    }


def _read_model(span: Span, context: Context) -> Facts:
    facts, attributes = openllmetry.read(span, context), span.attributes
    if facts["kind"] != "model":
        return facts
    if facts.get("tools") is None:
        facts["tools"] = _offered(attributes)
    if (given := facts.get("input")) and span.name.startswith(_ANTHROPIC):
        facts["input"] = tuple(map(_with_results, given))
    return facts


def _offered(attributes: Attributes) -> tuple[Tool, ...] | None:
    """The tools on offer.

    Where Anthropic's are listed one by one, the calls are written over them.
    """
    schemas = structure(attributes.get("anthropic.tools.schemas")).value
    if isinstance(schemas, list):
        named = (x for x in schemas if isinstance(x, dict))
        return tools(
            [
                {**x["schema"], "name": x.get("name")}
                for x in named
                if isinstance(x.get("schema"), dict)
            ]
        )
    listed = indexed(attributes, keys.GEN_AI_REQUEST_FUNCTIONS_PREFIX) or [
        {**call, "parameters": call.get("arguments")}
        for call in indexed(attributes, keys.GEN_AI_REQUEST_TOOLS_PREFIX)
    ]
    return tools(listed) if listed else None


def _with_results(message: Message) -> Message:
    """The message, whose text may be the results of tools in Anthropic's blocks, printed one after
    the other.
    """
    text = message.text or ""
    if message.role != "user" or not text.startswith(_RESULT) or not text.endswith("]"):
        return message
    values = text.removeprefix(_RESULT).removesuffix("]").split(f"] {_RESULT}")
    return changed(message, text=None, results=tuple(ToolResult(None, opened(x)) for x in values))


def _recorded(attributes: Attributes) -> tuple[Value, Value]:
    """What a function took and returned: under its kind; of classes, and in earlier versions, as an
    entity.
    """
    own = f"{_SCOPE}.{attributes.get(_KIND)!s}"
    given = attributes.get(f"{own}.input", attributes.get(f"{_ENTITY}.input"))
    return given, attributes.get(f"{own}.output", attributes.get(f"{_ENTITY}.output"))


def _read_function(attributes: Attributes, facts: Facts) -> None:
    """A function.

    Of a class only its construction is recorded, which is no question: it returns nothing.
    """
    given, returned = _recorded(attributes)
    if returned is None and facts["kind"] == "agent" and f"{_ENTITY}.input" in attributes:
        return
    read_recorded(given, returned, facts)
    if facts.get("output_json") is not None:
        # as it was written: text is recorded as it is, even where it is JSON
        facts["output_json"] = text(returned)


def _read_tool(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    given, returned = _recorded(attributes)
    facts["tool_name"] = text(attributes.get(keys.TOOL_NAME)) or first_text(attributes, _NAMES[1:])
    facts["call_id"] = call_id(attributes.get("tool.call.id"))
    given = attributes.get(keys.TOOL_PARAMETERS) if given is None else given
    returned = attributes.get("tool.result") if returned is None else returned
    read_call(span, given, returned, facts)
    called = facts.get("arguments")
    if is_call(called):
        read_arguments(called, facts)


def refine_trace(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps, with the calls that a model requested in its answer."""
    requested: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        if step.span.scope.name == _CALLS and step.tool_name is not None:
            requested[step.span.parent_span_id].append(step)
    return [
        _with_calls(x, requested[x.span.span_id]) if x.span.span_id in requested else x
        for x in steps
    ]


def _with_calls(model: Step, requested: Sequence[Step]) -> Step:
    *earlier, last = model.output or (Message("assistant"),)
    if model.kind != "model" or last.calls:
        return model
    calls = tuple(
        RequestedCall(x.call_id, x.tool_name, x.arguments)
        for x in requested
        if x.tool_name is not None
    )
    if any("arguments" in x.damaged for x in requested):
        last = changed(last, damaged=last.damaged | {"calls"})
    return changed(model, output=(*earlier, changed(last, calls=calls)))


DIALECT = Dialect(
    "agentops",
    read,
    scopes=(_SCOPE, _CALLS),
    keys=(_KIND, _REQUEST),
    prefilters=(b"agentops", _REQUEST.encode()),
    refine_trace=refine_trace,
)
