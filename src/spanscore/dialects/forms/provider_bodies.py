"""Find the messages in a whole request or response, of a provider or of LangChain, which wrappers
record as it is.

In goes a body, as JSON text or parsed, such as
`{"choices": [{"message": {"role": "assistant", "content": "Yes"}}]}`, and the role of content that
names none; out come its messages, here `(Message("assistant", "Yes"),)`, or None where the body
has none. Its tools and its instructions are read in the same way.
"""

from collections.abc import Mapping
from typing import Any, Final

from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import tools
from spanscore.dialects.forms.messages import is_message, messages, system_text
from spanscore.dialects.forms.reprs import is_address
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.forms.unusual_messages import definition
from spanscore.dialects.forms.values import objects
from spanscore.model.span import Value
from spanscore.model.step import Message
from spanscore.model.trace import Tool

SYSTEM: Final = ("system", "instructions", "system_instruction", "systemInstruction")
"""Where requests have their instructions, if not among the messages."""


_TEXTS: Final = frozenset({"text", "completion"})
"""Where a response has its only text."""


def messages_of(body: Value, role: str) -> tuple[Message, ...] | None:
    """The messages of a request or response of OpenAI, Anthropic, Gemini or Bedrock; None where
    there are none.

    `role` is that of content without one: "user" in a request, "assistant" in a response.
    """
    parsed = structure(body).value
    if isinstance(parsed, list):
        return messages(items_of(parsed), role).messages
    if isinstance(parsed, dict):
        return _of_object(parsed, role)
    is_text = isinstance(parsed, str) and parsed and not is_address(parsed)
    return messages([parsed], role).messages if is_text else None


def _of_object(body: dict[str, Any], role: str) -> tuple[Message, ...] | None:
    for key in ("messages", "input", "contents", "output"):
        if isinstance(body.get(key), (list, str)):
            return messages(body[key], role).messages
    for key, inner in (("choices", "message"), ("candidates", "content")):
        if isinstance(body.get(key), list):
            return messages([x[inner] for x in objects(body[key]) if inner in x], role).messages
    only = next(iter(body.values())) if len(body) == 1 and body.keys() <= _TEXTS else None
    if isinstance(only, str):
        return (Message(role, only),)
    return _of_one_message(body, role)


def _of_one_message(body: dict[str, Any], role: str) -> tuple[Message, ...] | None:
    """The message that is the answer, or that the object itself is."""
    content = body.get("content")
    # Gemini's, without its candidate
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        return messages([content], role).messages
    # where Bedrock's Converse has it
    around = body if body.keys() == {"message"} else body.get("output")
    if isinstance(around, dict) and isinstance(around.get("message"), dict):
        return messages([around["message"]], role).messages
    # that may be a field of its own
    is_own = is_message({key: value for key, value in body.items() if key != "text"})
    return messages(body, role).messages if is_own else None


def items_of(listed: list[Any]) -> list[Any]:
    """Messages or items, or those in the responses that a list is of, as OpenAI's Agents SDK gives
    a stream's.
    """
    responses = [x for x in listed if isinstance(x, dict) and x.get("object") == "response"]
    if not responses or len(responses) < len(listed):
        return listed
    return [item for x in responses if isinstance(x.get("output"), list) for item in x["output"]]


def offered(*bodies: Any) -> tuple[Tool, ...] | None:
    """The tools on offer that a parsed request lists, or the response that repeats it: beside or
    among the messages.
    """
    for body in bodies:
        listed = _listed_tools(body)
        if listed is not None:
            return tools(listed)
    return None


def _listed_tools(body: Any) -> list[Any] | None:
    """The definitions in a body, as they are recorded: those in its own list, else those that stand
    among its messages.
    """
    if not isinstance(body, dict):
        return _tools_among_messages(body)
    own = _own_tools(body)
    return _tools_among_messages(body.get("messages")) if own is None else own


def _own_tools(body: dict[str, Any]) -> list[Any] | None:
    """The list of tools of a body, or of its `config`, as Gemini's requests have it."""
    config = body.get("config")
    for fields in (body, config if isinstance(config, dict) else {}):
        for key in ("tools", "functions"):
            listed = fields.get(key)
            if isinstance(listed, list) and _is_definitions(listed):
                return listed
    return None


def _tools_among_messages(listed: Any) -> list[Any] | None:
    """The tools that stand among messages: first the lists of several, then those that are an item
    of their own.
    """
    in_lists: list[Any] = []
    single: list[Any] = []
    for item in objects(listed):
        tools_of_item = item.get("tools")
        if isinstance(tools_of_item, list):
            in_lists += tools_of_item
        defined = definition(item)
        if defined is not None:
            single.append(defined)
    return [*in_lists, *single] or None


def _is_definitions(listed: list[Any]) -> bool:
    """Whether a list defines tools, as objects or JSON; it does not where Python printed them."""
    return all(isinstance(x, dict) or str(x).startswith("{") for x in listed)


def system_of(request: Mapping[str, Any]) -> str | None:
    """The instructions that stand beside the messages of a request: OpenAI's, Anthropic's,
    Bedrock's or Gemini's.
    """
    inside = request.get("config")
    given = [request.get(x) for x in SYSTEM]
    given.append(inside.get("system_instruction") if isinstance(inside, dict) else None)
    return next((text for text in (system_text(x)[0] for x in given if x) if text), None)


def configured_tools(request: Mapping[str, Any]) -> tuple[Tool, ...] | None:
    """The tools in the configuration of a request to Gemini."""
    inside = request.get("config")
    return tools(inside.get("tools")) if isinstance(inside, dict) else None


def conversation(value: Any, role: str) -> tuple[Message, ...] | None:
    """The messages of a parsed request or response, LangChain's among them."""
    if value is None:
        return None
    listed = value.get("messages", [value]) if isinstance(value, dict) else value
    listed = [x for x in listed if definition(x) is None] if isinstance(listed, list) else listed
    if isinstance(listed, list) and (any(map(_is_langchain, listed)) or _has_generations(value)):
        return langchain_messages.state_messages(value if _has_generations(value) else listed)
    return messages_of(value, role)


def _has_generations(value: Any) -> bool:
    return isinstance(value, dict) and "generations" in value


def _is_langchain(item: Any) -> bool:
    """Whether LangChain wrote the message: serialized, printed with all its fields, or in a
    batch.
    """
    if isinstance(item, dict):
        return item.get("type") == "constructor" or "additional_kwargs" in item
    return isinstance(item, list)
