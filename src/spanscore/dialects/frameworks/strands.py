"""Strands Agents: the semantic conventions or OpenInference's, and Bedrock's content blocks."""

from collections.abc import Iterator, Mapping
from typing import Any

from spanscore.dialects import keys
from spanscore.dialects.conventions import openinference, semconv
from spanscore.dialects.conventions.adot import Bodies, listed, record_turns
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, Items, Quirk
from spanscore.dialects.forms import tool_results
from spanscore.dialects.forms.arguments import call_id, failure, tools
from spanscore.dialects.forms.attachments import is_attached
from spanscore.dialects.forms.messages import blocks, system_text
from spanscore.dialects.forms.structure import (
    Facts,
    as_object,
    change_messages,
    elements,
    opened,
    structure,
    text,
)
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span, changed
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import Tool

_SCOPE = "strands.telemetry.tracer"
_AGENT = "invoke_agent"
_CYCLES = frozenset({"event_loop.cycle_id", "agent_loop.cycle_id"})
# on each span, whose scope the SDK for TypeScript gives the service's name
_STARTED = keys.GEN_AI_EVENT_START_TIME


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans."""
    attributes = span.attributes
    if not _CYCLES.isdisjoint(attributes):
        return {"kind": "other"}  # repeats its model call and tools
    if keys.OPENINFERENCE_SPAN_KIND in attributes:
        facts = _read_processed(span, context)
    else:
        facts = semconv.read(span, context)
    change_messages(facts, _unblocked)
    if facts["kind"] == "agent":
        _read_agent(span, facts)
    elif facts["kind"] == "tool" and facts["tool_name"] is not None:
        schema = opened(attributes.get(keys.GEN_AI_TOOL_JSON_SCHEMA))
        facts["tools"] = (
            Tool(facts["tool_name"], text(attributes.get(keys.GEN_AI_TOOL_DESCRIPTION)), schema),
        )
        if facts.get("has_result"):
            facts["result"] = _value(facts["result"])
    # a swarm or graph: its first agent is given a prompt around the question
    elif facts["kind"] == "workflow":
        questions = [x.text for x in facts.get("input") or () if x.role == "user" and x.text]
        facts["input_text"] = questions[-1] if questions else None
    return facts


def _read_processed(span: Span, context: Context) -> Facts:
    """The facts of a span that OpenInference's span processor rewrote: the events are gone, and of
    the tools on offer only the names are the agent's.
    """
    facts = openinference.read(span, changed(context, quirk=_PROCESSED))
    reason = text(span.attributes.get(_FINISH_REASON))
    facts["finish_reasons"] = (reason,) if reason else ()
    if facts["kind"] == "agent":
        facts["tools"] = tools(span.attributes.get(keys.GEN_AI_AGENT_TOOLS))
    return facts


def _with_attachments(_span: Span, items: Items) -> Items:
    """The messages, with the blocks of pictures and files that the processor prints as text."""
    for item in items:
        for part in map(as_object, elements(item.get("contents"))):
            block = opened(as_object(part.get("message_content")).get("text"), scalars=False)
            if isinstance(block, dict) and len(block) == 1 and is_attached(block):
                part["message_content"] = block
    return items


_FINISH_REASON = f"{keys.LLM_OUTPUT_MESSAGES_PREFIX}0.message.finish_reason"
_PROCESSED = Quirk(
    name="strands",
    under="openinference",
    items=_with_attachments,
    agent_name=lambda span: text(span.attributes.get(keys.GEN_AI_AGENT_NAME)),
)


def _unblocked(message: Message) -> Message:
    """A message with its results as a tool's span has them."""
    if not any(isinstance(x.value, (list, dict)) for x in message.results):
        return message
    return changed(message, results=tuple(map(_unblocked_result, message.results)))


def _unblocked_result(result: ToolResult) -> ToolResult:
    value = _value(result.value)
    return changed(result, value=value, error=None if result.error is None else failure(value))


