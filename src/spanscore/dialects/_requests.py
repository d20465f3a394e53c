"""Find the messages in a whole request or response, of a provider or of LangChain, which wrappers record as it is."""

from typing import Any

from spanscore.dialects import _langchain
from spanscore.dialects._json import structure
from spanscore.dialects._messages import messages
from spanscore.model.span import Value
from spanscore.model.step import Message


def messages_of(body: Value, role: str) -> tuple[Message, ...] | None:
    """The messages of a request or response of OpenAI, Anthropic or Gemini; None where there are none.

    `role` is that of content without one: "user" in a request, "assistant" in a response.
    """
    parsed = structure(body).value
    if isinstance(parsed, list):
        return messages(parsed, role).messages
    if not isinstance(parsed, dict):
        return (Message(role, parsed),) if isinstance(parsed, str) and parsed else None
    for key in ("messages", "input", "contents", "output"):
        if isinstance(parsed.get(key), (list, str)):
            return messages(parsed[key], role).messages
    choices = parsed.get("choices")
    if isinstance(choices, list):
        return messages([x["message"] for x in choices if isinstance(x, dict) and "message" in x], role).messages
    return messages(parsed, role).messages if "role" in parsed or "content" in parsed else None


def conversation(value: Any, role: str) -> tuple[Message, ...] | None:
    """The messages of a parsed request or response, LangChain's among them."""
    if value is None:
        return None
    listed = value.get("messages", [value]) if isinstance(value, dict) else value
    if isinstance(listed, list) and (any(map(_is_langchain, listed)) or _has_generations(value)):
        return _langchain.state_messages(value if _has_generations(value) else listed)
    return messages_of(value, role)


def _has_generations(value: Any) -> bool:
    return isinstance(value, dict) and "generations" in value


def _is_langchain(item: Any) -> bool:
    """Whether LangChain wrote the message: serialized, printed with all its fields, or in a batch."""
    if isinstance(item, dict):
        return item.get("type") == "constructor" or "additional_kwargs" in item
    return isinstance(item, list)
