"""Haystack's own tracer: what pipelines, components, agents and their tools were given and
returned, as JSON.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, Quirk
from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import arguments, call_id, failure, result, tools
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    add_missing,
    as_list,
    as_object,
    evaluated,
    identity,
    opened,
    opened_repr,
    read_usage,
    structure,
    text,
)
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span, changed
from spanscore.model.step import Message, Step, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_OPENINFERENCE = "openinference.instrumentation.haystack"
_OPENLLMETRY = "opentelemetry.instrumentation.haystack"

_DEFINED = ("name", "description", "parameters")
"""The keys of a tool's definition for a model; the function that it calls may be printed as an
object, too.
"""

_ROLES = frozenset({"user", "assistant", "system", "tool"})


def chat_messages(items: object) -> tuple[Message, ...] | None:
    """The messages in a list of ChatMessages; None for what is no list of them."""
    if not isinstance(items, list):
        return None
    found = [_message(opened_repr(x) if isinstance(x, str) else x) for x in items]
    return tuple(x for x in found if x is not None) if any(found) or not items else None


def state_messages(state: object) -> tuple[Message, ...] | None:
    """The messages of what a component, an agent or a pipeline was given or returned: its own, else
    its parts'.
    """
    found = (chat_messages(x.get(key)) for x in _parts(state) for key in ("messages", "replies"))
    return next((x for x in found if x), None)


def conversation(given: object, returned: object, facts: Facts) -> None:
    """Add the messages that an agent or pipeline received and produced to the facts of its span.

    The state that an agent returns begins with its instructions and the question; without them it
    is all its own.
    """
    after = state_messages(returned)
    facts["input"] = state_messages(given)
    facts["output"] = langchain_messages.after_question(after)
    instructions = [x.text for x in after or () if x.role == "system" and x.text]
    facts["system"] = "\n\n".join(instructions) or None
    counted = (x["token_usage"] for x in _parts(returned) if "token_usage" in x)
    read_usage(next(counted, None), facts)


def _parts(state: object) -> list[dict[str, Any]]:
    """What a component, an agent or a pipeline was given or returned, and its parts."""
    whole = as_object(state)
    return [whole, *(x for x in whole.values() if isinstance(x, dict))]


def refine_trace(steps: Sequence[Step]) -> list[Step]:
    """The steps; an agent counts its own model calls, so those of the agents inside it are added,
    and a pipeline is the agent whose state it returned, where that has no span.
    """
    own = [x for x in steps if x.kind == "agent" and x.span.scope.name == _OPENINFERENCE]
    if not own:
        return [changed(x, kind="agent") if _returned_agent(x) else x for x in steps]
    by_id = {x.span.span_id: x for x in steps}
    inside = {x.span.span_id: [x] for x in own}
    for agent in own if len(own) > 1 else ():
        above, seen = by_id.get(agent.span.parent_span_id), set[str]()
        while above is not None and above.span.span_id not in seen:
            seen.add(above.span.span_id)
            inside.get(above.span.span_id, []).append(agent)
            above = by_id.get(above.span.parent_span_id)
    return [_summed(x, inside.get(x.span.span_id, ())) for x in steps]


def _returned_agent(step: Step) -> bool:
    is_counted = step.input_tokens is not None or step.output_tokens is not None
    return step.kind == "workflow" and is_counted and step.span.scope.name == _OPENINFERENCE


def _summed(step: Step, agents: Sequence[Step]) -> Step:
    if len(agents) < 2:
        return step
    given = [x.input_tokens for x in agents if x.input_tokens is not None]
    produced = [x.output_tokens for x in agents if x.output_tokens is not None]
    return changed(
        step,
        input_tokens=sum(given) if given else None,
        output_tokens=sum(produced) if produced else None,
    )


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of a span of OpenInference's, in place."""
    kind, name = facts["kind"], span.name
    if kind not in {"model", "workflow"}:
        return
    given = structure(span.attributes.get("input.value")).value
    returned, is_cut = structure(span.attributes.get("output.value"))
    if kind == "model":
        _complete_model(given, returned, facts)
    elif name.startswith(("Agent.", "Pipeline.", "AsyncPipeline.")):
        facts["kind"] = "agent" if name.startswith("Agent.") else kind
        if isinstance(given, dict) and isinstance(given.get("data"), dict):
            given = given["data"]
        conversation(given, returned, facts)
        if is_cut:
            add_damaged(facts, "output", "tokens")


