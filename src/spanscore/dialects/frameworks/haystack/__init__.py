"""Haystack's own tracer: what pipelines, components, agents and their tools were given and
returned, as JSON.
"""

from collections.abc import Callable
from typing import Any

from spanscore.dialects.content_switch import ContentSwitch
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms.arguments import arguments, failure, tools
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import opened, structure
from spanscore.dialects.forms.values import Facts, text
from spanscore.dialects.frameworks.haystack import messages as haystack_messages
from spanscore.model.span import Attributes, Span
from spanscore.model.step import Message
from spanscore.model.trace import Tool

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
    given, returned = (
        _parsed(attributes, f"haystack.pipeline.{x}_data") for x in ("input", "output")
    )
    haystack_messages.conversation(given, returned, facts)
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
    haystack_messages.conversation(given, returned, facts)
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
        data = item.get("data") if isinstance(item, dict) else None
        inner = data.get("tools") if isinstance(data, dict) else None
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
    request = given if isinstance(given, dict) else {}
    response = returned if isinstance(returned, dict) else {}
    facts: Facts = {"kind": "model"}
    facts["input"] = haystack_messages.chat_messages(request.get("messages"))
    if facts["input"] is None and isinstance(request.get("prompt"), str):
        facts["input"] = (Message("user", request["prompt"]),)
    replies = _list(response.get("replies"))
    answers = tuple(Message("assistant", x) for x in replies if isinstance(x, str))
    facts["output"] = answers or haystack_messages.chat_messages(response.get("replies"))
    if request.get("tools") is not None:
        facts["tools"] = _tools(request["tools"])
    return facts | haystack_messages.read_meta(returned)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


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
        stated = (
            result.get("error")
            if isinstance(result, dict) and result.keys() == {"error"}
            else result
        )
        facts["error"] = facts["error"] or failure(stated)
        facts["result"] = stated
    return facts


def _invoker(span: Span) -> Facts:
    """The component that runs an agent's calls.

    A single one is the call; several are read from messages.
    """
    returned = _parsed(span.attributes, "haystack.component.output")
    answering = (
        haystack_messages.chat_messages(returned.get("tool_messages"))
        if isinstance(returned, dict)
        else None
    )
    given = _parsed(span.attributes, "haystack.component.input")
    requesting = (
        haystack_messages.chat_messages(given.get("messages")) if isinstance(given, dict) else None
    )
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
    given, returned = (
        _parsed(span.attributes, f"haystack.component.{x}") for x in ("input", "output")
    )
    documents = returned.get("documents") if isinstance(returned, dict) else None
    return {
        "kind": "retrieval",
        "query": text(given.get("query")) if isinstance(given, dict) else None,
        "documents": tuple(documents) if isinstance(documents, list) else (),
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

QUIRKS = haystack_messages.QUIRKS

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
