"""Open LangChain's envelopes in the spans of OpenLLMetry for JavaScript, which names runs by their
class.

Its model calls leave out the calls that they ask for, and all runs stand side by side. Only what a
graph returned contains the calls of its models.
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
"""The names of tools that were made by a function; an application's own classes have specific
names.
"""


def complete(span: Span, facts: Facts) -> None:
    """Which tool ran, the messages of a model call, and what a graph returned, for
    `refine_trace`.
    """
    attributes = span.attributes
    if attributes.get(GEN_AI_OPERATION_NAME) == "execute_tool":
        _complete_tool(attributes, facts)
    elif facts["kind"] == "workflow":
        _complete_workflow(span, facts)
    elif facts["kind"] == "model":
        if given := facts.get("input"):
            facts["input"] = tuple(map(_opened, given))
        # it calls tools, and calls are left out
        if facts.get("output") in ((Message("assistant", ""),), ()):
            facts["output"] = None


def _complete_workflow(span: Span, facts: Facts) -> None:
    """What a graph returned, which is an agent where it is a trace of its own; the runs of its
    parts are neither.
    """
    name = str(span.attributes.get(TRACELOOP_WORKFLOW_NAME))
    if name == _GRAPH:
        facts |= {
            "kind": "other" if span.parent_span_id else "agent",
            **NO_CONTENT,
            "agent_name": None,
        }
        given, returned = (
            span.attributes.get(x) for x in (TRACELOOP_ENTITY_INPUT, TRACELOOP_ENTITY_OUTPUT)
        )
        after, before = (
            langchain_messages.state_messages(structure(x).value) for x in (returned, given)
        )
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
        facts["result"], facts["has_result"] = (
            (opened(returned) if answer is None else answer.value),
            True,
        )
        facts["error"] = facts.get("error") or (None if answer is None else answer.error)


def _answered(returned: Any) -> tuple[str | None, str | None]:
    """The name of the tool and the id of the call that a ToolMessage answers."""
    fields = (
        returned.get("kwargs")
        if isinstance(returned, dict) and returned.get("type") == "constructor"
        else None
    )
    if not isinstance(fields, dict) or "tool_call_id" not in fields:
        return None, None
    return text(fields.get("name")), call_id(fields["tool_call_id"])


def refine_trace(steps: Sequence[Step]) -> list[Step]:
    """The steps, each model call with the answer that the graph around it in time returned; an
    inner graph is first.
    """
    graphs = sorted(filter(_is_graph, steps), key=lambda x: x.span.end_ns - x.span.start_ns)
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
    return step.span.scope.name == _SCOPE and step.kind in {"agent", "other"} and bool(step.output)


def _may_be(call: Step, answer: Message) -> bool:
    """Whether a model call may have given the answer: the same text, or none beside calls."""
    text = call.output[-1].text if call.output else ""
    return (text or "") == (answer.text or "")


def _opened(recorded: Message) -> Message:
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
