"""Agent SDKs of OpenAI and AWS.

`openai_agents`: OpenAI's Agents SDK under opentelemetry-instrumentation-openai-agents-v2: messages
with Python reprs for parts.

`strands`: Strands Agents: the semantic conventions or OpenInference's, and Bedrock's content
blocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spanscore.dialects.conventions import openinference, semconv
from spanscore.dialects.conventions.adot import Bodies, listed, record_turns
from spanscore.dialects.dialect import OPENTELEMETRY, ContentSwitch, Context, Dialect, Items, Quirk
from spanscore.dialects.forms import tool_results
from spanscore.dialects.forms.arguments import call_id, failure, tools
from spanscore.dialects.forms.attachments import is_attached
from spanscore.dialects.forms.messages import blocks, message, messages, system_text
from spanscore.dialects.forms.structure import (
    Facts,
    Side,
    add_damaged,
    as_object,
    change_messages,
    elements,
    evaluated,
    literal,
    opened,
    opened_repr,
    structure,
    text,
)
from spanscore.model.json import Json
from spanscore.model.span import Attributes, LogRecord, Span, Value, changed
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import Tool

_PYTHON = "openinference.instrumentation.openai_agents"
_JAVASCRIPT = "@arizeai/openinference-instrumentation-openai-agents"
_HAND_OFF, _LIST_OF_TOOLS = "handoff to ", "mcp_tools"
_CALLED = frozenset({"tool", "model"})


def place(span: Span, facts: Facts, _outermost: bool) -> None:
    """A hand-off is no tool, though a model requests it by a tool's name."""
    if facts["kind"] in _CALLED and span.name.startswith(_HAND_OFF):
        facts["kind"] = "other"


def place_javascript(span: Span, facts: Facts, _outermost: bool) -> None:
    """The list of tools that was requested from an MCP server is no call either."""
    place(span, facts, _outermost)
    if facts["kind"] in _CALLED and span.name == _LIST_OF_TOOLS:
        facts["kind"] = "other"


def no_agent_name(_span: Span) -> None:
    """The outermost span of the SDK has the name of a workflow, and no agent's."""


def complete(_span: Span, facts: Facts) -> None:
    """Open the result of a tool, in place, of which str() made text."""
    if facts["kind"] == "tool" and facts.get("has_result"):
        facts["result"] = evaluated(facts["result"])


def complete_openllmetry(_span: Span, facts: Facts) -> None:
    """Open the results in messages, and that of a tool, in place."""
    change_messages(facts, _with_results)
    if facts["kind"] == "tool" and facts.get("has_result"):
        facts["result"] = evaluated(facts["result"])


def _with_results(printed: Message) -> Message:
    return changed(
        printed, results=tuple(changed(x, value=evaluated(x.value)) for x in printed.results)
    )


def complete_javascript(span: Span, facts: Facts) -> None:
    """Complete the messages that a model was given, in place."""
    if facts["kind"] == "model" and (given := facts.get("input")):
        facts["input"] = tuple(with_texts(given, span.attributes.get("input.value")))


def with_texts(flat: Sequence[Message], request: Value) -> Sequence[Message]:
    """The flattened messages of a request, with the agent's earlier texts, which only the request
    itself contains.

    Both list the same items; the flattened ones may have a system message before them.
    """
    if all(not _is_bare(x) for x in flat):
        return flat
    items = structure(request).value
    before = len(flat) - len(items) if isinstance(items, list) else -1
    if before not in {0, 1}:
        return flat
    return [
        *flat[:before],
        *(_filled(x, item) for x, item in zip(flat[before:], items, strict=True)),
    ]


def _is_bare(message: Message) -> bool:
    return message.role == "assistant" and message.text is None and not message.calls


def _filled(flat: Message, item: Any) -> Message:
    complete = message(item, "assistant") if _is_bare(flat) else None
    if complete is None:
        return flat
    return changed(flat, text=complete.text, reasoning=complete.reasoning)


