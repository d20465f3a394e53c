"""Open LangChain's envelopes in the spans of OpenLLMetry for JavaScript, which names runs by their class.

Its model calls leave out the calls that they ask for, and all runs stand side by side. Only what a graph returned
contains the calls of its models.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import call_id
from spanscore.dialects.forms.envelopes import tool_output
from spanscore.dialects.forms.messages import blocks, message
from spanscore.dialects.forms.structure import opened, structure
from spanscore.dialects.forms.values import NO_CONTENT, Facts, text
from spanscore.dialects.keys.gen_ai import GEN_AI_OPERATION_NAME
from spanscore.dialects.keys.openllmetry import (
    TRACELOOP_ENTITY_INPUT,
    TRACELOOP_ENTITY_NAME,
    TRACELOOP_ENTITY_OUTPUT,
    TRACELOOP_WORKFLOW_NAME,
)
from spanscore.dialects.quirk import Quirk
from spanscore.model.span import Attributes, Span
from spanscore.model.step import Message, Step, ToolResult

_SCOPE = "@traceloop/instrumentation-langchain"

_GRAPH, _PARTS = "CompiledStateGraph", "Runnable"  # how the classes of a graph's parts begin
_MAX_GRAPHS = 100
_CLASSES = frozenset({"DynamicTool", "DynamicStructuredTool", "StructuredTool", "Tool"})
"""What tools are named that were made by a function; classes of an application's own have a name that says more."""


def complete(span: Span, facts: Facts) -> None:
    """Which tool ran, what a model call really says, and what a graph returned, for `refine_trace`."""
    attributes = span.attributes
    if attributes.get(GEN_AI_OPERATION_NAME) == "execute_tool":
        _complete_tool(attributes, facts)
    elif facts["kind"] == "workflow":
        _complete_workflow(span, facts)
    elif facts["kind"] == "model":
        if given := facts.get("input"):
            facts["input"] = tuple(map(_as_told, given))
        if facts.get("output") in ((Message("assistant", ""),), ()):  # it calls tools, and calls are left out
            facts["output"] = None


def _complete_workflow(span: Span, facts: Facts) -> None:
    """What a graph returned, which is an agent where it is a trace of its own; the runs of its parts are neither."""
    name = str(span.attributes.get(TRACELOOP_WORKFLOW_NAME))
    if name == _GRAPH:
        facts |= {"kind": "other" if span.parent_span_id else "agent", **NO_CONTENT, "agent_name": None}
        given, returned = (span.attributes.get(x) for x in (TRACELOOP_ENTITY_INPUT, TRACELOOP_ENTITY_OUTPUT))
        told, held = (langchain_messages.state_messages(structure(x).value) for x in (returned, given))
        facts["output"] = _added(told, held) or langchain_messages.after_question(told)
        if facts["kind"] == "agent":
            facts["input"] = held
    elif name.startswith(_PARTS):
        facts |= {"kind": "other", **NO_CONTENT}


