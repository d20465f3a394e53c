"""OpenTelemetry's GenAI semantic conventions, from 1.26's span events to today's message
attributes.

Content is looked for on the span, then in `operation.details` events, then in the events of one
message each; either kind of event comes as a span event or as a log record of the span, its payload
in the body or in the attributes.
"""

from collections.abc import Sequence

from spanscore.dialects.conventions.semconv.content_switches import SWITCHES
from spanscore.dialects.conventions.semconv.conversation import read_conversation
from spanscore.dialects.conventions.semconv.events import DETAILS, EVENTS, events_of, with_details
from spanscore.dialects.conventions.semconv.kinds import COUNTS, FUNCTIONS, kind_of
from spanscore.dialects.conventions.semconv.tool_calls import read_tool
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms import react_text
from spanscore.dialects.forms.ids import identity
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.forms.values import Facts, text
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_AGENT_NAME,
    GEN_AI_COMPLETION,
    GEN_AI_CONVERSATION_ID,
    GEN_AI_INPUT_MESSAGES,
    GEN_AI_OPERATION_NAME,
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_PROMPT,
    GEN_AI_PROVIDER_NAME,
    GEN_AI_REQUEST_MODEL,
    GEN_AI_RESPONSE_MODEL,
    GEN_AI_RETRIEVAL_DOCUMENTS,
    GEN_AI_RETRIEVAL_QUERY_TEXT,
    GEN_AI_SYSTEM,
    GEN_AI_TOOL_CALL_ID,
    GEN_AI_TOOL_NAME,
    MCP_METHOD_NAME,
)
from spanscore.dialects.keys.openinference import (
    LLM_INPUT_MESSAGES,
    LLM_INPUT_MESSAGES_0_MESSAGE_ROLE,
    LLM_MODEL_NAME,
)
from spanscore.dialects.keys.opentelemetry import USER_ID
from spanscore.model.span import Attributes, LogRecord, Span

__all__ = ["DETAILS", "DIALECT", "matches", "read"]

_CLAIMED = frozenset(
    {
        GEN_AI_OPERATION_NAME,
        GEN_AI_PROVIDER_NAME,
        GEN_AI_SYSTEM,
        GEN_AI_REQUEST_MODEL,
        GEN_AI_TOOL_NAME,
        GEN_AI_INPUT_MESSAGES,
        GEN_AI_OUTPUT_MESSAGES,
        MCP_METHOD_NAME,
    }
)

_BY_HAND = frozenset(
    {
        GEN_AI_PROMPT,
        GEN_AI_COMPLETION,
        GEN_AI_RESPONSE_MODEL,
        GEN_AI_TOOL_CALL_ID,
        LLM_MODEL_NAME,
        LLM_INPUT_MESSAGES,
        LLM_INPUT_MESSAGES_0_MESSAGE_ROLE,
        *COUNTS,
        *FUNCTIONS,
    }
)
"""What only people write without any of those, where no attribute was dropped."""


def matches(span: Span, logs: Sequence[LogRecord]) -> bool:
    """Whether the span has a GenAI attribute, or a message is in one of its events or was logged
    for it.
    """
    if not _CLAIMED.isdisjoint(span.attributes) or any(log.event_name in EVENTS for log in logs):
        return True
    if any(event.name in EVENTS for event in span.events):
        return True
    return not _BY_HAND.isdisjoint(span.attributes) and not span.dropped_attributes_count


def read(span: Span, context: Context) -> Facts:
    """The facts of a span in these conventions."""
    events = (
        [x for x in events_of(span, context) if x[0] in EVENTS]
        if span.events or context.logs
        else []
    )
    attributes = with_details(span.attributes, events) if events else span.attributes
    kind = kind_of(attributes, events, is_whole=not span.dropped_attributes_count)
    facts: Facts = {
        "kind": kind,
        "agent_name": text(attributes.get(GEN_AI_AGENT_NAME)),
        "session_id": identity(attributes.get(GEN_AI_CONVERSATION_ID)),
    }
    if events:
        facts["user_id"] = next(
            (x for x in (identity(payload.get(USER_ID)) for _, payload in events) if x), None
        )
    if kind == "tool":
        read_tool(span, attributes, events, facts)
    elif kind == "retrieval":
        _read_retrieval(attributes, facts)
    elif kind != "other":
        read_conversation(attributes, events, context.histories, facts)
        react_text.complete(facts)
    return facts


def _read_retrieval(attributes: Attributes, facts: Facts) -> None:
    facts["query"] = text(attributes.get(GEN_AI_RETRIEVAL_QUERY_TEXT))
    documents = structure(attributes.get(GEN_AI_RETRIEVAL_DOCUMENTS)).value
    facts["documents"] = tuple(documents) if isinstance(documents, list) else ()


DIALECT = Dialect(
    "semconv",
    read,
    matches=matches,
    prefilters=(
        b"gen_ai.",
        b"mcp.method.name",
        b"llm.model_name",
        b"llm.input_messages",
        b"llm.token_count",
        b"input.value",
        b"output.value",
    ),
    content=SWITCHES,
    by_hand=True,
)