def _value(returned: Json) -> Json:
    """What a tool returned, out of Bedrock's blocks.

    A block has to be an object, so the SDK for TypeScript puts a list into one.
    """
    value = tool_results.content_of_blocks(returned)
    return value["$value"] if isinstance(value, dict) and value.keys() == {"$value"} else value


def _read_agent(span: Span, facts: Facts) -> None:
    """The agent's tools by name; its answer, where each text is followed by the end of its line;
    older: its prompt.
    """
    facts["system"] = facts.get("system") or _prompt(span)
    # its output is then the questions that somebody has to answer, printed
    if _is_interrupted(span, facts):
        facts["output"] = facts["output_text"] = None
    elif produced := facts.get("output"):
        facts["output"] = tuple(
            changed(x, text=x.text and x.text.removesuffix("\n")) for x in produced
        )
    elif answer := facts.get("output_text"):
        facts["output_text"] = answer.removesuffix("\n")


def _is_interrupted(span: Span, facts: Facts) -> bool:
    """Whether the run was interrupted until its questions are answered: as an event records it, or
    a message of one.
    """
    chosen = (
        x.attributes.get("finish_reason") for x in span.events if x.name == keys.GEN_AI_CHOICE
    )
    return "interrupt" in (*chosen, *facts.get("finish_reasons", ()))


def _prompt(span: Span) -> str | None:
    """The agent's instructions as they are, or as the SDK for TypeScript prints them: text or
    blocks as JSON.
    """
    recorded = text(span.attributes.get("system_prompt"))
    prompt = recorded
    if recorded is not None and recorded.startswith(('"', "[{")):
        prompt = structure(recorded).value
    return recorded if isinstance(prompt, str) and prompt is recorded else system_text(prompt)[0]


def _attributes_of(bodies: Bodies) -> dict[str, Attributes]:
    """What a span's attributes would say, by its record; an event loop's cycle repeats the others,
    and has none.
    """
    names = {
        use.get("toolUseId"): use.get("name") for body in bodies.values() for use in _uses(body)
    }
    found: dict[str, Attributes] = {}
    for span_id, body in bodies.items():
        called = _called(body)
        operation = None if called else _operation(body)
        if called and isinstance(names.get(called), str):
            found[span_id] = {
                keys.GEN_AI_OPERATION_NAME: "execute_tool",
                keys.GEN_AI_TOOL_NAME: names[called],
                keys.GEN_AI_TOOL_CALL_ID: called,
            }
        elif operation:
            found[span_id] = {keys.GEN_AI_OPERATION_NAME: operation}
    return found


def _uses(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The calls that a model requested."""
    for answer in _answers(body):
        for block in blocks(answer.get("message")) or ():
            use = block.get("toolUse")
            if isinstance(use, dict) and isinstance(use.get("toolUseId"), str):
                yield use


def _answers(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a span ended with, without the answers before it."""
    contents = [x.get("content") for x in listed(body, "output")]
    return [x for x in contents if isinstance(x, dict) and "message" in x]


def _called(body: Mapping[str, Any]) -> str | None:
    """The id of the call that a tool's record is about: its arguments stand for a tool's
    message.
    """
    given = listed(body, "input")
    content = given[0].get("content") if len(given) == 1 and given[0]["role"] == "tool" else None
    return call_id(as_object(content).get("id"))


def _operation(body: Mapping[str, Any]) -> str | None:
    """The operation whose answer has a reason to end: a model's is blocks, an agent's is text."""
    answer = next((x for x in _answers(body) if "finish_reason" in x), None)
    if answer is None:
        return None
    return "chat" if blocks(answer["message"]) else _AGENT


def _is_agent(attributes: Attributes) -> bool:
    return attributes.get(keys.GEN_AI_OPERATION_NAME) == _AGENT


DIALECT = Dialect(
    "strands",
    read,
    scopes=(_SCOPE,),
    keys=(_STARTED,),
    prefilters=(b"strands.telemetry", b"gen_ai."),
    log_turns=(record_turns(_SCOPE, _attributes_of, _is_agent),),
    content=(
        ContentSwitch("leave gen_ai_unredacted_attributes out of OTEL_SEMCONV_STABILITY_OPT_IN"),
    ),
)
