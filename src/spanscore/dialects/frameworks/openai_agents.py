"""OpenAI's Agents SDK under opentelemetry-instrumentation-openai-agents-v2: messages with Python
reprs for parts.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from spanscore.dialects import keys
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import OPENTELEMETRY, ContentSwitch, Context, Dialect, Quirk
from spanscore.dialects.forms.messages import message, messages
from spanscore.dialects.forms.structure import (
    Facts,
    Side,
    add_damaged,
    as_object,
    change_messages,
    evaluated,
    literal,
    opened_repr,
    structure,
)
from spanscore.model.span import LogRecord, Span, Value, changed
from spanscore.model.step import Message

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
        facts["input"] = tuple(with_texts(given, span.attributes.get(keys.INPUT_VALUE)))


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


_SCOPE = "opentelemetry.instrumentation.openai_agents"  # Traceloop's too
# this instrumentation writes both, Traceloop's one
_BOTH_NAMES = (keys.GEN_AI_SYSTEM, keys.GEN_AI_PROVIDER_NAME)
_SIDES: Final[tuple[tuple[Side, str, str], ...]] = (
    ("input", keys.GEN_AI_INPUT_MESSAGES, "user"),
    ("output", keys.GEN_AI_OUTPUT_MESSAGES, "assistant"),
)
# how it spells what it hides, and how that is spelled elsewhere
_HIDDEN, _REDACTED = "readacted", "[REDACTED]"
_CALL = "ResponseFunctionToolCall("
_TEXTS = ("output_text", "input_text", "text", "refusal")


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether the span has Traceloop's scope `opentelemetry.instrumentation.openai_agents` and both
    provider names.
    """
    if span.scope.name != _SCOPE or keys.TRACELOOP_SPAN_KIND in span.attributes:
        return False
    return all(x in span.attributes for x in _BOTH_NAMES)


def read(span: Span, context: Context) -> Facts:
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


QUIRKS = (
    Quirk(
        name="openai_agents",
        under="openinference",
        scopes=(_PYTHON,),
        place=place,
        agent_name=no_agent_name,
        omits_empty_arguments=True,
        complete=complete,
    ),
    Quirk(
        name="openai_agents_js",
        under="openinference",
        scopes=(_JAVASCRIPT,),
        place=place_javascript,
        complete=complete_javascript,
    ),
    Quirk(
        name="openai_agents",
        under="openllmetry",
        scopes=("opentelemetry.instrumentation.openai_agents",),
        complete=complete_openllmetry,
    ),
)

DIALECT = Dialect(
    "openai_agents",
    read,
    matches=matches,
    matching_scopes=(_SCOPE,),
    prefilters=(_SCOPE.encode(),),
    content=(ContentSwitch(OPENTELEMETRY),),
)
