"""Laminar's SDK: the conventions with messages as the provider has them, and what its decorator
recorded of a call.
"""

from typing import Any, Final

from spanscore.dialects import keys
from spanscore.dialects.conventions import openllmetry
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms.decorated_calls import (
    read_call,
    read_recorded,
)
from spanscore.dialects.forms.provider_bodies import conversation
from spanscore.dialects.forms.structure import (
    Facts,
    Side,
    indexed,
    object_at,
    objects,
    read_names,
    read_tokens,
    structure,
    text,
)
from spanscore.model.span import Attributes, Span
from spanscore.model.step import StepKind

_TYPE, _EXECUTOR = "lmnr.span.type", "EXECUTOR"
_KINDS: Final[dict[str, StepKind]] = {
    "LLM": "model",
    "CACHED": "model",
    "TOOL": "tool",
    "DEFAULT": "workflow",
    "PIPELINE": "workflow",
    _EXECUTOR: "workflow",  # what an evaluation runs
}
_INPUT, _OUTPUT = "lmnr.span.input", "lmnr.span.output"
_ASSOCIATION = "lmnr.association.properties."
_SIDES: Final[tuple[tuple[Side, str, str, str], ...]] = (
    ("input", keys.GEN_AI_INPUT_MESSAGES, _INPUT, "user"),
    ("output", keys.GEN_AI_OUTPUT_MESSAGES, _OUTPUT, "assistant"),
)


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; of its own evaluations, what was executed is the turn, and
    evaluators are none of its steps.
    """
    attributes = span.attributes
    kind = _KINDS.get(str(attributes.get(_TYPE)), "other")
    conventional = kind == "model" or (
        kind == "workflow" and keys.GEN_AI_OPERATION_NAME in attributes
    )
    facts: Facts = openllmetry.read(span, context) if conventional else {"kind": kind}
    if kind != "workflow":
        facts["kind"] = kind
    found: Facts = {}
    read_names(attributes, found, _ASSOCIATION)
    facts |= found
    read_names(object_at(attributes, "langchain.metadata"), facts)
    if kind == "model":
        _read_model(attributes, facts)
    elif kind == "tool":
        _read_tool(span, facts)
    elif kind == "workflow" and (
        context.outermost or facts["kind"] == "agent" or attributes.get(_TYPE) == _EXECUTOR
    ):
        read_recorded(attributes.get(_INPUT), attributes.get(_OUTPUT), facts)
    return facts


def _read_model(attributes: Attributes, facts: Facts) -> None:
    """Its messages are the provider's, choices among them; what a decorated function took and gave
    comes last.
    """
    for side, conventional, decorated, role in _SIDES:
        key = conventional if conventional in attributes else decorated
        if key in attributes and (key == conventional or facts.get(side) is None):
            facts[side] = conversation(_provider_messages(structure(attributes[key]).value), role)
    read_tokens(attributes, facts)  # also where nothing else of the conventions is set
    if (
        facts.get("system") is None and keys.GEN_AI_PROMPT_0_ROLE in attributes
    ):  # of OpenAI's Responses
        items = indexed(attributes, keys.GEN_AI_PROMPT_PREFIX)
        facts["system"] = next(
            (text(x.get("content")) for x in items if x.get("role") == "system"), None
        )


def _provider_messages(value: Any) -> Any:
    """The messages in a list of choices; anything else as it is."""
    choices = objects(value)
    is_list = choices and len(choices) == len(value) and all("message" in x for x in choices)
    return {"choices": value} if is_list else value


def _read_tool(span: Span, facts: Facts) -> None:
    facts["tool_name"] = text(span.name)
    read_call(span, span.attributes.get(_INPUT), span.attributes.get(_OUTPUT), facts)


DIALECT = Dialect("laminar", read, keys=(_TYPE,), prefilters=(b"lmnr.span.",))
