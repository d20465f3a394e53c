"""Envelopes around a tool's result."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

from spanscore.dialects.forms.arguments import call_id, failure, result
from spanscore.dialects.forms.structure import as_list, as_object, literal, opened
from spanscore.model.json import Json, printed

_COMMAND = {"graph", "update", "resume", "goto"}
_TOOL_MESSAGES = frozenset({"tool", "ToolMessage"})
_ONLY_LANGCHAINS = frozenset({"additional_kwargs", "response_metadata", "artifact"})
"""Fields that every message has, or a ToolMessage, when it is written without the class's name
around it.
"""

_OUTPUTS = frozenset({"text", "json", "content", "error-text", "error-json"})
"""The types that AI SDK records with a result's value, from its version 5 on."""


class ToolOutput(NamedTuple):
    """The content of a ToolMessage: the result, the id of the call it answers, and the error it
    states.
    """

    value: Json
    call_id: str | None
    error: str | None


def tool_output(value: object, *, known: bool = False) -> ToolOutput | None:
    """The content of a ToolMessage, in any of the forms LangChain serializes it to; None for what
    is none.

    A tool that hands over or changes a graph's state returns a Command with the ToolMessage among
    its messages. Where it is not `known` that a framework made the object, one with the fields of
    any tool message is the tool's own.

    >>> tool_output({"kwargs": {"content": "4", "tool_call_id": "c1"}})
    ToolOutput(value=4, call_id='c1', error=None)
    """
    if not isinstance(value, dict):
        return None
    if value.keys() == {"output"} and isinstance(value["output"], dict):
        value = value["output"]
    if value.keys() == _COMMAND:
        return _command_output(value["update"])
    fields, kind = fields_of(value)
    if "content" not in fields or "tool_call_id" not in fields:
        return None
    if not _is_tool_message(fields, kind, known=known or fields is not value):
        return None
    content = result(fields["content"])
    error = failure(content) if fields.get("status") == "error" else None
    return ToolOutput(content, call_id(fields["tool_call_id"]), error)


def _command_output(update: object) -> ToolOutput | None:
    """The last ToolMessage in what a Command changes."""
    listed = as_object(update).get("messages")
    for item in reversed(listed) if isinstance(listed, list) else ():
        answer = tool_output(item, known=True)
        if answer is not None:
            return answer
    return None


def _is_tool_message(fields: Mapping[str, Any], kind: object, *, known: bool) -> bool:
    """Whether LangChain made an object: it is `known`, or has a field that only LangChain writes
    beside its type.
    """
    if known:
        return kind in _TOOL_MESSAGES or not kind
    return kind in _TOOL_MESSAGES and not _ONLY_LANGCHAINS.isdisjoint(fields)


def answering(value: object, requested_id: str | None) -> ToolOutput | None:
    """The content of a tool message in the place of the result of the call `requested_id`; None for
    any result.

    That it names this very call distinguishes it from an object of the tool's own.
    """
    found = tool_output(value, known=True)
    if found is None or (requested_id is not None and found.call_id == requested_id):
        return found
    return tool_output(value)


def sdk_output(value: Json) -> tuple[Json, str | None]:
    """A result out of AI SDK's `{"type": …, "value": …}`, and the error that it states; any other
    value as it is.

    >>> (
    ...     sdk_output({"type": "json", "value": {"left": 4}}),
    ...     sdk_output({"type": "error-text", "value": "locked"}),
    ... )
    (({'left': 4}, None), ('locked', 'locked'))
    """
    if (
        not isinstance(value, dict)
        or not value.keys() <= {"type", "value", "providerOptions"}
        or "value" not in value
    ):
        return value, None
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _OUTPUTS:
        return value, None
    inside = value["value"]
    returned = inside if kind == "text" else result(inside)
    return returned, failure(returned) if kind.startswith("error-") else None


