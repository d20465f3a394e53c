"""LangChain4j in Quarkus: spans of an AI service, its model calls and tools, with one text for all
messages.
"""

from collections.abc import Sequence

from spanscore.dialects import keys
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect
from spanscore.dialects.forms.structure import Facts, text
from spanscore.model.span import Attributes, LogRecord, Span

_SCOPE = "io.quarkus.opentelemetry"  # of all spans of Quarkus
_SERVICE, _TOOL = "langchain4j.aiservices.", "langchain4j.tools."
_RESULT, _REASON = keys.GEN_AI_TOOL_CALL_RESULT, keys.GEN_AI_RESPONSE_FINISH_REASONS


def matches(span: Span, logs: Sequence[LogRecord]) -> bool:
    """Whether the span is one of Quarkus, and has a GenAI attribute or a name that LangChain4j
    gives.
    """
    return span.scope.name == _SCOPE and (
        span.name.startswith((_SERVICE, _TOOL)) or semconv.matches(span, logs)
    )


def read(span: Span, context: Context) -> Facts:
    """The facts of an AI service, of a model call or of a tool."""
    facts = semconv.read(span, context)
    if span.name.startswith(_SERVICE):
        service = span.name.removeprefix(_SERVICE).rpartition(".")[0]
        facts["kind"], facts["agent_name"] = "agent", text(service)
    elif facts["kind"] == "tool" or span.name.startswith(_TOOL):
        _complete_tool(span, facts)
    elif facts["kind"] == "model":
        _complete_model(span, facts)
    return facts


def _complete_tool(span: Span, facts: Facts) -> None:
    facts["kind"] = "tool"  # before 1.4 nothing but the span's name shows it
    facts["tool_name"] = facts.get("tool_name") or text(span.name.removeprefix(_TOOL))
    if facts.get("error") is None:  # a tool that throws leaves an exception, but no status
        facts["error"] = next(
            (_reason(x.attributes) for x in span.events if x.name == "exception"), None
        )
    # OpenTelemetry's Java SDK sends an empty text as no value
    if span.attributes.get(_RESULT, "") is None:
        facts["result"] = ""


def _reason(attributes: Attributes) -> str:
    return (
        text(attributes.get("exception.message"))
        or text(attributes.get("exception.type"))
        or "error"
    )


def _complete_model(span: Span, facts: Facts) -> None:
    """The prompt is the texts of all messages, line after line: several cannot be separated."""
    if "\n" in str(span.attributes.get(keys.GEN_AI_PROMPT)):
        facts["input"] = None
    reason = text(span.attributes.get(_REASON))
    if reason is not None:
        facts["finish_reasons"] = (reason,)


DIALECT = Dialect(
    "quarkus",
    read,
    matches=matches,
    matching_scopes=(_SCOPE,),
    prefilters=(_SCOPE.encode(),),
    content=(
        ContentSwitch(
            "set include-prompt, include-completion, include-tool-arguments and include-tool-result"
            " of quarkus.langchain4j.tracing to true"
        ),
    ),
)
