"""LangChain and LangGraph in OpenInference's and OpenLLMetry's spans."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spanscore.dialects.conventions.adot import Bodies, listed, record_turns
from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import call_id
from spanscore.dialects.forms.decorated_calls import is_call, read_arguments
from spanscore.dialects.forms.messages import blocks, message
from spanscore.dialects.forms.structure import (
    NO_CONTENT,
    REPR_CONTAINERS,
    Facts,
    Side,
    as_object,
    literal,
    object_at,
    opened,
    structure,
    text,
)
from spanscore.dialects.forms.tool_results import fields_of, tool_output
from spanscore.model.json import Json, dumps
from spanscore.model.span import Attributes, Span
from spanscore.model.step import Message, Step, ToolResult

_PYTHON = "openinference.instrumentation.langchain"
_JAVASCRIPT = "@arizeai/openinference-instrumentation-langchain"
_ENVELOPE = "output"


def place(span: Span, facts: Facts, outermost: bool) -> None:
    """Find whose step a span is.

    The instrumentation calls a chain an agent for the word in its name, be it a node.
    """
    placed = object_at(span.attributes, "metadata")
    if facts["kind"] in {"model", "tool"}:
        facts["agent_name"] = langchain_messages.agent_name(placed)
    elif facts["kind"] in {"agent", "workflow"}:
        is_graph = outermost and _state(span, "input") is not None
        if langchain_messages.is_agent(span.name, placed, outermost=is_graph):
            facts["kind"] = "agent"
        elif langchain_messages.is_node(placed):
            facts["kind"] = "workflow"


def messages(span: Span, side: Side, facts: Facts) -> tuple[Message, ...] | None:
    """LangChain's serialized messages: the flattened ones in JavaScript lack ids of calls and some
    texts.
    """
    found = _state(span, side)
    return langchain_messages.without_hand_back(found) if facts["kind"] == "model" else found


def _state(span: Span, side: Side) -> tuple[Message, ...] | None:
    return langchain_messages.state_messages(structure(span.attributes.get(f"{side}.value")).value)


def agent_name(span: Span) -> str | None:
    """The name of a graph is its agent's."""
    return langchain_messages.graph_name(span.name)


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place."""
    if facts["kind"] == "model":
        facts["response_id"] = langchain_messages.response_id(
            structure(span.attributes.get("output.value")).value
        )
    elif facts["kind"] == "tool":
        _open_arguments(facts)
        if facts.get("has_result"):
            _open_result(span, facts)


_KEYS = ("gen_ai.input.messages", "gen_ai.output.messages")
_CALLS = frozenset({"function_call", "tool_use"})
_THOUGHTS = frozenset({"reasoning", "thinking", "redacted_thinking"})
_PRINTED = re.compile(rf'\\"type\\": \\"(?:{"|".join(sorted(_CALLS | _THOUGHTS))})\\"')
"""How such a block looks, as JSON in a text in JSON."""


def opened_blocks(span: Span) -> Span:
    """The span without the calls that its messages repeat as text, and with thoughts as
    thoughts.
    """
    changed: dict[str, Any] = {}
    for key in _KEYS:
        recorded = span.attributes.get(key)
        if isinstance(recorded, str) and _PRINTED.search(recorded):
            messages = structure(recorded).value
            if isinstance(messages, list):
                changed[key] = dumps([_opened(x) for x in messages])
    return replace(span, attributes={**span.attributes, **changed}) if changed else span


def _opened(message: Any) -> Any:
    parts = as_object(message).get("parts")
    if not isinstance(parts, list) or message.get("role") != "assistant":
        return message
    called = [x.get("id") for x in parts if isinstance(x, dict) and x.get("type") == "tool_call"]
    found = list[Any]()
    for part in parts:
        block = _block(part)
        if block is None:
            found.append(part)
        elif block.get("type") in _THOUGHTS:
            found.append(block)
        elif block.get("call_id", block.get("id")) not in called:
            found.append(part)
    return {**message, "parts": found}


def _block(part: Any) -> dict[str, Any] | None:
    """The block that a part prints; None for any other part."""
    content = part.get("content") if isinstance(part, dict) and part.get("type") == "text" else None
    block = (
        structure(content).value if isinstance(content, str) and content.startswith("{") else None
    )
    kind = as_object(block).get("type")
    if isinstance(block, dict) and isinstance(kind, str) and kind in _CALLS | _THOUGHTS:
        return block
    return None


_SCOPE = "opentelemetry.instrumentation.langchain"

_TRACELOOP_JS_SCOPE = "@traceloop/instrumentation-langchain"

_GRAPH, _PARTS = "CompiledStateGraph", "Runnable"  # how the classes of a graph's parts begin
_MAX_GRAPHS = 100
_CLASSES = frozenset({"DynamicTool", "DynamicStructuredTool", "StructuredTool", "Tool"})
"""The names of tools that were made by a function; an application's own classes have specific
names.
"""


def complete_traceloop_js(span: Span, facts: Facts) -> None:
    """Which tool ran, the messages of a model call, and what a graph returned, for
    `refine_trace`.
    """
    attributes = span.attributes
    if attributes.get("gen_ai.operation.name") == "execute_tool":
        _complete_tool(attributes, facts)
    elif facts["kind"] == "workflow":
        _complete_workflow(span, facts)
    elif facts["kind"] == "model":
        if given := facts.get("input"):
            facts["input"] = tuple(map(_opened_message, given))
        # it calls tools, and calls are left out
        if facts.get("output") in ((Message("assistant", ""),), ()):
            facts["output"] = None


def _complete_workflow(span: Span, facts: Facts) -> None:
    """What a graph returned, which is an agent where it is a trace of its own; the runs of its
    parts are neither.
    """
    name = str(span.attributes.get("traceloop.workflow.name"))
    if name == _GRAPH:
        facts |= {
            "kind": "other" if span.parent_span_id else "agent",
            **NO_CONTENT,
            "agent_name": None,
        }
        given = span.attributes.get("traceloop.entity.input")
        returned = span.attributes.get("traceloop.entity.output")
        after = langchain_messages.state_messages(structure(returned).value)
        before = langchain_messages.state_messages(structure(given).value)
        facts["output"] = _added(after, before) or langchain_messages.after_question(after)
        if facts["kind"] == "agent":
            facts["input"] = before
    elif name.startswith(_PARTS):
        facts |= {"kind": "other", **NO_CONTENT}


def _added(
    after: tuple[Message, ...] | None, before: tuple[Message, ...] | None
) -> tuple[Message, ...] | None:
    """What a graph added to the conversation it was given: of a sub-agent, without its supervisor's
    messages.
    """
    # only a question, and its memory may begin with the same
    if not after or not before or before[-1].role == "user":
        return None
    return after[len(before) :] if after[: len(before)] == before else None


def _complete_tool(attributes: Attributes, facts: Facts) -> None:
    """Name and id of a call stand in its answer.

    One that failed has neither, and is read from the graph's messages.
    """
    given = structure(attributes.get("traceloop.entity.input")).value
    returned = structure(attributes.get("traceloop.entity.output")).value
    name, identity = _answered(returned)
    if name is None and facts.get("tool_name") not in _CLASSES:
        name = facts.get("tool_name") or text(attributes.get("traceloop.entity.name"))
    if name is None or name in _CLASSES:
        facts |= {"kind": "other", **NO_CONTENT}
        return
    facts |= {"kind": "tool", "tool_name": name, "call_id": identity, **NO_CONTENT}
    args = as_object(given).get("args")
    if isinstance(args, list) and len(args) == 1:
        value = opened(args[0], scalars=False)
        facts["arguments"] = value if isinstance(value, dict) else None
        facts["positional"] = () if isinstance(value, dict) else (value,)
    if returned is not None:
        answer = tool_output(returned, known=True)
        facts["result"] = opened(returned) if answer is None else answer.value
        facts["has_result"] = True
        facts["error"] = facts.get("error") or (None if answer is None else answer.error)


def _answered(returned: Any) -> tuple[str | None, str | None]:
    """The name of the tool and the id of the call that a ToolMessage answers."""
    fields = None
    if isinstance(returned, dict) and returned.get("type") == "constructor":
        fields = returned.get("kwargs")
    if not isinstance(fields, dict) or "tool_call_id" not in fields:
        return None, None
    return text(fields.get("name")), call_id(fields["tool_call_id"])


def refine_trace(steps: Sequence[Step]) -> list[Step]:
    """The steps, each model call with the answer that the graph around it in time returned; an
    inner graph is first.
    """
    graphs = sorted(filter(_is_graph, steps), key=lambda x: x.span.end_ns - x.span.start_ns)
    left = [x for x in steps if x.kind == "model" and x.span.scope.name == _TRACELOOP_JS_SCOPE]
    completed = dict[str, Step]()
    for graph in graphs[:_MAX_GRAPHS]:
        inside = [x for x in left if graph.span.start_ns <= x.span.start_ns <= graph.span.end_ns]
        answers = [x for x in graph.output or () if x.role == "assistant"]
        if len(inside) == len(answers) and all(map(_may_be, inside, answers)):
            found = _answered_calls(graph, inside, answers)
            completed |= found
            left = [x for x in left if x.span.span_id not in found]
    return [completed.get(x.span.span_id, x) for x in steps]


def _answered_calls(
    graph: Step, inside: Sequence[Step], answers: Sequence[Message]
) -> dict[str, Step]:
    """The model calls inside a graph by their span ids, each with its answer and the ids of the
    results before it.
    """
    results = _results_before_answers(graph.output or ())
    return {
        call.span.span_id: replace(call, output=(answer,), input=_with_ids(call.input, before))
        for call, answer, before in zip(inside, answers, results, strict=True)
    }


def _results_before_answers(messages: Sequence[Message]) -> list[list[Message]]:
    """For each answer of a graph's models, the messages of tools that came before it."""
    found = list[list[Message]]([[]])
    for each in messages:
        if each.role == "tool":
            found[-1].append(each)
        elif each.role == "assistant":
            found.append([])
    return found[:-1]


