"""OpenAI's own SDK inside the spans of OpenInference and OpenLLMetry."""

from dataclasses import replace

from spanscore.dialects.forms import concatenated_calls
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.forms.values import Facts, change_messages
from spanscore.dialects.frameworks.openai_sdk import traceloop_js
from spanscore.dialects.quirk import Quirk
from spanscore.model.span import Span
from spanscore.model.step import Message


def complete_openinference_js(_span: Span, facts: Facts) -> None:
    """Part the calls of an answer, in place, that the instrumentation of streams writes as one."""
    if facts["kind"] == "model" and facts.get("output"):
        facts["output"] = concatenated_calls.split(facts["output"] or (), facts.get("tools") or ())


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
    return (
        replace(printed, reasoning=summary.reasoning)
        if summary is not None and summary.reasoning
        else printed
    )


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
    *traceloop_js.QUIRKS,
)
