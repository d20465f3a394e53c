"""The public toolkit for dialects of other distributions.

These names stay; those of other modules may change.
"""

from spanscore.dialects.conventions.semconv import read as read_conventions
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, IgnoredSpans, Items, Quirk
from spanscore.dialects.forms.arguments import arguments, call_id, result, tools
from spanscore.dialects.forms.decorated_calls import (
    cut,
    damaged,
    read_call,
    read_function,
    read_result,
    recorded,
)
from spanscore.dialects.forms.messages import Messages, message, messages, system_text
from spanscore.dialects.forms.provider_bodies import conversation, offered, system_of
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    Parsed,
    Side,
    add_damaged,
    change_messages,
    count,
    first_count,
    first_identity,
    first_text,
    first_value,
    identity,
    is_redacted,
    opened,
    structure,
    text,
)
from spanscore.dialects.log_turns import (
    LogTurns,
    Part,
    Unit,
    around,
    from_prompts,
    in_order,
    name_of,
    prompt_turns,
    read_prompt,
    read_resource,
    span_of,
    under,
)
from spanscore.model.span import LogRecord, Span
from spanscore.model.step import Message, Step, StepKind, ToolResult
from spanscore.model.trace import RequestedCall, Tool

__all__ = [
    "ContentSwitch",
    "Context",
    "Dialect",
    "Facts",
    "IgnoredSpans",
    "Items",
    "LogRecord",
    "LogTurns",
    "Message",
    "Messages",
    "Parsed",
    "Part",
    "Quirk",
    "RequestedCall",
    "Side",
    "Span",
    "Step",
    "StepKind",
    "Tool",
    "ToolResult",
    "Unit",
    "add_damaged",
    "arguments",
    "around",
    "call_id",
    "change_messages",
    "conversation",
    "count",
    "cut",
    "damaged",
    "first_count",
    "first_identity",
    "first_text",
    "first_value",
    "from_prompts",
    "identity",
    "in_order",
    "is_redacted",
    "message",
    "messages",
    "name_of",
    "offered",
    "opened",
    "prompt_turns",
    "read_call",
    "read_conventions",
    "read_function",
    "read_prompt",
    "read_resource",
    "read_result",
    "recorded",
    "result",
    "span_of",
    "status_error",
    "structure",
    "system_of",
    "system_text",
    "text",
    "tools",
    "under",
]
