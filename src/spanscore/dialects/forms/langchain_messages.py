"""Open LangChain's messages and states, which many instrumentations record as LangChain serializes
them.

In goes parsed JSON, such as `{"messages": [{"type": "human", "data": {"content": "Hi"}}]}`; out
come messages in their order, here `(Message("user", "Hi"),)`, or None where it contains none.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from spanscore.dialects.forms.envelopes import fields_of
from spanscore.dialects.forms.messages import message
from spanscore.model.json import printed
from spanscore.model.step import Message

_ROLES = {
    "human": "user",
    "HumanMessage": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessage": "system",
    "developer": "system",
    "tool": "tool",
    "ToolMessage": "tool",
    "function": "tool",
    "FunctionMessage": "tool",
}

_STRUCTURED = "Returning structured response: "
"""What create_agent answers a call of the tool that stands for a structured answer."""

_OWN_IDS = ("run-", "lc_")
"""With which the ids begin that LangChain gives to messages: the run's, and whatever else is of its
own making.
"""


def state_messages(state: object) -> tuple[Message, ...] | None:
    """The messages of a graph's state, a model's input or generations; None for what contains no
    messages.
    """
    if isinstance(state, dict) and isinstance(state.get("generations"), list):
        items: object = list(_generated(state["generations"]))
    else:
        items = state.get("messages") if isinstance(state, dict) else state
    if not isinstance(items, list):
        return None
    if len(items) == 1 and isinstance(items[0], list):  # a batch of one conversation
        items = items[0]
    found = [_message(x) for x in items]
    return _answered(tuple(x for x in found if x is not None)) if any(found) or not items else None


def response_id(output: object) -> str | None:
    """The provider's id of the response in a model run's output, which LangChain keeps beside its
    own id of the run.
    """
    generations = output.get("generations") if isinstance(output, dict) else None
    if not isinstance(output, dict) or not isinstance(generations, list):
        return None
    messages = [fields_of(item)[0] for item in _generated(generations)]
    metadata = [
        *(fields.get("response_metadata") for fields in messages),
        output.get("llm_output"),
        output.get("llmOutput"),
    ]
    for recorded in (*metadata, *messages):  # a message's own id comes last
        found = recorded.get("id") if isinstance(recorded, dict) else None
        if isinstance(found, str) and found and not found.startswith(_OWN_IDS):
            return found
    return None


def after_question(state: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """What a graph added to its state: all messages after the user's last one."""
    if state is None:
        return None
    for at in range(len(state) - 1, -1, -1):
        if state[at].role == "user" and state[at].text is not None:
            return state[at + 1 :]
    return state


def _answered(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages with a structured answer as text: the model gives it as a call of a tool that
    only stands for it.
    """
    call_id = _structured_answer(messages)
    at = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].calls), None)
    if call_id is None or at is None:
        return messages
    requesting = messages[at]
    answer = next((x for x in requesting.calls if x.call_id == call_id[0]), None)
    if answer is None:
        return messages
    left = tuple(x for x in requesting.calls if x is not answer)
    remaining = (replace(requesting, calls=left),) if left or requesting.text else ()
    return (
        *messages[:at],
        *remaining,
        *messages[at + 1 : -1],
        Message("assistant", printed(answer.arguments)),
    )


def _structured_answer(messages: tuple[Message, ...]) -> tuple[str | None] | None:
    """The id of the call that the last message answers, if its result is only the notice of a
    structured answer.
    """
    if not messages or len(messages[-1].results) != 1:
        return None
    result = messages[-1].results[0]
    is_notice = isinstance(result.value, str) and result.value.startswith(_STRUCTURED)
    return (result.call_id,) if is_notice else None


def _generated(generations: list[Any]) -> Iterator[Any]:
    for batch in generations[:1]:
        for generation in batch if isinstance(batch, list) else ():
            if isinstance(generation, dict):
                yield _of_generation(generation)


def _of_generation(generation: dict[str, Any]) -> Any:
    """The message of a generation; its text stands beside it, or is all that there is."""
    beside = {"role": "assistant", "content": generation.get("text")}
    message = generation.get("message", beside)
    fields, _ = fields_of(message)
    lacks_text = fields is message and "content" not in fields and "tool_calls" in fields
    return {**beside, **fields} if lacks_text else message


def _message(item: object) -> Message | None:
    fields, kind = fields_of(item)
    if not fields or ("content" not in fields and "tool_calls" not in fields):
        return None
    given = fields.get("role")
    role = _ROLES.get(kind, given if isinstance(given, str) else "user")
    more = fields.get("additional_kwargs")
    beside = more if isinstance(more, dict) else {}
    calls = fields.get("tool_calls") or beside.get("tool_calls")
    content = fields.get("content")
    if calls and isinstance(content, list):
        content = [block for block in content if not _is_call_block(block)]
    plain = {
        "role": role,
        "content": content,
        "tool_calls": calls,
        "reasoning_content": _reasoning(beside),
    }
    if role == "tool":
        plain |= {"tool_call_id": fields.get("tool_call_id"), "status": fields.get("status")}
    return message(plain, role)


def _is_call_block(block: object) -> bool:
    """Whether a block of a message's content repeats one of its calls, as Anthropic's do."""
    return isinstance(block, dict) and block.get("type") in ("tool_use", "function_call")


def _reasoning(beside: dict[str, Any]) -> str | None:
    """What the model thought, which some integrations keep beside its message: as text, or as
    OpenAI's item.
    """
    reasoning = beside.get("reasoning_content")
    item = beside.get("reasoning") if reasoning is None else None
    if isinstance(item, dict):
        thought = message({**item, "type": "reasoning"}, "assistant")
        reasoning = None if thought is None else thought.reasoning
    return reasoning if isinstance(reasoning, str) else None