def read_meta(returned: object) -> Facts:
    """What the metadata of a generator's first reply record: the model, the response's id and the
    token counts.

    They are in the reply itself, or beside replies that are only texts.
    """
    state = as_object(returned)
    replies = [
        opened_repr(x) if isinstance(x, str) else x for x in as_list(state.get("replies"))[:1]
    ]
    metas = [x.get("meta", x.get("_meta")) for x in replies if _message(x) is not None]
    meta = next((x for x in [*metas, *as_list(state.get("meta"))[:1]] if isinstance(x, dict)), {})
    facts: Facts = {"model": text(meta.get("model")), "response_id": identity(meta.get("id"))}
    read_usage(meta.get("usage"), facts)
    return facts


def _complete_model(given: object, returned: object, facts: Facts) -> None:
    """Add what the flattened attributes lack: results, ids, the calls of earlier answers, tools,
    token counts.
    """
    facts["input"] = state_messages(given) or facts.get("input")
    facts["output"] = state_messages(returned) or facts.get("output")
    if facts.get("tools") is None and isinstance(given, dict):
        facts["tools"] = _printed_tools(given.get("tools"))
    add_missing(facts, read_meta(returned))


def _printed_tools(offered: object) -> tuple[Tool, ...] | None:
    """The tools that a generator was given: a list of tools and toolsets, or one toolset, each
    printed by Python.
    """
    given = offered if isinstance(offered, list) else [offered]
    found: list[Any] = []
    for item in (opened_repr(x) if isinstance(x, str) else x for x in given):
        inner = as_object(item).get("tools")
        found += inner if isinstance(inner, list) else [item]
    named = [{key: x.get(key) for key in _DEFINED} for x in found if isinstance(x, dict)]
    return tools(named) or None


def complete_openllmetry(span: Span, facts: Facts) -> None:
    """Add to the facts of a span of OpenLLMetry's, in place.

    Of a chat generator it records nothing but the names of the fields that it returned.
    """
    if facts["kind"] == "model" and span.attributes.get("gen_ai.completion.0.content") == "replies":
        facts["kind"] = "other"
    elif facts["kind"] == "workflow":
        given = as_object(opened(span.attributes.get("traceloop.entity.input"))).get("kwargs")
        conversation(given, opened(span.attributes.get("traceloop.entity.output")), facts)
        if any(x.calls for x in facts["output"] or ()):
            facts["kind"] = "agent"


def _message(item: Any) -> Message | None:
    """A message; its fields begin with an underscore where it was not serialized by Haystack
    itself.
    """
    if not isinstance(item, dict):
        return None
    role, content = item.get("role", item.get("_role")), item.get("content", item.get("_content"))
    if not isinstance(role, str) or role not in _ROLES:
        return None
    if not isinstance(content, list):
        return Message(role, content) if isinstance(content, str) else None
    parts = [x for x in content if isinstance(x, dict)]
    return Message(
        role,
        _joined(x["text"] for x in parts if isinstance(x.get("text"), str)),
        _joined(x for x in map(_thought, parts) if x),
        tuple(x for x in map(_call, parts) if x is not None),
        tuple(x for x in map(_result, parts) if x is not None),
    )


def _joined(texts: Iterable[str]) -> str | None:
    found = list(texts)
    return "\n".join(found) if found else None


def _thought(part: dict[str, Any]) -> str | None:
    thought = as_object(part.get("reasoning", part)).get("reasoning_text")
    return thought if isinstance(thought, str) else None


def _call(part: dict[str, Any]) -> RequestedCall | None:
    call = part.get("tool_call", part)
    if not isinstance(call, dict) or not isinstance(call.get("tool_name"), str):
        return None
    return RequestedCall(call_id(call.get("id")), call["tool_name"], call.get("arguments"))


