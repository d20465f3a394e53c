"""Spring AI's observations: the chat client around it all, its tools, and log records of texts
without roles.
"""

from collections.abc import Sequence
from typing import Final

from spanscore.dialects.content_switch import ContentSwitch
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms.arguments import arguments, call_id, result, tools
from spanscore.dialects.forms.ids import identity
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import opened
from spanscore.dialects.forms.values import Facts, first_text, text
from spanscore.dialects.frameworks.spring_ai.quoted_lists import system_and_user, texts
from spanscore.dialects.frameworks.spring_ai.tool_loop import separated
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_COMPLETION,
    GEN_AI_OPERATION_NAME,
    GEN_AI_PROMPT,
    GEN_AI_RESPONSE_FINISH_REASONS,
)
from spanscore.model.span import Attributes, LogRecord, Span
from spanscore.model.step import Message, StepKind
from spanscore.model.trace import Tool

_KIND = "spring.ai.kind"
_KINDS: Final[dict[str, StepKind]] = {"chat_client": "agent", "tool_call": "tool"}
_OFFERED, _REASONS = "spring.ai.model.request.tool.names", GEN_AI_RESPONSE_FINISH_REASONS
_LOGGERS = "org.springframework.ai."
_SCOPES = "org.springframework."
_CLIENT, _TOOL = "spring.ai.chat.client.", "spring.ai.tool."
_CLIENT_PROMPT, _CLIENT_ANSWER = "Chat Client Prompt Content:\n", "Chat Client Completion:\n"
_FOUND = "Vector Store Query Response:\n"
_THROWN = "Exception thrown by tool: "
"""How a record of level DEBUG begins that a tool's span has; its result is only the exception's
message then.
"""
_MODEL_PROMPT, _MODEL_ANSWER = "Chat Model Prompt Content:\n", "Chat Model Completion:\n"


def matches(span: Span, logs: Sequence[LogRecord]) -> bool:
    """Whether the span has a GenAI operation and a scope of Spring's, or has a log record of a
    class of Spring AI.
    """
    if span.scope.name.startswith(_SCOPES) and GEN_AI_OPERATION_NAME in span.attributes:
        return True
    return bool(logs) and any(x.scope.name.startswith(_LOGGERS) for x in logs)


def read(span: Span, context: Context) -> Facts:
    """The facts of an observation; an advisor is bookkeeping around the model."""
    attributes, facts = span.attributes, semconv.read(span, context)
    if _KIND in attributes:
        facts["kind"] = _KINDS.get(str(attributes[_KIND]), "other")
    logged = [x.body for x in context.logs if isinstance(x.body, str)]
    if facts["kind"] == "agent":
        _read_client(attributes, logged, facts)
    elif facts["kind"] == "tool":
        _read_tool(span, logged, facts)
    elif facts["kind"] == "model":
        _read_model(attributes, logged, facts)
    elif attributes.get(_KIND) == "vector_store" and attributes.get("db.operation.name") == "query":
        facts["kind"], facts["query"] = "retrieval", text(attributes.get("db.vector.query.content"))
        facts["documents"] = tuple(
            _texts(logged, _FOUND, attributes, "db.vector.query.response.documents") or ()
        )
    return facts


def _read_client(attributes: Attributes, logged: list[str], facts: Facts) -> None:
    facts["session_id"] = facts.get("session_id") or identity(
        attributes.get(_CLIENT + "conversation.id")
    )
    listed = _logged(logged, _CLIENT_PROMPT) or first_text(attributes, (GEN_AI_PROMPT,)) or ""
    system, user = system_and_user(listed)
    recorded = {
        "system": system or text(attributes.get(_CLIENT + "system.text")),
        "user": user or text(attributes.get(_CLIENT + "user.text")),
    }
    facts["input"] = tuple(
        Message(role, x) for role, x in recorded.items() if x is not None
    ) or facts.get("input")
    answered = texts(_logged(logged, _CLIENT_ANSWER) or "")
    if answered:
        facts["output"] = (Message("assistant", answered[-1]),)
    if facts.get("tools") is None:
        facts["tools"] = tools(
            first_text(attributes, (_CLIENT + "tool.names", _CLIENT + "tool.function.names"))
        )


def _read_model(attributes: Attributes, logged: list[str], facts: Facts) -> None:
    """A model's input and output: texts of a log record, or of attributes that applications add
    themselves.
    """
    prompts = _texts(logged, _MODEL_PROMPT, attributes, GEN_AI_PROMPT)
    answers = _texts(logged, _MODEL_ANSWER, attributes, GEN_AI_COMPLETION)
    if prompts:  # of several only the last has a known role; a tool's result has no text
        facts["input"] = (Message("user", prompts[-1]),) if prompts[-1] else None
        facts["input_is_part"] = True
    if answers is not None:
        facts["output"] = tuple(Message("assistant", x) for x in answers if x)
    if facts.get("tools") is None:
        facts["tools"] = tools(first_text(attributes, (_OFFERED,)))
    reasons = attributes.get(_REASONS)
    if isinstance(reasons, str):
        facts["finish_reasons"] = tuple(texts(reasons) or ())
    # it records so what no provider stated
    if facts.get("input_tokens") == 0 == facts.get("output_tokens"):
        facts["input_tokens"] = facts["output_tokens"] = None


def _read_tool(span: Span, logged: list[str], facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = facts.get("tool_name") or text(attributes.get(_TOOL + "definition.name"))
    facts["call_id"] = facts.get("call_id") or call_id(attributes.get(_TOOL + "call.id"))
    facts["error"] = status_error(span) or _thrown(logged)
    given = attributes.get(_TOOL + "call.arguments")
    if facts.get("arguments") is None and given is not None:
        facts["arguments"] = arguments(given)
    if not facts.get("has_result") and _TOOL + "call.result" in attributes:
        # an empty text is sent as no value by OpenTelemetry's Java SDK
        returned = attributes[_TOOL + "call.result"]
        facts["result"], facts["has_result"] = (
            result(opened("" if returned is None else returned)),
            True,
        )
    if facts["tool_name"] is not None:
        schema = opened(attributes.get(_TOOL + "definition.schema"))
        facts["tools"] = (
            Tool(
                facts["tool_name"], text(attributes.get(_TOOL + "definition.description")), schema
            ),
        )


def _thrown(records: list[str]) -> str | None:
    """The message of what a tool threw, by the record of it; `Exception thrown by tool: NAME.

    Message: MESSAGE`.
    """
    record = _logged(records, _THROWN)
    return None if record is None else record.partition(". Message: ")[2] or "error"


def _logged(records: list[str], title: str) -> str | None:
    return next((x.removeprefix(title) for x in records if x.startswith(title)), None)


def _texts(records: list[str], title: str, attributes: Attributes, key: str) -> list[str] | None:
    """The texts under a title or in an attribute; None where none are recorded, or they cannot be
    separated.
    """
    listed = _logged(records, title) or text(attributes.get(key))
    return None if listed is None else texts(listed)


DIALECT = Dialect(
    "spring_ai",
    read,
    keys=(_KIND, _OFFERED),
    matches=matches,
    matching_scopes=(_SCOPES,),
    refine_trace=separated,
    prefilters=(b"spring.ai.", b"org.springframework.ai.", b"gen_ai."),
    content=(
        ContentSwitch(
            "set spring.ai.chat.client.observations.log-prompt,"
            " spring.ai.chat.observations.log-prompt, spring.ai.chat.observations.log-completion"
            " and spring.ai.tools.observations.include-content to true"
        ),
    ),
)