def fields_of(item: object) -> tuple[dict[str, Any], str]:
    """The fields of a message that LangChain serialized, and its type's name; "" where it has
    none.
    """
    if not isinstance(item, dict):
        return {}, ""
    kind, names = item.get("type"), item.get("id")
    inner = item.get("kwargs") if kind == "constructor" or "type" not in item else item.get("data")
    if isinstance(inner, dict):
        class_name = names[-1] if isinstance(names, list) and names else None
        kind = class_name if kind == "constructor" else inner.get("type", kind)
        item = inner
    return item, kind if isinstance(kind, str) else ""


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
    if not all(map(is_block, blocks)):
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
        return as_object(next((value[x] for x in _AROUND if x in value), value))
    return value


def _returned(value: Json) -> Json:
    """The content without Bedrock's blocks, which have no type, around it."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        block = value[0]
        if block.keys() == {"json"}:
            return block["json"]
        if block.keys() == {"text"}:
            return result(block["text"])
    return result(content_of_blocks(value))


def _has_failed(fields: Mapping[str, Any]) -> bool:
    if any(fields.get(x) is True for x in ("is_error", "isError", "tool_call_error", "error")):
        return True
    if fields.get("part_kind") == "retry-prompt":  # of Pydantic AI
        return True
    status = fields.get("status")
    return isinstance(status, str) and status in _FAILED


_FILES = ("image", "document", "video")


def content_of_blocks(returned: Json) -> Json:
    r"""What a tool returned, out of the blocks that its result always is: `{"text": …}` or
    `{"json": …}` each. Of several with a text, each is a line or more.

    >>> (
    ...     content_of_blocks([{"json": {"text": "9C"}}]),
    ...     content_of_blocks([{"text": "9C"}, {"text": "rain"}]),
    ...     content_of_blocks([]),
    ... )
    ({'text': '9C'}, '9C\nrain', [])
    """
    blocks: list[Any] = as_list(returned)
    if not blocks or not all(map(_has_value, blocks)):
        return returned
    if len(blocks) == 1:
        return next(_value(x) for x in blocks[0].values())
    shown = [printed(next(iter(x.values()))) for x in blocks]
    has_text = any(isinstance(x.get("text"), str) for x in blocks)
    return "\n".join(shown) if has_text else returned


def _value(content: Any) -> Json:
    """A block's value; an object that a tool returned was printed as JSON, before as Python
    does.
    """
    value = opened(content)
    return literal(value) if isinstance(value, str) and value.startswith(("{", "[")) else value


def bare_texts(content: Any) -> Any:
    r"""The result in a message's content that is a list of blocks of text without a type; any
    other content as it is.

    >>> bare_texts([{"text": "9C"}, {"text": "rain"}]), bare_texts([{"text": "9C", "id": 1}])
    ('9C\nrain', [{'text': '9C', 'id': 1}])
    """
    if not isinstance(content, list) or not content:
        return content
    is_text = all(isinstance(x, dict) and len(x) == 1 for x in content) and all(
        isinstance(x.get("text"), str) for x in content
    )
    if not is_text:
        return content
    texts = [x["text"] for x in content]
    return _value(texts[0]) if len(texts) == 1 else "\n".join(texts)


def is_block(block: object) -> bool:
    """Whether a value has the outline of such a block, or of one with a file, and nothing beside.

    >>> is_block({"text": "9C"}), is_block({"image": {"format": "png", "source": {"bytes": ""}}})
    (True, True)
    >>> is_block({"text": "9C", "url": "/map"}), is_block({"text": 9}), is_block({"image": "a.png"})
    (False, False, False)
    """
    if _has_value(block):
        return isinstance(block.get("text", ""), str)
    if not isinstance(block, dict) or len(block) != 1:
        return False
    file = next((block[x] for x in _FILES if x in block), None)
    return isinstance(file, dict) and {"format", "source"} <= file.keys()


def _has_value(block: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(block, dict) and len(block) == 1 and not {"text", "json"}.isdisjoint(block)
