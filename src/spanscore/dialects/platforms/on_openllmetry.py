"""Platforms whose spans extend OpenLLMetry's.

`agentops`: AgentOps: its decorators' functions with what they took and returned, and model calls
with calls as spans inside.

`laminar`: Laminar's SDK: the conventions with messages as the provider has them, and what its
decorator recorded of a call.

`netra`: Netra: its decorators' spans, and models' calls as messages of JSON.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from spanscore.dialects.conventions import openllmetry
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, Items, Quirk
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.decorated_calls import (
    damaged,
    is_call,
    read_arguments,
    read_call,
    read_recorded,
)
from spanscore.dialects.forms.provider_bodies import conversation
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    Side,
    add_damaged,
    as_object,
    first_text,
    identity,
    indexed,
    is_redacted,
    object_at,
    objects,
    opened,
    opened_repr,
    read_names,
    read_tokens,
    structure,
    text,
)
from spanscore.model.span import Attributes, Span, Value, changed
from spanscore.model.step import Message, Step, StepKind, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_KIND, _REQUEST = "agentops.span.kind", "gen_ai.request.type"
_AGENTOPS_KINDS: Final[dict[str, StepKind]] = {
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
_NAMES, _ENTITY = ("agent.name", "operation.name", "agentops.entity.name"), "agentops.entity"
_ANTHROPIC, _RESULT = "anthropic.", "[Tool Result: "


def read_agentops(span: Span, context: Context) -> Facts:
    """The facts of a decorated function, a model call, or a call that a model requested."""
    if span.scope.name == _CALLS:
        return _read_request(span.attributes)
    stated = _AGENTOPS_KINDS.get(str(span.attributes.get(_KIND)))
    if stated in {None, "model"}:
        return _read_model_agentops(span, context)
    facts: Facts = {"kind": stated}
    if stated == "tool":
        _read_tool_agentops(span, facts)
    else:
        facts["agent_name"] = first_text(span.attributes, _NAMES) if stated == "agent" else None
        if stated == "agent" or context.outermost:
            _read_function_agentops(span.attributes, facts)
    return facts


def _read_request(attributes: Attributes) -> Facts:
    """A call that a model requested, which lies inside the model call and records nothing of how it
    went.
    """
    return {
        "kind": "other",
        "tool_name": text(attributes.get("tool.name")),
        "call_id": call_id(attributes.get("tool.call.id")),
        "arguments": arguments(attributes.get("tool.parameters")),
        "damaged": damaged(arguments=attributes.get("tool.parameters")),
    }


def _read_model_agentops(span: Span, context: Context) -> Facts:
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
    listed = indexed(attributes, "gen_ai.request.functions.") or [
        {**call, "parameters": call.get("arguments")}
        for call in indexed(attributes, "gen_ai.request.tools.")
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


def _read_function_agentops(attributes: Attributes, facts: Facts) -> None:
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


def _read_tool_agentops(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    given, returned = _recorded(attributes)
    facts["tool_name"] = text(attributes.get("tool.name")) or first_text(attributes, _NAMES[1:])
    facts["call_id"] = call_id(attributes.get("tool.call.id"))
    given = attributes.get("tool.parameters") if given is None else given
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


_AGENTOPS = Dialect(
    "agentops",
    read_agentops,
    scopes=(_SCOPE, _CALLS),
    keys=(_KIND, _REQUEST),
    prefilters=(b"agentops", _REQUEST.encode()),
    refine_trace=refine_trace,
)


_LAMINAR_TYPE, _EXECUTOR = "lmnr.span.type", "EXECUTOR"
_LAMINAR_KINDS: Final[dict[str, StepKind]] = {
    "LLM": "model",
    "CACHED": "model",
    "TOOL": "tool",
    "DEFAULT": "workflow",
    "PIPELINE": "workflow",
    _EXECUTOR: "workflow",  # what an evaluation runs
}
_INPUT, _OUTPUT = "lmnr.span.input", "lmnr.span.output"
_ASSOCIATION = "lmnr.association.properties."
_SIDES: Final[tuple[tuple[Side, str, str, str], ...]] = (
    ("input", "gen_ai.input.messages", _INPUT, "user"),
    ("output", "gen_ai.output.messages", _OUTPUT, "assistant"),
)


def read_laminar(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; of its own evaluations, what was executed is the turn, and
    evaluators are none of its steps.
    """
    attributes = span.attributes
    kind = _LAMINAR_KINDS.get(str(attributes.get(_LAMINAR_TYPE)), "other")
    conventional = kind == "model" or (kind == "workflow" and "gen_ai.operation.name" in attributes)
    facts: Facts = openllmetry.read(span, context) if conventional else {"kind": kind}
    if kind != "workflow":
        facts["kind"] = kind
    found: Facts = {}
    read_names(attributes, found, _ASSOCIATION)
    facts |= found
    read_names(object_at(attributes, "langchain.metadata"), facts)
    if kind == "model":
        _read_model_laminar(attributes, facts)
    elif kind == "tool":
        _read_tool_laminar(span, facts)
    elif kind == "workflow" and (
        context.outermost or facts["kind"] == "agent" or attributes.get(_LAMINAR_TYPE) == _EXECUTOR
    ):
        read_recorded(attributes.get(_INPUT), attributes.get(_OUTPUT), facts)
    return facts


