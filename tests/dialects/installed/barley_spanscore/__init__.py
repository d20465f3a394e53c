"""Barley: a conversation in log records, from prompt to prompt; no spans."""

from spanscore.dialects.reading import (
    Context,
    Dialect,
    Facts,
    Span,
    StepKind,
    count,
    identity,
    messages,
    prompt_turns,
    read_call,
    read_prompt,
    text,
)

_SCOPE = "barley.events"
_KINDS: dict[str, StepKind] = {
    "barley.prompt": "agent",
    "barley.answer": "model",
    "barley.action": "tool",
}


def read(span: Span, _context: Context) -> Facts:
    """The facts of a log record, which is a span with the record's name."""
    attributes = span.attributes
    facts: Facts = {
        "kind": _KINDS.get(span.name, "other"),
        "session_id": identity(attributes.get("barley.thread")),
    }
    if facts["kind"] == "agent":
        facts |= read_prompt(attributes.get("text"))
    elif facts["kind"] == "model":
        facts["output"] = messages(attributes.get("text"), "assistant").messages
        facts["output_tokens"] = count(attributes.get("tokens"))
    elif facts["kind"] == "tool":
        facts["tool_name"] = text(attributes.get("action"))
        read_call(span, attributes.get("given"), attributes.get("returned"), facts)
    return facts


DIALECT = Dialect(
    "barley",
    read,
    scopes=(_SCOPE,),
    prefilters=(b"barley.",),
    log_turns=(
        prompt_turns(
            _SCOPE,
            session=("barley.thread",),
            prompt="barley.prompt",
            steps=("barley.answer", "barley.action"),
        ),
    ),
)