def _with_ids(
    given: tuple[Message, ...] | None, results: Sequence[Message]
) -> tuple[Message, ...] | None:
    """What a model was given, the last results as the graph has them: with the ids of their calls,
    and as errors.
    """
    count = len(results)
    if (
        not given
        or not count
        or {x.role for x in given[-count:]} != {"tool"}
        or given[-count - 1 :][0].role == "tool"
    ):
        return given
    return (*given[:-count], *results)


def _is_graph(step: Step) -> bool:
    return (
        step.span.scope.name == _TRACELOOP_JS_SCOPE
        and step.kind in {"agent", "other"}
        and bool(step.output)
    )


def _may_be(call: Step, answer: Message) -> bool:
    """Whether a model call may have given the answer: the same text, or none beside calls."""
    text = call.output[-1].text if call.output else ""
    return (text or "") == (answer.text or "")


def _opened_message(recorded: Message) -> Message:
    """The message with the text of the content blocks that were printed as its text; a tool's is a
    result.
    """
    found = blocks(recorded.text)
    read = (
        None if found is None else message({"role": recorded.role, "content": found}, recorded.role)
    )
    unblocked = recorded if read is None else replace(recorded, text=read.text)
    if unblocked.role != "tool" or unblocked.results or unblocked.text is None:
        return unblocked
    return replace(unblocked, text=None, results=(ToolResult(None, opened(unblocked.text)),))


