"""LangChain's serialized messages, states and agents.

In goes parsed JSON, such as `{"messages": [{"type": "human", "data": {"content": "Hi"}}]}`; out
come messages in their order, here `(Message("user", "Hi"),)`, or None where it contains none.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from spanscore.dialects.forms.messages import TYPES, message
from spanscore.dialects.forms.repeats import once
from spanscore.dialects.forms.structure import as_list, as_object
from spanscore.dialects.forms.tool_results import fields_of
from spanscore.model.json import printed
from spanscore.model.span import Attributes, changed
from spanscore.model.step import Message

_ROLES = TYPES | {"developer": "system", "function": "tool", "FunctionMessage": "tool"}
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
    found = [once(_message, x, "user") for x in items]
    return _answered(tuple(x for x in found if x is not None)) if any(found) or not items else None


def response_id(output: object) -> str | None:
    """The provider's id of the response in a model run's output, which LangChain keeps beside its
    own id of the run.
    """
    generations = as_object(output).get("generations")
    if not isinstance(output, dict) or not isinstance(generations, list):
        return None
    messages = [fields_of(item)[0] for item in _generated(generations)]
    metadata = [
        *(fields.get("response_metadata") for fields in messages),
        output.get("llm_output"),
        output.get("llmOutput"),
    ]
    for recorded in (*metadata, *messages):  # a message's own id comes last
        found = as_object(recorded).get("id")
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
    remaining = (changed(requesting, calls=left),) if left or requesting.text else ()
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
        for generation in as_list(batch):
            if isinstance(generation, dict):
                yield _of_generation(generation)


def _of_generation(generation: dict[str, Any]) -> Any:
    """The message of a generation; its text stands beside it, or is all that there is."""
    beside = {"role": "assistant", "content": generation.get("text")}
    message = generation.get("message", beside)
    fields, _ = fields_of(message)
    lacks_text = fields is message and "content" not in fields and "tool_calls" in fields
    return {**beside, **fields} if lacks_text else message


def _message(item: object, default_role: str) -> Message | None:
    fields, kind = fields_of(item)
    if not fields or ("content" not in fields and "tool_calls" not in fields):
        return None
    given = fields.get("role")
    role = _ROLES.get(kind, given if isinstance(given, str) else default_role)
    beside = as_object(fields.get("additional_kwargs"))
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


_TOOL_NODE = "tools"  # by convention the node that runs tools, in every agent that LangChain makes
_UNNAMED = ("LangGraph", "Runnable")  # what a graph or chain is called that was given no name
_KEYS = ("lc_agent_name", "langgraph_checkpoint_ns", "langgraph_node")
_BACK_TEXT, _BACK_CALL = "Transferring back to ", "transfer_back_to_"


def agent_name(metadata: Mapping[str, object]) -> str | None:
    """The agent that a step belongs to: the one named, else the node that runs the graph which the
    step is in.

    >>> agent_name({"lc_agent_name": "clerk", "langgraph_checkpoint_ns": "desk:1f|tools:2a"})
    'clerk'
    >>> (
    ...     agent_name({"langgraph_checkpoint_ns": "desk:1f|tools:2a"}),
    ...     agent_name({"langgraph_checkpoint_ns": "tools:2a"}),
    ... )
    ('desk', None)
    """
    named = metadata.get("lc_agent_name")
    if isinstance(named, str) and named:
        return named
    path = metadata.get("langgraph_checkpoint_ns")
    nodes = path.split("|") if isinstance(path, str) else []
    around = nodes[-2].partition(":")[0] if len(nodes) > 1 else ""
    return around if around != _TOOL_NODE and around else None


def is_agent(name: str, metadata: Mapping[str, object], *, outermost: bool) -> bool:
    """Whether the chain called `name` is an agent: a graph named as one, or what is around all
    other steps.

    Nodes are none, however they are called: they have a place in a graph.
    """
    named = metadata.get("lc_agent_name")
    return named == name if named else outermost and not is_node(metadata)


def is_node(metadata: Mapping[str, object]) -> bool:
    """Whether the step is in a graph: one of its nodes, or what a node runs."""
    return "langgraph_node" in metadata


def graph_name(name: str) -> str | None:
    """The name of an agent's graph, where it was given one."""
    return None if name.startswith(_UNNAMED) else name


def metadata(attributes: Attributes, prefix: str) -> dict[str, object]:
    """What an instrumentation recorded of the metadata as attributes with a prefix."""
    return {x: attributes[prefix + x] for x in _KEYS if attributes.get(prefix + x)}


def without_hand_back(messages: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """The messages without the call that the supervisor's library makes up when an agent has
    finished.

    No model requested it and no tool ran: it only gives the turn back to the supervisor.
    """
    made_up = {x.calls[0].call_id for x in messages or () if _hands_back(x)}
    if messages is None or not made_up:
        return messages
    remaining = (x for x in messages if not x.results or x.results[0].call_id not in made_up)
    return tuple(changed(x, calls=()) if _hands_back(x) else x for x in remaining)


def _hands_back(message: Message) -> bool:
    return (
        len(message.calls) == 1
        and message.calls[0].name.startswith(_BACK_CALL)
        and (message.text or "").startswith(_BACK_TEXT)
    )