def _read_model_laminar(attributes: Attributes, facts: Facts) -> None:
    """Its messages are the provider's, choices among them; what a decorated function took and gave
    comes last.
    """
    for side, conventional, decorated, role in _SIDES:
        key = conventional if conventional in attributes else decorated
        if key in attributes and (key == conventional or facts.get(side) is None):
            facts[side] = conversation(_provider_messages(structure(attributes[key]).value), role)
    read_tokens(attributes, facts)  # also where nothing else of the conventions is set
    if (
        facts.get("system") is None and "gen_ai.prompt.0.role" in attributes
    ):  # of OpenAI's Responses
        items = indexed(attributes, "gen_ai.prompt.")
        facts["system"] = next(
            (text(x.get("content")) for x in items if x.get("role") == "system"), None
        )


def _provider_messages(value: Any) -> Any:
    """The messages in a list of choices; anything else as it is."""
    choices = objects(value)
    is_list = choices and len(choices) == len(value) and all("message" in x for x in choices)
    return {"choices": value} if is_list else value


def _read_tool_laminar(span: Span, facts: Facts) -> None:
    facts["tool_name"] = text(span.name)
    read_call(span, span.attributes.get(_INPUT), span.attributes.get(_OUTPUT), facts)


_LAMINAR = Dialect("laminar", read_laminar, keys=(_LAMINAR_TYPE,), prefilters=(b"lmnr.span.",))


_NETRA_TYPE = "netra.span.type"
_INSTRUMENTATION = "netra.instrumentation.name"
_NETRA_KINDS: Final[dict[str, StepKind]] = {"AGENT": "agent", "TOOL": "tool", "SPAN": "workflow"}
_CALLS_MODELS = "netra.trace.llm.call"
"""Of the span around all: model calls were made, whose tokens are lost where none is there."""

_FINISH_REASON = ".finish_reason"  # in a message of its own
_CALL = frozenset({"name", "arguments"})
_PRINTED = {"None": None, "True": True, "False": False}
"""What str() prints of a result that is neither text nor a number; lists and objects are JSON."""


def read_netra(span: Span, context: Context) -> Facts:
    """The facts of a decorated function's span, or of a model call's."""
    kind = _NETRA_KINDS.get(str(span.attributes.get(_NETRA_TYPE)))
    if kind is None:
        facts = openllmetry.read(span, changed(context, quirk=_INDEXED))
        facts["finish_reasons"] = tuple(
            str(reason)
            for key, reason in span.attributes.items()
            if key.startswith("gen_ai.completion.") and key.endswith(_FINISH_REASON)
        )
    else:
        facts = {"kind": kind}
        _read_function_netra(span, facts, outermost=context.outermost)
    return facts | named(span)


def named(span: Span) -> Facts:
    """The session and user that it puts on each span."""
    attributes = span.attributes
    return {
        "session_id": identity(attributes.get("netra.session_id")),
        "user_id": identity(attributes.get("netra.user_id")),
    }


def _read_function_netra(span: Span, facts: Facts, *, outermost: bool) -> None:
    """What a function was called with, by the names of its parameters, and returned.

    Its span starts with an empty input and output, and a function that failed has no status.
    """
    given, returned = span.attributes.get("input"), span.attributes.get("output")
    failed = text(span.attributes.get("netra.entity.error"))
    if failed:
        facts["error"], facts["ending"] = status_error(span) or failed, "failed"
    if facts["kind"] == "tool":
        facts["tool_name"] = text(span.name)
        facts["damaged"] = damaged(arguments=given, result=returned)
        if given is not None and not is_redacted(given):
            facts["arguments"] = arguments(given) if given else {}
        if returned is not None and not failed and not is_redacted(returned):
            facts["result"] = _PRINTED.get(str(returned), opened(returned))
            facts["has_result"] = True
    elif facts["kind"] == "agent" or outermost:
        facts["agent_name"] = text(span.name) if facts["kind"] == "agent" else None
        read_recorded(given or None, returned or None, facts)
        if span.attributes.get(_CALLS_MODELS) is True:
            add_damaged(facts, "tokens")


def opened_items(_span: Span, items: Items) -> Items:
    """Flattened messages as they were: each call that a message requested is a message of JSON
    after it, and blocks are printed.
    """
    found: Items = []
    for item in items:
        call = _call(item)
        if call is None and "role" in item:
            content = item.get("content")
            blocks = opened_repr(content) if str(content).startswith("[{'") else None
            found.append({**item, "content": blocks or content})
        elif call is not None:
            before = found[-1] if found and found[-1].get("role") == "assistant" else None
            if before is None:
                before = {"role": "assistant"}
                found.append(before)
            calls = before.setdefault("tool_calls", {})
            calls[str(len(calls))] = call
    return found


def _call(item: dict[str, Any]) -> dict[str, Any] | None:
    content = item.get("content")
    if item.get("role") != "assistant" or not str(content).startswith('{"name":'):
        return None
    call = as_object(structure(content).value)
    return {"id": item.get("tool_call_id"), **call} if call.keys() == _CALL else None


_INDEXED = Quirk("netra", "openllmetry", items=opened_items)

_NETRA = Dialect(
    "netra",
    read_netra,
    keys=(_NETRA_TYPE, _INSTRUMENTATION),
    prefilters=(_NETRA_TYPE.encode(), _INSTRUMENTATION.encode()),
    name_session=named,
    content=(ContentSwitch("set NETRA_TRACE_CONTENT=true"),),
)


DIALECTS = (_AGENTOPS, _LAMINAR, _NETRA)