_OPENAI_AGENTS_SCOPE = "opentelemetry.instrumentation.openai_agents"  # Traceloop's too
# this instrumentation writes both, Traceloop's one
_BOTH_NAMES = ("gen_ai.system", "gen_ai.provider.name")
_SIDES: Final[tuple[tuple[Side, str, str], ...]] = (
    ("input", "gen_ai.input.messages", "user"),
    ("output", "gen_ai.output.messages", "assistant"),
)
# how it spells what it hides, and how that is spelled elsewhere
_HIDDEN, _REDACTED = "readacted", "[REDACTED]"
_CALL = "ResponseFunctionToolCall("
_TEXTS = ("output_text", "input_text", "text", "refusal")


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether the span has Traceloop's scope `opentelemetry.instrumentation.openai_agents` and both
    provider names.
    """
    if span.scope.name != _OPENAI_AGENTS_SCOPE or "traceloop.span.kind" in span.attributes:
        return False
    return all(x in span.attributes for x in _BOTH_NAMES)


def read_openai_agents(span: Span, context: Context) -> Facts:
    """The facts of one of its spans.

    Only an agent's own span has the agent's name: others have a default.
    """
    facts = semconv.read(span, context)
    if facts["kind"] != "agent":
        facts["agent_name"] = None
    if facts["kind"] in {"agent", "model"}:
        for fact, key, role in _SIDES:
            parsed = structure(span.attributes.get(key)).value
            if isinstance(parsed, list):
                found = messages([_opened(x) for x in parsed], role)
                facts[fact] = found.messages
                if found.damaged:
                    add_damaged(facts, fact)
    return facts


def _opened(item: Any) -> Any:
    """A message, each of its parts as what it was before it was printed."""
    parts = as_object(item).get("parts")
    if isinstance(parts, list):
        return {**item, "parts": [y for x in parts for y in _parts(x)]}
    return item


def _parts(part: Any) -> Iterator[Any]:
    content = part.get("content") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(content, str):
        yield part
    elif content == _HIDDEN:
        yield {**part, "content": _REDACTED}
    elif content.startswith(_CALL):
        call = opened_repr(content)
        yield call if isinstance(call, dict) and "name" in call else part
    elif content.startswith("{'"):
        yield from _of_item(literal(content), part)
    elif not content.startswith(("ResponseReasoningItem(", "ResponseOutputMessage(")):
        yield part


def _of_item(item: Any, part: Any) -> Iterator[Any]:
    """What an item of a conversation stands for; `part` itself where it is none that the SDK
    knows.
    """
    if not isinstance(item, dict):
        yield part
    elif item.get("type") in _TEXTS and isinstance(item.get("text"), str):
        yield {"type": "text", "content": item["text"]}
    elif item.get("type") in ("function_call", "function_call_output"):
        yield item
    # of a stream of chat completions
    elif item.get("object") == "response" and isinstance(item.get("output"), list):
        yield from item["output"]
    elif item.get("role") == "assistant" and isinstance(item.get("tool_calls"), list):
        yield from ({**x, "type": "tool_call"} for x in item["tool_calls"] if isinstance(x, dict))
    else:
        yield part


_OPENAI_AGENTS = Dialect(
    "openai_agents",
    read_openai_agents,
    matches=matches,
    matching_scopes=(_OPENAI_AGENTS_SCOPE,),
    prefilters=(_OPENAI_AGENTS_SCOPE.encode(),),
    content=(ContentSwitch(OPENTELEMETRY),),
)


_STRANDS_SCOPE = "strands.telemetry.tracer"
_AGENT = "invoke_agent"
_CYCLES = frozenset({"event_loop.cycle_id", "agent_loop.cycle_id"})
# on each span, whose scope the SDK for TypeScript gives the service's name
_STARTED = "gen_ai.event.start_time"


def read_strands(span: Span, context: Context) -> Facts:
    """The facts of one of its spans."""
    attributes = span.attributes
    if not _CYCLES.isdisjoint(attributes):
        return {"kind": "other"}  # repeats its model call and tools
    if "openinference.span.kind" in attributes:
        facts = _read_processed(span, context)
    else:
        facts = semconv.read(span, context)
    change_messages(facts, _unblocked)
    if facts["kind"] == "agent":
        _read_agent(span, facts)
    elif facts["kind"] == "tool" and facts["tool_name"] is not None:
        schema = opened(attributes.get("gen_ai.tool.json_schema"))
        facts["tools"] = (
            Tool(facts["tool_name"], text(attributes.get("gen_ai.tool.description")), schema),
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
        facts["tools"] = tools(span.attributes.get("gen_ai.agent.tools"))
    return facts


def _with_attachments(_span: Span, items: Items) -> Items:
    """The messages, with the blocks of pictures and files that the processor prints as text."""
    for item in items:
        for part in map(as_object, elements(item.get("contents"))):
            block = opened(as_object(part.get("message_content")).get("text"), scalars=False)
            if isinstance(block, dict) and len(block) == 1 and is_attached(block):
                part["message_content"] = block
    return items


_FINISH_REASON = "llm.output_messages.0.message.finish_reason"
_PROCESSED = Quirk(
    "strands",
    "openinference",
    items=_with_attachments,
    agent_name=lambda span: text(span.attributes.get("gen_ai.agent.name")),
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
    chosen = (x.attributes.get("finish_reason") for x in span.events if x.name == "gen_ai.choice")
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
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": names[called],
                "gen_ai.tool.call.id": called,
            }
        elif operation:
            found[span_id] = {"gen_ai.operation.name": operation}
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
    return attributes.get("gen_ai.operation.name") == _AGENT


_STRANDS = Dialect(
    "strands",
    read_strands,
    scopes=(_STRANDS_SCOPE,),
    keys=(_STARTED,),
    prefilters=(b"strands.telemetry", b"gen_ai."),
    log_turns=(record_turns(_STRANDS_SCOPE, _attributes_of, _is_agent),),
    content=(
        ContentSwitch("leave gen_ai_unredacted_attributes out of OTEL_SEMCONV_STABILITY_OPT_IN"),
    ),
)


DIALECTS = (_OPENAI_AGENTS, _STRANDS)
QUIRKS = (
    Quirk(
        "openai_agents",
        "openinference",
        (_PYTHON,),
        place=place,
        agent_name=no_agent_name,
        omits_empty_arguments=True,
        complete=complete,
    ),
    Quirk(
        "openai_agents_js",
        "openinference",
        (_JAVASCRIPT,),
        place=place_javascript,
        complete=complete_javascript,
    ),
    Quirk(
        "openai_agents",
        "openllmetry",
        ("opentelemetry.instrumentation.openai_agents",),
        complete=complete_openllmetry,
    ),
)
