"""OpenAI's SDK in OpenInference's and OpenLLMetry's spans."""

from typing import Any

from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms import arguments
from spanscore.dialects.forms.messages import message, messages
from spanscore.dialects.forms.structure import Facts, change_messages, structure
from spanscore.model.span import Span, changed
from spanscore.model.step import Message

_SCOPE = "@traceloop/instrumentation-openai"

_START = '[{"'  # what its JSON.stringify makes of a list of items


def complete(_span: Span, facts: Facts) -> None:
    """Open the input of a model call.

    An answer without text is one that calls tools, which are left out: not known.
    """
    if facts["kind"] == "model":
        opened = items_opened(facts.get("input"))
        if opened is not facts.get("input") and facts.get("output") == (Message("assistant", ""),):
            facts["output"] = None
        facts["input"] = opened


def items_opened(given: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """The messages, or those in the text of the only one where it is a request's list of items.

    A question that is itself JSON stays one, since every element has to be an item that a request
    may contain.
    """
    if (
        given is None
        or len(given) != 1
        or given[0].role != "user"
        or not (given[0].text or "").startswith(_START)
    ):
        return given
    items, damaged = structure(given[0].text)
    if damaged or not isinstance(items, list) or not all(map(_is_item, items)):
        return given
    return messages(items).messages


def _is_item(item: Any) -> bool:
    """Whether a request's input may contain it: a message, or what states its type (a call, a
    result, a thought).
    """
    return isinstance(item, dict) and (_is_message(item) or _is_typed(item))


def _is_message(item: dict[str, Any]) -> bool:
    return isinstance(item.get("role"), str) and isinstance(item.get("content"), (str, list))


def _is_typed(item: dict[str, Any]) -> bool:
    kind = item.get("type")
    return isinstance(kind, str) and (
        kind == "reasoning" or kind.endswith(("_call", "_output", "_reference"))
    )


def complete_openinference_js(_span: Span, facts: Facts) -> None:
    """Part the calls of an answer, in place, that the instrumentation of streams writes as one."""
    if facts["kind"] == "model" and facts.get("output"):
        facts["output"] = arguments.split_calls(facts["output"] or (), facts.get("tools") or ())


def complete_openllmetry(_span: Span, facts: Facts) -> None:
    """Open the reasoning of messages, in place, in which the summaries of OpenAI's Responses are
    printed as JSON.
    """
    change_messages(facts, _with_reasons)


def _with_reasons(printed: Message) -> Message:
    if not (printed.reasoning or "").startswith('[{"'):
        return printed
    summary = message(
        {"type": "reasoning", "summary": structure(printed.reasoning).value}, "assistant"
    )
    if summary is not None and summary.reasoning:
        return changed(printed, reasoning=summary.reasoning)
    return printed


QUIRKS = (
    Quirk(
        name="openai",
        under="openinference",
        scopes=("openinference.instrumentation.openai",),
        omits_empty_arguments=True,
    ),
    Quirk(
        name="openai_js",
        under="openinference",
        scopes=("@arizeai/openinference-instrumentation-openai",),
        complete=complete_openinference_js,
    ),
    Quirk(
        name="openai",
        under="openllmetry",
        scopes=("opentelemetry.instrumentation.openai.v1",),
        complete=complete_openllmetry,
    ),
    Quirk(
        name="openai_js",
        under="openllmetry",
        scopes=(_SCOPE,),
        claims_scopes=True,
        complete=complete,
    ),
)
