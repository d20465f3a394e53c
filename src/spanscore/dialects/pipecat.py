"""Pipecat: a conversation in one trace, a span for each turn of it, and the model's context under names of its own."""

from spanscore.dialects import semconv
from spanscore.dialects._arguments import tools
from spanscore.dialects._base import Context, Dialect, Facts, text
from spanscore.model.span import Span
from spanscore.model.step import Message

_SCOPES = ("pipecat", "pipecat.turn")
_KINDS = {"turn": "agent", "llm": "model"}


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; speech and the conversation around its turns are bookkeeping."""
    attributes = span.attributes
    kind = _KINDS.get(span.name, "other")
    facts: Facts = semconv.read(span, context) if kind == "model" else {}
    facts["kind"] = kind
    facts["session_id"] = facts.get("session_id") or text(attributes.get("conversation.id"))
    facts["user_id"] = facts.get("user_id") or text(attributes.get("user_id"))
    if kind == "model":
        if facts.get("input") is None and "input" in attributes:
            given = context.histories.messages(attributes["input"])
            facts["input"] = given.messages
            if given.damaged:
                facts["damaged"] = facts.get("damaged", frozenset()) | {"input"}
        said = attributes.get("output")
        if facts.get("output") is None and isinstance(said, str):  # calls are told by the next request alone
            facts["output"] = (Message("assistant", said),) if said else ()
        if facts.get("tools") is None and "tools" in attributes:
            facts["tools"] = tools(attributes["tools"])
    return facts


DIALECT = Dialect("pipecat", read, scopes=_SCOPES, marks=(b"pipecat",))