def _result(part: dict[str, Any]) -> ToolResult | None:
    content = part.get("tool_call_result", part)
    if not isinstance(content, dict) or not {"result", "origin"} <= content.keys():
        return None
    origin, value = content["origin"], _returned(content["result"])
    identity = call_id(as_object(origin).get("id"))
    return ToolResult(identity, value, failure(value) if content.get("error") is True else None)


def _returned(value: Any) -> Json:
    """What a tool returned: text, or a list of text contents that carry no type.

    Version 2 prints it by str().
    """
    if (
        isinstance(value, list)
        and value
        and all(isinstance(x, dict) and x.keys() == {"text"} for x in value)
    ):
        value = "\n".join(str(x["text"]) for x in value)
    returned = result(value)
    return evaluated(returned) if returned == value else returned


QUIRKS = (
    Quirk(
        "haystack",
        "openinference",
        (_OPENINFERENCE,),
        complete=complete_openinference,
        refine_trace=refine_trace,
        returns_state=True,
    ),
    Quirk("haystack", "openllmetry", (_OPENLLMETRY,), complete=complete_openllmetry),
)


_TYPE, _TOOL = "haystack.component.type", "haystack.tool.name"
_GENERATION = "haystack.agent.step.llm.input"
_AGENT = "haystack.agent.max_steps"


def read(span: Span, context: Context) -> Facts:
    """The facts of a span: of a pipeline, a component, an agent, or a step of an agent."""
    for key, reader in _READERS:
        if key in span.attributes:
            return reader(span)
    return _pipeline(span.attributes) if context.outermost else {"kind": "other"}


def _component(span: Span) -> Facts:
    name = span.attributes[_TYPE]
    ending = next((x for x in _COMPONENTS if isinstance(name, str) and name.endswith(x)), None)
    return {"kind": "other"} if ending is None else _COMPONENTS[ending](span)


def _pipeline(attributes: Attributes) -> Facts:
    facts: Facts = {"kind": "workflow"}
    given = _parsed(attributes, "haystack.pipeline.input_data")
    returned = _parsed(attributes, "haystack.pipeline.output_data")
    conversation(given, returned, facts)
    facts["input_text"] = _question(given)
    return facts


def _parsed(attributes: Attributes, key: str) -> Any:
    return structure(attributes.get(key)).value


def _question(given: Any) -> str | None:
    """The one text that the components of a pipeline were given, mostly each under a name of its
    own.
    """
    inputs = [x for x in given.values() if isinstance(x, dict)] if isinstance(given, dict) else []
    texts = {value for x in inputs for value in x.values() if isinstance(value, str)}
    return texts.pop() if len(texts) == 1 else None


def _agent_component(span: Span) -> Facts:
    """The place of an agent in a pipeline; the agent itself lies inside, without a name."""
    return {"kind": "workflow", "agent_name": text(span.attributes.get("haystack.component.name"))}


def _agent(span: Span) -> Facts:
    attributes, facts = span.attributes, Facts(kind="agent")
    given, returned = (_parsed(attributes, f"haystack.agent.{x}") for x in ("input", "output"))
    conversation(given, returned, facts)
    offered = _parsed(attributes, "haystack.agent.tools")
    if offered is not None:
        facts["tools"] = _tools(offered)
    return facts


def _tools(offered: Any) -> tuple[Tool, ...] | None:
    """Tools as Haystack serializes them, each with its type; a toolset contains them one level
    deeper.
    """
    found: list[Any] = []
    for item in offered if isinstance(offered, list) else [offered]:
        data = as_object(item).get("data")
        inner = as_object(data).get("tools")
        found += (
            [x.get("data") for x in inner if isinstance(x, dict)]
            if isinstance(inner, list)
            else [data]
        )
    return tools(found)


def _generator(span: Span) -> Facts:
    return _model(
        *(_parsed(span.attributes, f"haystack.component.{x}") for x in ("input", "output"))
    )


