"""Open the objects in which providers and frameworks send a tool's result back to a model, where
they stand in the place of the result itself.
"""

from collections.abc import Mapping
from typing import Any

from spanscore.dialects.forms import bedrock_blocks
from spanscore.dialects.forms.arguments import failure, result
from spanscore.dialects.forms.envelopes import ToolOutput
from spanscore.model.json import Json

_AROUND = (
    *("toolResult", "tool_result", "toolResponse", "functionResponse", "function_response"),
    "tool_call_result",
)
"""Keys under which such an object may stand alone."""

_IDS = ("tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id", "ref", "id")
_VALUES = ("content", "output", "result", "response")
_BESIDE = frozenset(
    {
        *("type", "role", "name", "tool_name", "toolName", "status"),
        *("is_error", "isError", "tool_call_error", "part_kind", "timestamp", "origin"),
    }
)
_STATED = frozenset({"tool_result", "function_call_output"})
"""Types of messages that only a tool's result has."""

_ROLES = frozenset({"tool", "function"})
"""Roles that only a tool's result has, and types that also catalogues and code have."""

_OF_LANGCHAIN = frozenset({"additional_kwargs", "response_metadata", "tool_call_id"})
_OF_MESSAGES = (_BESIDE - {"timestamp", "origin"}).union(
    _OF_LANGCHAIN, ("content", "output", "cache_control", "artifact", "id")
)
_OF_RESULTS = frozenset({"content", "isError", "structuredContent", "_meta", "meta"})
_FAILED = frozenset({"error", "failed", "failure"})


def provider_answer(value: object, requested_id: str | None) -> ToolOutput | None:
    """The result in an object that answers the call `requested_id` and contains nothing else of a
    tool's own; None for any other value.

    >>> provider_answer({"type": "tool_result", "tool_use_id": "c1", "content": "4"}, "c1")
    ToolOutput(value=4, call_id='c1', error=None)
    >>> provider_answer({"toolUseId": "c1", "content": [{"text": "no"}], "status": "error"}, "c1")
    ToolOutput(value='no', call_id='c1', error='no')
    >>> provider_answer({"call_id": "c1", "output": "4", "price": 3}, "c1") is None
    True
    """
    fields = _inside(value)
    answered_id = named_call(fields)
    values = [x for x in _VALUES if x in fields]
    if requested_id is None or answered_id != requested_id or len(values) != 1:
        return None
    beside = {x for x in fields if x != "error" or not isinstance(fields[x], bool)}
    if not beside <= _BESIDE.union(_IDS, values):
        return None
    returned = _returned(fields[values[0]])
    return ToolOutput(returned, answered_id, failure(returned) if _has_failed(fields) else None)


def stated_answer(value: Json, tool_name: str | None) -> ToolOutput | None:
    """The result in an object that names no call and yet states to be a tool's result: by the role
    or type of a message to a model, or in the outline of Bedrock or MCP; None for any other value.

    Nothing of a tool's own may stand beside it, nor another tool's name. Bedrock's outline has no
    mark but its fields: a record of the tool's own with exactly these is opened too, and a status
    of error in it is the call's, since a failure that is lost is worse. MCP's result stays whole
    where its structured content is more than its text.

    >>> stated_answer({"role": "tool", "name": "add", "content": "4"}, "add")
    ToolOutput(value=4, call_id=None, error=None)
    >>> stated_answer({"content": [{"type": "text", "text": "no"}], "isError": True}, None)
    ToolOutput(value='no', call_id=None, error='no')
    >>> stated_answer({"status": "error", "content": [{"text": "no"}]}, None)
    ToolOutput(value='no', call_id=None, error='no')
    >>> stated_answer({"status": "error", "content": "disk full"}, None) is None
    True
    """
    fields = _inside(value)
    values = [x for x in ("content", "output") if x in fields]
    if len(values) != 1 or fields.get("name", tool_name) not in (None, tool_name):
        return None
    if not (_is_message(fields) or _is_result(fields, value)) or named_call(fields):
        return None
    returned = _returned(fields[values[0]])
    error = failure(returned) if _has_failed(fields) else None
    # FastMCP has what is no object under "result"
    is_whole = fields.get("structuredContent") in (None, returned, {"result": returned})
    return ToolOutput(returned if is_whole else value, None, error)


def _is_message(fields: Mapping[str, Any]) -> bool:
    """A message to a model with a tool's result, and nothing else in it."""
    role, kind = fields.get("role"), fields.get("type")
    if not fields.keys() <= _OF_MESSAGES or fields.get("status") not in (None, "success", "error"):
        return False
    if not all(isinstance(fields.get(x), str | None) for x in ("role", "type", *_IDS)):
        return False
    if role is not None:
        return role in _ROLES and (kind is None or kind in _ROLES | _STATED)
    return kind in _STATED or (kind in _ROLES and not _OF_LANGCHAIN.isdisjoint(fields))


def _is_result(fields: Mapping[str, Any], value: Json) -> bool:
    """A list of content blocks with a status, as Bedrock and MCP have it."""
    blocks = fields.get("content")
    if not isinstance(blocks, list):
        return False
    if fields.keys() == {"status", "content"}:
        # a list of such objects is what a tool found, even of one
        is_record = isinstance(value, list) and value[0] is fields
        return not is_record and _is_bedrock_result(fields["status"], blocks)
    has_blocks = bool(blocks) and all(isinstance(x, dict) for x in blocks)
    return has_blocks and isinstance(fields.get("isError"), bool) and fields.keys() <= _OF_RESULTS


def _is_bedrock_result(status: object, blocks: list[Any]) -> bool:
    """Whether there are only Bedrock's blocks; a failure may have none."""
    if not all(map(bedrock_blocks.is_block, blocks)):
        return False
    return status == "error" or (status == "success" and bool(blocks))


def named_call(value: object) -> str | None:
    """The id of the call that such an object names."""
    fields = _inside(value)
    origin = fields.get("origin")  # Haystack has the call's id there
    found = [fields.get(x) for x in _IDS]
    if isinstance(origin, dict):
        found.append(origin.get("id"))
    return next((x for x in found if isinstance(x, str) and x), None)


def _inside(value: object) -> Mapping[str, Any]:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return {}
    if len(value) == 1:
        inner = next((value[x] for x in _AROUND if x in value), value)
        return inner if isinstance(inner, dict) else {}
    return value


def _returned(value: Json) -> Json:
    """The content without Bedrock's blocks, which have no type, around it."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        block = value[0]
        if block.keys() == {"json"}:
            return block["json"]
        if block.keys() == {"text"}:
            return result(block["text"])
    return result(bedrock_blocks.content(value))


def _has_failed(fields: Mapping[str, Any]) -> bool:
    if any(fields.get(x) is True for x in ("is_error", "isError", "tool_call_error", "error")):
        return True
    if fields.get("part_kind") == "retry-prompt":  # of Pydantic AI
        return True
    status = fields.get("status")
    return isinstance(status, str) and status in _FAILED
