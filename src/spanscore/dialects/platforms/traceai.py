"""traceAI (Future AGI): OpenInference's attributes under names of the conventions."""

from collections.abc import Sequence

from spanscore.dialects import keys
from spanscore.dialects.conventions import openinference
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect
from spanscore.dialects.forms.structure import Facts
from spanscore.model.span import LogRecord, Span, changed

_KIND = "gen_ai.span.kind"
_NAMES = {
    _KIND: keys.OPENINFERENCE_SPAN_KIND,
    keys.GEN_AI_AGENT_NAME: keys.AGENT_NAME,
    keys.GEN_AI_REQUEST_MODEL: keys.LLM_MODEL_NAME,
    keys.GEN_AI_RESPONSE_MODEL: keys.LLM_RESPONSE_MODEL_NAME,
    keys.GEN_AI_TOOL_CALL_ID: keys.TOOL_ID,
    keys.GEN_AI_TOOL_NAME: keys.TOOL_NAME,
}
_PREFIXES = {
    f"{keys.GEN_AI_INPUT_MESSAGES}.": keys.LLM_INPUT_MESSAGES_PREFIX,
    f"{keys.GEN_AI_OUTPUT_MESSAGES}.": keys.LLM_OUTPUT_MESSAGES_PREFIX,
    f"{keys.GEN_AI_TOOL_DEFINITIONS}.": keys.LLM_TOOLS_PREFIX,
}
_OF_OTHERS = frozenset(
    {keys.GEN_AI_OPERATION_NAME, keys.GEN_AI_INPUT_MESSAGES, keys.GEN_AI_OUTPUT_MESSAGES}
)
_MESSAGES = (keys.LLM_INPUT_MESSAGES_PREFIX, keys.LLM_OUTPUT_MESSAGES_PREFIX)
_FIRST_TEXTS = frozenset({keys.INPUT_VALUE, keys.OUTPUT_VALUE})


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether a span states a kind, and has nothing of the conventions that it replaces."""
    return _KIND in span.attributes and _OF_OTHERS.isdisjoint(span.attributes)


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans.

    A model's `input.value` is the text of its first message, mostly the system prompt, and its
    `output.value` a line that prints its calls: neither counts beside messages.
    """
    named = {_renamed(key): value for key, value in span.attributes.items()}
    may_repeat = span.dropped_attributes_count or any(x.startswith(_MESSAGES) for x in named)
    if span.attributes.get(_KIND) == "LLM" and may_repeat:
        named = {key: value for key, value in named.items() if key not in _FIRST_TEXTS}
    return openinference.read(changed(span, attributes=named), context)


def _renamed(key: str) -> str:
    for prefix, name in _PREFIXES.items():
        if key.startswith(prefix):
            return name + key.removeprefix(prefix)
    return _NAMES.get(key, key)


DIALECT = Dialect(
    "traceai",
    read,
    matches=matches,
    matching_keys=(_KIND,),
    prefilters=(_KIND.encode(),),
    content=(
        ContentSwitch(
            "unset FI_HIDE_INPUTS, FI_HIDE_OUTPUTS and their like, or the same options of a trace"
            " config"
        ),
    ),
)
