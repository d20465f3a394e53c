"""Find the agent that a span of LangChain's or LangGraph's belongs to, by the metadata that every
tracer receives.
"""

from collections.abc import Mapping
from dataclasses import replace

from spanscore.model.span import Attributes
from spanscore.model.step import Message

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
    return tuple(replace(x, calls=()) if _hands_back(x) else x for x in remaining)


def _hands_back(message: Message) -> bool:
    return (
        len(message.calls) == 1
        and message.calls[0].name.startswith(_BACK_CALL)
        and (message.text or "").startswith(_BACK_TEXT)
    )