_ASSOCIATION = "traceloop.association.properties."
_CALLBACK = frozenset({"inputs", "tags", "metadata", "kwargs"})
"""What a callback of LangChain's records beside `input_str`, the arguments as text."""


def place_openllmetry(span: Span, facts: Facts, outermost: bool) -> None:
    """Find whose step of LangChain's a span is: a task may be the run of an agent."""
    placed = langchain_messages.metadata(span.attributes, _ASSOCIATION)
    name = text(span.attributes.get("traceloop.entity.name"))
    if (
        facts["kind"] == "workflow"
        and name
        and langchain_messages.is_agent(name, placed, outermost=outermost)
    ):
        facts["kind"] = "agent"
    if facts["kind"] == "agent":
        facts["agent_name"] = langchain_messages.graph_name(facts.get("agent_name") or "") or None
    elif facts["kind"] in {"model", "tool"}:
        facts["agent_name"] = facts.get("agent_name") or langchain_messages.agent_name(placed)
        facts["input"] = langchain_messages.without_hand_back(facts.get("input"))


def complete_openllmetry(_span: Span, facts: Facts) -> None:
    """Open the arguments and the result of a tool, in place."""
    if facts["kind"] != "tool":
        return
    given = facts.get("arguments")
    if isinstance(given, dict) and not facts.get("positional"):
        _open_arguments_openllmetry(given, facts)
    if facts.get("has_result"):
        _open_result_openllmetry(facts)