def _generation(span: Span) -> Facts:
    return _model(
        *(_parsed(span.attributes, f"haystack.agent.step.llm.{x}") for x in ("input", "output"))
    )


def _model(given: Any, returned: Any) -> Facts:
    """A model call.

    Of one that was given a prompt and returned texts, the metadata stand beside them.
    """
    request = as_object(given)
    response = as_object(returned)
    facts: Facts = {"kind": "model"}
    facts["input"] = chat_messages(request.get("messages"))
    if facts["input"] is None and isinstance(request.get("prompt"), str):
        facts["input"] = (Message("user", request["prompt"]),)
    replies = as_list(response.get("replies"))
    answers = tuple(Message("assistant", x) for x in replies if isinstance(x, str))
    facts["output"] = answers or chat_messages(response.get("replies"))
    if request.get("tools") is not None:
        facts["tools"] = _tools(request["tools"])
    return facts | read_meta(returned)


def _tool(span: Span) -> Facts:
    """A call of an agent's.

    An empty result may be null or no text, so it is taken from the model's input.
    """
    attributes = span.attributes
    facts: Facts = {
        "kind": "tool",
        "tool_name": text(attributes[_TOOL]),
        "error": status_error(span),
    }
    given, returned = (attributes.get(f"haystack.agent.step.tool.{x}") for x in ("input", "output"))
    if given is not None:
        facts["arguments"] = arguments(given)
    if returned is not None and returned != "":
        facts["result"], facts["has_result"] = opened(returned, scalars=False), True
    if attributes.get("haystack.tool.error") is True:
        result = facts.get("result")
        stated = result
        if isinstance(result, dict) and result.keys() == {"error"}:
            stated = result.get("error")
        facts["error"] = facts["error"] or failure(stated)
        facts["result"] = stated
    return facts


def _invoker(span: Span) -> Facts:
    """The component that runs an agent's calls.

    A single one is the call; several are read from messages.
    """
    returned = _parsed(span.attributes, "haystack.component.output")
    answering = chat_messages(returned.get("tool_messages")) if isinstance(returned, dict) else None
    given = _parsed(span.attributes, "haystack.component.input")
    requesting = chat_messages(given.get("messages")) if isinstance(given, dict) else None
    results = [x for message in answering or () for x in message.results]
    calls = [x for message in (requesting or ())[-1:] for x in message.calls]
    if len(results) != 1 or len(calls) != 1:
        return {"kind": "other"}
    (call,), (answer,) = calls, results
    return {
        "kind": "tool",
        "tool_name": call.name,
        "call_id": call.call_id,
        "arguments": call.arguments,
        "result": answer.value,
        "has_result": True,
        "error": answer.error or status_error(span),
    }


def _retrieval(span: Span) -> Facts:
    given = _parsed(span.attributes, "haystack.component.input")
    returned = _parsed(span.attributes, "haystack.component.output")
    return {
        "kind": "retrieval",
        "query": text(as_object(given).get("query")),
        "documents": tuple(as_list(as_object(returned).get("documents"))),
    }


_READERS: tuple[tuple[str, Callable[[Span], Facts]], ...] = (
    (_TOOL, _tool),
    (_GENERATION, _generation),
    (_AGENT, _agent),
    (_TYPE, _component),
)
"""By an attribute that the span has; the first counts."""

_COMPONENTS: dict[str, Callable[[Span], Facts]] = {
    "Generator": _generator,
    "Retriever": _retrieval,
    "ToolInvoker": _invoker,
    "Agent": _agent_component,
}
"""By what the type of a component ends with."""

DIALECT = Dialect(
    "haystack",
    read,
    keys=(
        _TYPE,
        _TOOL,
        _GENERATION,
        _AGENT,
        "haystack.agent.step",
        "haystack.pipeline.max_runs_per_component",
        "haystack.pipeline.input_data",
    ),
    prefilters=(b"haystack.",),
    content=(ContentSwitch("set HAYSTACK_CONTENT_TRACING_ENABLED=true"),),
)