def _added(told: tuple[Message, ...] | None, held: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """What a graph that was handed a conversation added to it: of a sub-agent, not what its supervisor said before."""
    if not told or not held or held[-1].role == "user":  # it was only asked, and its memory may begin with the same
        return None
    return told[len(held) :] if told[: len(held)] == held else None


def _complete_tool(attributes: Attributes, facts: Facts) -> None:
    """Name and id of a call stand in its answer. One that failed has neither, and is told by the graph's messages."""
    given = structure(attributes.get(TRACELOOP_ENTITY_INPUT)).value
    returned = structure(attributes.get(TRACELOOP_ENTITY_OUTPUT)).value
    name, identity = _answered(returned)
    if name is None and facts.get("tool_name") not in _CLASSES:
        name = facts.get("tool_name") or text(attributes.get(TRACELOOP_ENTITY_NAME))
    if name is None or name in _CLASSES:
        facts |= {"kind": "other", **NO_CONTENT}
        return
    facts |= {"kind": "tool", "tool_name": name, "call_id": identity, **NO_CONTENT}
    args = given.get("args") if isinstance(given, dict) else None
    if isinstance(args, list) and len(args) == 1:
        value = opened(args[0], scalars=False)
        facts["arguments"] = value if isinstance(value, dict) else None
        facts["positional"] = () if isinstance(value, dict) else (value,)
    if returned is not None:
        answer = tool_output(returned, known=True)
        facts["result"], facts["has_result"] = (opened(returned) if answer is None else answer.value), True
        facts["error"] = facts.get("error") or (None if answer is None else answer.error)


def _answered(returned: Any) -> tuple[str | None, str | None]:
    """The name of the tool and the id of the call that a ToolMessage answers."""
    fields = returned.get("kwargs") if isinstance(returned, dict) and returned.get("type") == "constructor" else None
    if not isinstance(fields, dict) or "tool_call_id" not in fields:
        return None, None
    return text(fields.get("name")), call_id(fields["tool_call_id"])


def refine_trace(steps: Sequence[Step]) -> list[Step]:
    """The steps, each model call with the answer that the graph around it in time returned; an inner graph is first."""
    graphs = sorted((x for x in steps if _is_graph(x)), key=lambda x: x.span.end_ns - x.span.start_ns)
    left = [x for x in steps if x.kind == "model" and x.span.scope.name == _SCOPE]
    completed = dict[str, Step]()
    for graph in graphs[:_MAX_GRAPHS]:
        inside = [x for x in left if graph.span.start_ns <= x.span.start_ns <= graph.span.end_ns]
        answers = [x for x in graph.output or () if x.role == "assistant"]
        if len(inside) == len(answers) and all(map(_may_be, inside, answers)):
            found = _answered_calls(graph, inside, answers)
            completed |= found
            left = [x for x in left if x.span.span_id not in found]
    return [completed.get(x.span.span_id, x) for x in steps]


def _answered_calls(graph: Step, inside: Sequence[Step], answers: Sequence[Message]) -> dict[str, Step]:
    """The model calls inside a graph by their span ids, each with its answer and the ids of the results before it."""
    results = _results_before_answers(graph.output or ())
    return {
        call.span.span_id: replace(call, output=(answer,), input=_with_ids(call.input, before))
        for call, answer, before in zip(inside, answers, results, strict=True)
    }


def _results_before_answers(told: Sequence[Message]) -> list[list[Message]]:
    """For each thing that a graph's models said, the messages of tools that came before it."""
    found = list[list[Message]]([[]])
    for said in told:
        if said.role == "tool":
            found[-1].append(said)
        elif said.role == "assistant":
            found.append([])
    return found[:-1]


def _with_ids(given: tuple[Message, ...] | None, results: Sequence[Message]) -> tuple[Message, ...] | None:
    """What a model was given, the last results as the graph has them: with the ids of their calls, and as errors."""
    count = len(results)
    if not given or not count or {x.role for x in given[-count:]} != {"tool"} or given[-count - 1 :][0].role == "tool":
        return given
    return (*given[:-count], *results)


def _is_graph(step: Step) -> bool:
    return step.span.scope.name == _SCOPE and step.kind in {"agent", "other"} and bool(step.output)


def _may_be(call: Step, answer: Message) -> bool:
    """Whether a model call may have given the answer: the same text, or none beside calls."""
    said = call.output[-1].text if call.output else ""
    return (said or "") == (answer.text or "")


def _as_told(told: Message) -> Message:
    """The message with the text of the content blocks that were printed as its text; a tool's is a result."""
    found = blocks(told.text)
    read = None if found is None else message({"role": told.role, "content": found}, told.role)
    said = told if read is None else replace(told, text=read.text)
    if said.role != "tool" or said.results or said.text is None:
        return said
    return replace(said, text=None, results=(ToolResult(None, opened(said.text)),))


QUIRKS = (
    Quirk(
        name="langchain_js",
        under="openllmetry",
        scopes=(_SCOPE,),
        claims_scopes=True,
        complete=complete,
        refine_trace=refine_trace,
    ),
)