def _open_arguments_openllmetry(given: dict[str, Any], facts: Facts) -> None:
    if given.keys() == {"inputs"} and isinstance(given["inputs"], dict):
        facts["arguments"] = given["inputs"]
        if is_call(given["inputs"]):
            read_arguments(given["inputs"], facts)
    elif "input_str" in given and _CALLBACK & given.keys():
        inputs = _inputs(given)
        facts["arguments"] = inputs if isinstance(inputs, dict) else None
        facts["positional"] = () if isinstance(inputs, dict) else (inputs,)


def _inputs(callback: dict[str, Any]) -> Json:
    """What a callback was given: the inputs as an object, else the value in their text."""
    inputs, printed = callback.get("inputs"), callback["input_str"]
    if isinstance(inputs, dict) or not isinstance(printed, str):
        return inputs
    value = opened(printed, scalars=False)
    return literal(printed) if value is printed and printed.startswith(REPR_CONTAINERS) else value


def _open_result_openllmetry(facts: Facts) -> None:
    value = facts["result"]
    if isinstance(value, dict) and value.keys() == {"output", "kwargs"}:
        value = opened(value["output"])
    answer = tool_output(value, known=True)
    if answer is not None:
        value, facts["call_id"] = answer.value, facts.get("call_id") or answer.call_id
        facts["error"] = facts["error"] or answer.error
    facts["result"] = value


def _open_arguments(facts: Facts) -> None:
    """Arguments that Python printed are an object all the same."""
    given: Any = facts.get("positional")
    printed = given[0] if given else None
    if isinstance(printed, str) and printed.startswith(REPR_CONTAINERS):
        value = literal(printed)
        if isinstance(value, dict):
            facts["arguments"], facts["positional"] = value, ()
        else:
            facts["positional"] = (value,)


def _open_result(span: Span, facts: Facts) -> None:
    value = facts["result"]
    if span.scope.name == _JAVASCRIPT and isinstance(value, dict) and value.keys() == {_ENVELOPE}:
        value = opened(value[_ENVELOPE])
    answer = tool_output(value, known=True)
    if answer is not None:
        value, facts["call_id"] = answer.value, facts["call_id"] or answer.call_id
        facts["error"] = facts["error"] or answer.error
    facts["result"] = value


def _attributes_of(bodies: Bodies) -> dict[str, Attributes]:
    """What a span's attributes would say, by its record: of model runs, tools, and the graph or
    chain around them, which is the last that ends.
    """
    produced = {
        span_id: next(
            (structure(x["content"]).value for x in listed(body, "output") if "content" in x), None
        )
        for span_id, body in bodies.items()
    }
    last = next(reversed(produced), None)
    found: dict[str, Attributes] = {}
    for span_id, value in produced.items():
        if not isinstance(value, dict):
            continue
        answer = tool_output(value, known=True)
        name = None if answer is None else text(fields_of(value)[0].get("name"))
        if isinstance(value.get("generations"), list):
            found[span_id] = {"openinference.span.kind": "LLM"}
        elif name is not None:
            found[span_id] = {"openinference.span.kind": "TOOL", "tool.name": name}
        elif span_id == last and langchain_messages.state_messages(value):
            found[span_id] = {"openinference.span.kind": "CHAIN"}
    return found


def _is_chain(attributes: Attributes) -> bool:
    return attributes.get("openinference.span.kind") == "CHAIN"


QUIRKS = (
    Quirk(
        "langchain",
        "openinference",
        (_PYTHON, _JAVASCRIPT),
        place=place,
        messages=messages,
        agent_name=agent_name,
        envelope=_ENVELOPE,
        complete=complete,
        log_turns=(record_turns(_PYTHON, _attributes_of, _is_chain),),
    ),
    Quirk(
        "langchain",
        "openllmetry",
        (_SCOPE,),
        claims_scopes=True,
        prepare=opened_blocks,
        place=place_openllmetry,
        complete=complete_openllmetry,
    ),
    Quirk(
        "langchain_js",
        "openllmetry",
        (_TRACELOOP_JS_SCOPE,),
        claims_scopes=True,
        complete=complete_traceloop_js,
        refine_trace=refine_trace,
    ),
)
