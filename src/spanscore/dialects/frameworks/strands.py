"""Strands Agents: the semantic conventions, and Bedrock's content blocks in what tools returned."""

from dataclasses import replace

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms import bedrock_blocks
from spanscore.dialects.forms.arguments import failure
from spanscore.dialects.forms.messages import system_text
from spanscore.dialects.forms.structure import opened, structure
from spanscore.dialects.forms.values import Facts, change_messages, text
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_CHOICE,
    GEN_AI_EVENT_START_TIME,
    GEN_AI_TOOL_DESCRIPTION,
    GEN_AI_TOOL_JSON_SCHEMA,
)
from spanscore.model.json import Json
from spanscore.model.span import Span
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import Tool

_CYCLES = frozenset({"event_loop.cycle_id", "agent_loop.cycle_id"})
# on each span, whose scope the SDK for TypeScript gives the service's name
_STARTED = GEN_AI_EVENT_START_TIME


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans."""
    attributes = span.attributes
    if not _CYCLES.isdisjoint(attributes):
        return {"kind": "other"}  # repeats its model call and tools
    facts = semconv.read(span, context)
    change_messages(facts, _unblocked)
    if facts["kind"] == "agent":
        _read_agent(span, facts)
    elif facts["kind"] == "tool" and facts["tool_name"] is not None:
        schema = opened(attributes.get(GEN_AI_TOOL_JSON_SCHEMA))
        facts["tools"] = (
            Tool(facts["tool_name"], text(attributes.get(GEN_AI_TOOL_DESCRIPTION)), schema),
        )
        if facts.get("has_result"):
            facts["result"] = _value(facts["result"])
    # a swarm or graph: its first agent is given a prompt around the question
    elif facts["kind"] == "workflow":
        questions = [x.text for x in facts.get("input") or () if x.role == "user" and x.text]
        facts["input_text"] = questions[-1] if questions else None
    return facts


def _unblocked(message: Message) -> Message:
    """A message with its results as a tool's span has them."""
    if not any(isinstance(x.value, (list, dict)) for x in message.results):
        return message
    return replace(message, results=tuple(map(_unblocked_result, message.results)))


def _unblocked_result(result: ToolResult) -> ToolResult:
    value = _value(result.value)
    return replace(result, value=value, error=None if result.error is None else failure(value))


def _value(returned: Json) -> Json:
    """What a tool returned, out of Bedrock's blocks.

    A block has to be an object, so the SDK for TypeScript puts a list into one.
    """
    value = bedrock_blocks.content(returned)
    return value["$value"] if isinstance(value, dict) and value.keys() == {"$value"} else value


def _read_agent(span: Span, facts: Facts) -> None:
    """The agent's tools by name; its answer, where each text is followed by the end of its line;
    older: its prompt.
    """
    facts["system"] = facts.get("system") or _prompt(span)
    # its output is then the questions that somebody has to answer, printed
    if _is_interrupted(span, facts):
        facts["output"] = None
    elif produced := facts.get("output"):
        facts["output"] = tuple(
            replace(x, text=x.text and x.text.removesuffix("\n")) for x in produced
        )


def _is_interrupted(span: Span, facts: Facts) -> bool:
    """Whether the run was interrupted until its questions are answered: as an event records it, or
    a message of one.
    """
    chosen = (x.attributes.get("finish_reason") for x in span.events if x.name == GEN_AI_CHOICE)
    return "interrupt" in (*chosen, *facts.get("finish_reasons", ()))


def _prompt(span: Span) -> str | None:
    """The agent's instructions as they are, or as the SDK for TypeScript prints them: text or
    blocks as JSON.
    """
    recorded = text(span.attributes.get("system_prompt"))
    prompt = (
        structure(recorded).value
        if recorded is not None and recorded.startswith(('"', "[{"))
        else recorded
    )
    return recorded if isinstance(prompt, str) and prompt is recorded else system_text(prompt)[0]


DIALECT = Dialect(
    "strands",
    read,
    scopes=("strands.telemetry.tracer",),
    keys=(_STARTED,),
    prefilters=(b"strands.telemetry", b"gen_ai."),
)
