"""What a dialect of another distribution is written with. These names stay; modules that begin with `_` may change."""

from spanscore.dialects._arguments import arguments, call_id, result, tools
from spanscore.dialects._base import Context, Dialect, Facts, count, first_count, first_text, text
from spanscore.dialects._content import ContentSwitch
from spanscore.dialects._identities import first_identity, identity
from spanscore.dialects._json import is_redacted, opened, structure
from spanscore.dialects._messages import Messages, message, messages, system_text
from spanscore.dialects._status import status_error
from spanscore.model.span import LogRecord, Span
from spanscore.model.step import Message, Step, ToolResult
from spanscore.model.trace import RequestedCall, Tool

__all__ = [
    "ContentSwitch",
    "Context",
    "Dialect",
    "Facts",
    "LogRecord",
    "Message",
    "Messages",
    "RequestedCall",
    "Span",
    "Step",
    "Tool",
    "ToolResult",
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
