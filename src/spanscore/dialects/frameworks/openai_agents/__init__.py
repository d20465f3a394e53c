"""OpenAI's Agents SDK under opentelemetry-instrumentation-openai-agents-v2: messages with Python
reprs for parts.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from spanscore.dialects.content_switch import OPENTELEMETRY, ContentSwitch
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.reprs import opened_repr
from spanscore.dialects.forms.structure import literal, structure
from spanscore.dialects.forms.values import Facts, Side, add_damaged
from spanscore.dialects.frameworks.openai_agents import openinference, openllmetry
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_INPUT_MESSAGES,
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_PROVIDER_NAME,
    GEN_AI_SYSTEM,
)
from spanscore.dialects.keys.openllmetry import TRACELOOP_SPAN_KIND
from spanscore.model.span import LogRecord, Span

_SCOPE = "opentelemetry.instrumentation.openai_agents"  # Traceloop's too
# this instrumentation writes both, Traceloop's one
_BOTH_NAMES = (GEN_AI_SYSTEM, GEN_AI_PROVIDER_NAME)
_SIDES: Final[tuple[tuple[Side, str, str], ...]] = (
    ("input", GEN_AI_INPUT_MESSAGES, "user"),
    ("output", GEN_AI_OUTPUT_MESSAGES, "assistant"),
)
# how it spells what it hides, and how that is spelled elsewhere
_HIDDEN, _REDACTED = "readacted", "[REDACTED]"
_CALL = "ResponseFunctionToolCall("
_TEXTS = ("output_text", "input_text", "text", "refusal")


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether the span has Traceloop's scope `opentelemetry.instrumentation.openai_agents` and both
    provider names.
    """
    if span.scope.name != _SCOPE or TRACELOOP_SPAN_KIND in span.attributes:
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
    parts = item.get("parts") if isinstance(item, dict) else None
    return (
        {**item, "parts": [y for x in parts for y in _parts(x)]}
        if isinstance(parts, list)
        else item
    )


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


QUIRKS = (*openinference.QUIRKS, *openllmetry.QUIRKS)

DIALECT = Dialect(
    "openai_agents",
    read,
    matches=matches,
    matching_scopes=(_SCOPE,),
    prefilters=(_SCOPE.encode(),),
    content=(ContentSwitch(OPENTELEMETRY),),
)
