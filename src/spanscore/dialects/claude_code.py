"""Claude Code: one trace a prompt, with bare names for a model's and a tool's facts, hidden unless the user opts in."""

from collections.abc import Sequence

from spanscore.dialects._arguments import arguments, call_id
from spanscore.dialects._base import Context, Dialect, Facts, count, first_text, text
from spanscore.dialects._functions import damaged
from spanscore.dialects._json import is_redacted, opened
from spanscore.dialects.semconv import status_error
from spanscore.model.span import Attributes, LogRecord, Span, Value
from spanscore.model.step import Message

_KINDS = {"interaction": "agent", "llm_request": "model", "tool": "tool"}
_PREFIX = "claude_code."
_ASIDE = frozenset({"prompt_suggestion", "generate_session_title", "quota"})  # model calls that serve no turn
_GIVEN = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")  # each counts what the others do not


def claims(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether the span has one of Claude Code's names."""
    return span.name.startswith(_PREFIX)


def read(span: Span, _context: Context) -> Facts:
    """The facts of a prompt, a model call or a tool call; its waiting for the user and its hooks are neither."""
    attributes = span.attributes
    kind = _KINDS.get(span.name.removeprefix(_PREFIX), "other")
    if kind == "agent":
        asked = attributes.get("user_prompt")
        said = None if is_redacted(asked) else text(asked)
        return {"kind": kind, "input_text": said, "damaged": damaged(input=asked)}
    if kind == "model" and str(attributes.get("query_source")) not in _ASIDE:
        return _model_call(attributes)
    return _tool_call(span) if kind == "tool" else {"kind": "other"}


def _model_call(attributes: Attributes) -> Facts:
    said = attributes.get("response.model_output")
    counted = [count(attributes.get(x)) for x in _GIVEN]
    answer = None if is_redacted(said) else text(said)
    return {
        "kind": "model",
        "model": first_text(attributes, ("model", "gen_ai.request.model")),
        "output": None if answer is None else (Message("assistant", answer),),
        "input_tokens": None if counted[0] is None else sum(x for x in counted if x is not None),
        "output_tokens": count(attributes.get("output_tokens")),
        "damaged": damaged(output=said),
    }


def _tool_call(span: Span) -> Facts:
    attributes = span.attributes
    given, returned = attributes.get("tool_input"), _returned(span)
    facts: Facts = {
        "kind": "tool",
        "tool_name": first_text(attributes, ("tool_name", "gen_ai.tool.name")),
        "call_id": call_id(attributes.get("tool_use_id", attributes.get("gen_ai.tool.call.id"))),
        "error": status_error(span),
        "damaged": damaged(arguments=given, result=returned),
    }
    if given is not None and not is_redacted(given):
        facts["arguments"] = arguments(given)
    if returned is not None and not is_redacted(returned):
        facts["result"], facts["has_result"] = opened(returned), True
    return facts


def _returned(span: Span) -> Value:
    """What the tool put out, read or changed, by the event that tells it."""
    told = [x.attributes for x in span.events if x.name == "tool.output"]
    return next((x[key] for x in told for key in ("output", "content", "diff") if x.get(key) is not None), None)


DIALECT = Dialect("claude_code", read, claims=claims, marks=(b"claude_code.",))
