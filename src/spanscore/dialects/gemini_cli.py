"""Gemini CLI: the conventions' attributes under operations of its own, content as Gemini's, cut at a length."""

from spanscore.dialects import semconv
from spanscore.dialects._arguments import arguments, call_id
from spanscore.dialects._base import Context, Dialect, Facts
from spanscore.dialects._json import opened
from spanscore.model.span import Span, Value
from spanscore.model.step import Message

_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_CUT = "...[TRUNCATED: original length "  # and the length and a bracket, at the end of a value


def read(span: Span, context: Context) -> Facts:
    """The facts of a call of a model, tool or agent. Of a tool, arguments and result stand in place of messages."""
    attributes = span.attributes
    facts = semconv.read(span, context)
    if facts["kind"] == "tool":
        given, returned = attributes.get(_INPUT), attributes.get(_OUTPUT)
        facts["call_id"] = facts.get("call_id") or call_id(attributes.get("gen_ai.tool.call_id"))
        if facts.get("arguments") is None and given is not None:
            facts["arguments"] = arguments(given)
        if not facts.get("has_result") and returned is not None:
            facts["result"], facts["has_result"] = opened(returned), True
    elif facts.get("output"):
        facts["output"] = (_whole(facts["output"]),)
    names = ("arguments", "result") if facts["kind"] == "tool" else ("input", "output")
    cut = {name for name, key in zip(names, (_INPUT, _OUTPUT), strict=True) if _is_cut(attributes.get(key))}
    facts["damaged"] = facts.get("damaged", frozenset()) | cut
    return facts


def _whole(chunks: tuple[Message, ...]) -> Message:
    """The answer of a model, which is recorded as it streamed: a message for each chunk."""
    texts, thoughts = [x.text for x in chunks if x.text is not None], [x.reasoning for x in chunks if x.reasoning]
    return Message(
        "assistant",
        "".join(texts) if texts else None,
        "".join(thoughts) if thoughts else None,
        tuple(call for x in chunks for call in x.calls),
    )


def _is_cut(value: Value) -> bool:
    return isinstance(value, str) and value.endswith("]") and _CUT in value[-64:]


DIALECT = Dialect("gemini_cli", read, scopes=("gemini-cli",), marks=(b"gemini-cli", b"gen_ai."))
