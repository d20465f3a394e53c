"""What a dialect of another distribution is written with. These names stay; those of other modules may change."""

from spanscore.dialects.content_switch import ContentSwitch
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms.arguments import arguments, call_id, result, tools
from spanscore.dialects.forms.ids import first_identity, identity
from spanscore.dialects.forms.messages import Messages, message, messages, system_text
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import is_redacted, opened, structure
from spanscore.dialects.forms.values import Facts, add_damaged, count, first_count, first_text, text
from spanscore.dialects.quirk import Items, Quirk
from spanscore.model.span import LogRecord, Span
from spanscore.model.step import Message, Step, StepKind, ToolResult
from spanscore.model.trace import RequestedCall, Tool

__all__ = [
    "ContentSwitch",
    "Context",
    "Dialect",
    "Facts",
    "Items",
    "LogRecord",
    "Message",
    "Messages",
    "Quirk",
    "RequestedCall",
    "Span",
    "Step",
    "StepKind",
    "Tool",
    "ToolResult",
    "add_damaged",
    "arguments",
    "call_id",
    "count",
    "first_count",
    "first_identity",
    "first_text",
    "identity",
    "is_redacted",
    "message",
    "messages",
    "opened",
    "result",
    "status_error",
    "structure",
    "system_text",
    "text",
    "tools",
]
