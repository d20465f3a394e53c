"""Spring AI's observations: the chat client around it all, its tools, and log records of texts without roles."""

from collections.abc import Sequence
from typing import Any

from spanscore.dialects import semconv
from spanscore.dialects._arguments import arguments, tools
from spanscore.dialects._base import Context, Dialect, Facts, first_text, text
from spanscore.dialects._json import opened
from spanscore.model.span import Attributes, LogRecord, Span
from spanscore.model.step import Message
from spanscore.model.trace import Tool

_KIND = "spring.ai.kind"
_KINDS = {"chat_client": "agent", "tool_call": "tool"}
_LOGGERS = "org.springframework.ai."
_CLIENT, _TOOL = "spring.ai.chat.client.", "spring.ai.tool."
_CLIENT_PROMPT, _CLIENT_ANSWER = "Chat Client Prompt Content:\n", "Chat Client Completion:\n"
_MODEL_PROMPT, _MODEL_ANSWER = "Chat Model Prompt Content:\n", "Chat Model Completion:\n"
_ROLES = ("system", "user")


def claims(_span: Span, logs: Sequence[LogRecord]) -> bool:
    """Whether the span has a log record of a class in `org.springframework.ai`; spans of models have nothing else."""
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
        _read_tool(span, facts)
    elif facts["kind"] == "model":
        asked, answered = _logged(logged, _MODEL_PROMPT), _logged(logged, _MODEL_ANSWER)
        if facts.get("input") is None and asked is not None and len(asked) == 1:  # of several none says whose it is
            facts["input"] = (Message("user", asked[0]),)
        if facts.get("output") is None and answered is not None:
            facts["output"] = tuple(Message("assistant", x) for x in answered if x)
    return facts


def _read_client(attributes: Attributes, logged: list[str], facts: Facts) -> None:
    facts["session_id"] = facts.get("session_id") or text(attributes.get(_CLIENT + "conversation.id"))
    entries = [x.removeprefix(_CLIENT_PROMPT) for x in logged if x.startswith(_CLIENT_PROMPT)]
    said = _entries(entries[0] if entries else first_text(attributes, ("gen_ai.prompt",)))
    for role in _ROLES:
        said.setdefault(role, text(attributes.get(f"{_CLIENT}{role}.text")))
    messages = tuple(Message(role, said[role]) for role in _ROLES if said[role] is not None)
    if messages:
        facts["input"] = messages
    answered = _logged(logged, _CLIENT_ANSWER)
    if answered:
        facts["output"] = (Message("assistant", answered[-1]),)
    if facts.get("tools") is None:
        facts["tools"] = tools(first_text(attributes, (_CLIENT + "tool.names", _CLIENT + "tool.function.names")))


def _read_tool(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = facts.get("tool_name") or text(attributes.get(_TOOL + "definition.name"))
    facts["error"] = semconv.status_error(span)
    given, returned = attributes.get(_TOOL + "call.arguments"), attributes.get(_TOOL + "call.result")
    if facts.get("arguments") is None and given is not None:
        facts["arguments"] = arguments(given)
    if not facts.get("has_result") and returned is not None:
        facts["result"], facts["has_result"] = opened(returned), True
    if facts["tool_name"] is not None:
        schema = opened(attributes.get(_TOOL + "definition.schema"))
        facts["tools"] = (Tool(facts["tool_name"], text(attributes.get(_TOOL + "definition.description")), schema),)


def _logged(records: list[str], title: str) -> list[str] | None:
    """The texts under a title, which are put between quotes as they are; None for none logged."""
    listed = next((x.removeprefix(title) for x in records if x.startswith(title)), None)
    if listed is None:
        return None
    parsed = opened(listed)
    if isinstance(parsed, list):
        return [x for x in parsed if isinstance(x, str)]
    return [listed.removeprefix('["').removesuffix('"]')]  # a text with quotes in it; of several it cannot be parted


def _entries(listed: str | None) -> dict[str, Any]:
    """The texts by role in `["user":"…", "system":"…"]`, whose quotes are not escaped."""
    found: dict[str, Any] = {}
    rest = (listed or "").strip().removeprefix("[").removesuffix("]")
    places = sorted((at, role) for role in _ROLES if (at := rest.find(f'"{role}":"')) >= 0)
    for number, (at, role) in enumerate(places):
        end = places[number + 1][0] if number + 1 < len(places) else len(rest)
        found[role] = rest[at:end].removeprefix(f'"{role}":"').rstrip(", ").removesuffix('"')
    return found


DIALECT = Dialect(
    "spring_ai", read, keys=(_KIND,), claims=claims, marks=(b"spring.ai.", b"org.springframework.ai.", b"gen_ai.")
)
