"""Sentry's AI integrations for JavaScript: the semantic conventions, with answers and tools under
other names.
"""

from collections.abc import Sequence
from typing import Any

from spanscore.dialects import keys
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, Quirk
from spanscore.dialects.forms.arguments import arguments, tools
from spanscore.dialects.forms.messages import message, messages
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    as_list,
    first_text,
    is_redacted,
    opened,
    structure,
)
from spanscore.model.span import Attributes, LogRecord, Span
from spanscore.model.step import Message

_ORIGIN, _OURS = "sentry.origin", "auto.ai."
_ORIGINAL_LENGTHS = (
    "sentry.sdk_meta.gen_ai.input.messages.original_length",
    keys.GEN_AI_REQUEST_MESSAGES_ORIGINAL_LENGTH,
)
_CALLS, _OFFERED = keys.GEN_AI_RESPONSE_TOOL_CALLS, keys.GEN_AI_REQUEST_AVAILABLE_TOOLS


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether the span has a `sentry.origin` that starts with `auto.ai.`."""
    origin = span.attributes.get(_ORIGIN)
    return isinstance(origin, str) and origin.startswith(_OURS)


def read(span: Span, context: Context) -> Facts:
    """The facts of a span of a provider's client, of LangChain or of LangGraph."""
    attributes = span.attributes
    facts = semconv.read(span, context)
    if facts["kind"] in {"model", "agent"}:
        if (
            facts.get("input") is None
            and (given := attributes.get(keys.GEN_AI_REQUEST_MESSAGES)) is not None
        ):
            facts["input"] = messages(given).messages
        if facts.get("output") is None:
            facts["output"] = _answer(attributes)
        if (
            facts.get("tools") is None
            and (offered := first_text(attributes, (_OFFERED,))) is not None
        ):
            facts["tools"] = tools(offered)
        if _is_cut(attributes, facts.get("input")):
            add_damaged(facts, "input")
    elif facts["kind"] == "tool":
        _read_tool(attributes, facts)
    return facts


def _answer(attributes: Attributes) -> tuple[Message, ...] | None:
    recorded = attributes.get(keys.GEN_AI_RESPONSE_TEXT)
    called = structure(attributes.get(_CALLS)).value
    if recorded is None and called is None:
        return None
    texts: Any = (
        structure(recorded).value if attributes.get(_ORIGIN) == "auto.ai.openai" else recorded
    )
    if not isinstance(texts, list):  # OpenAI's has a text for each choice, if it was not streamed
        texts = [recorded]
    parts = [{"type": "text", "text": x} for x in texts if isinstance(x, str)]
    calls = as_list(called)
    answer = message({"role": "assistant", "content": [*parts, *map(_part, calls)]}, "assistant")
    return None if answer is None else (answer,)


def _part(call: Any) -> Any:
    """A call as a part of the answer: Google's stand without a type."""
    return {"type": "tool_call", **call} if isinstance(call, dict) and "type" not in call else call


def _is_cut(attributes: Attributes, given: tuple[Message, ...] | None) -> bool:
    """Whether messages were left out, since Sentry keeps only as many of the last ones as have
    room.
    """
    before = next((x for x in map(attributes.get, _ORIGINAL_LENGTHS) if isinstance(x, int)), 0)
    return given is not None and len(given) < before


def _read_tool(attributes: Attributes, facts: Facts) -> None:
    given = attributes.get(keys.GEN_AI_TOOL_INPUT)
    returned = attributes.get(keys.GEN_AI_TOOL_OUTPUT)
    if facts.get("arguments") is None and given is not None and not is_redacted(given):
        facts["arguments"] = arguments(given)
    if not facts.get("has_result") and returned is not None and not is_redacted(returned):
        facts["result"], facts["has_result"] = opened(returned), True


DIALECT = Dialect(
    "sentry",
    read,
    matches=matches,
    matching_keys=(_ORIGIN,),
    prefilters=(b"auto.ai.",),
    content=(
        ContentSwitch(
            "set recordInputs and recordOutputs of its integration to true (JavaScript), or"
            " send_default_pii=True and include_prompts=True (Python)"
        ),
    ),
)
QUIRKS = (
    Quirk(
        name="sentry",
        under="semconv",
        content=(
            ContentSwitch(
                "set recordInputs and recordOutputs of its integration to true", "@sentry/"
            ),
        ),
    ),
)
