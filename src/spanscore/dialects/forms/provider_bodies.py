"""Messages in a whole request or response.

In goes a body, as JSON text or parsed, such as
`{"choices": [{"message": {"role": "assistant", "content": "Yes"}}]}`, and the role of content that
names none; out come its messages, here `(Message("assistant", "Yes"),)`, or None where the body
has none. Its tools and its instructions are read in the same way.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import tools
from spanscore.dialects.forms.messages import definition, is_message, messages, system_text
from spanscore.dialects.forms.structure import as_object, is_address, objects, structure
from spanscore.model.span import Value, changed
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
    for fields in (body, as_object(body.get("config"))):
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
    given.append(as_object(inside).get("system_instruction"))
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


_TOOLS = '"tools"'  # what a request that lists tools contains; most are not parsed for it
_THOUGHTS = ('"reasoning_content"', '"reasoning":"', '"reasoning": "')
"""What a chat completion that contains a model's thoughts has one of."""


def is_lost(flat: Sequence[Message], body: Value) -> bool:
    """Whether what flattened messages leave out may have been in a request or response that was
    cut.
    """
    return isinstance(body, str) and _lacks(flat) and structure(body).damaged


def completed(flat: tuple[Message, ...], body: Value, role: str) -> tuple[Message, ...]:
    """The messages of a request or response, where flattened ones leave out calls, ids, arguments
    or results of theirs.

    Instrumentations leave out what is empty (no arguments, an empty result), and older ones more
    than that.
    """
    if not _lacks(flat):
        return flat
    complete = messages_of(body, role)
    if complete is None or not _contains_more(complete, flat):
        return flat
    return tuple(x for x in flat if x.role == "system" and x not in complete) + complete


def with_reasoning(flat: tuple[Message, ...] | None, body: Value) -> tuple[Message, ...] | None:
    """The only message of an answer, with what the model thought, which flattened messages leave
    out.
    """
    if not flat or len(flat) > 1 or flat[0].reasoning or not isinstance(body, str):
        return flat
    if not any(x in body for x in _THOUGHTS):  # few bodies are parsed
        return flat
    answer = messages_of(body, "assistant")
    thought = None
    if answer and len(answer) == 1 and answer[0].text == flat[0].text:
        thought = answer[0].reasoning
    return (changed(flat[0], reasoning=thought),) if thought else flat


def without_gaps(message: Message) -> Message:
    """The message with the arguments that were left out because there were none."""
    if all(x.arguments is not None for x in message.calls):
        return message
    return changed(
        message, calls=tuple(changed(x, arguments=x.arguments or {}) for x in message.calls)
    )


def system(body: Value) -> str | None:
    """The instructions that stand beside the messages of a request."""
    return system_of(_object(body, SYSTEM))


def offered_in_bodies(*bodies: Value) -> tuple[Tool, ...] | None:
    """The tools that a request offers, or the response that repeats them."""
    return offered(*(structure(x).value for x in bodies if isinstance(x, str) and _TOOLS in x))


def _object(body: Value, keys: tuple[str, ...]) -> Mapping[str, Any]:
    """The JSON object of a request that may have one of the keys; empty without parsing where it
    has none.
    """
    if not isinstance(body, str) or not any(f'"{x}"' in body for x in keys):
        return {}
    return as_object(structure(body).value)


def _lacks(flat: Sequence[Message]) -> bool:
    """Whether some call or result is incomplete, or a call before the last message has no
    result.
    """
    calls = [x for message in flat for x in message.calls]
    results = [x for message in flat for x in message.results]
    if any(x.call_id is None or x.arguments is None for x in calls) or any(
        x.value is None for x in results
    ):
        return True
    return len(results) < sum(len(x.calls) for x in flat[:-1])


def _contains_more(complete: Sequence[Message], flat: Sequence[Message]) -> bool:
    """Whether `complete` contains all that `flat` does, and more calls, results or fields of
    them.
    """
    more, less = _counts(complete), _counts(flat)
    texts = {x.text for x in complete}
    needed = (x.text for x in flat if x.role != "system" and x.text)
    return (
        more != less
        and all(x >= y for x, y in zip(more, less, strict=True))
        and all(x in texts for x in needed)
    )


def _counts(messages: Sequence[Message]) -> tuple[int, ...]:
    calls = [x for message in messages for x in message.calls]
    results = [x for message in messages for x in message.results]
    return (
        len(calls),
        sum(x.call_id is not None for x in calls),
        sum(x.arguments is not None for x in calls),
        len(results),
        sum(x.call_id is not None for x in results),
        sum(x.value is not None for x in results),
    )
