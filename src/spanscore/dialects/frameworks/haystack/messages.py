"""Open Haystack's chat messages, serialized or printed, which its own tracer and two
instrumentations record.
"""

from collections.abc import Iterable
from typing import Any

from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import call_id, failure, result, tools
from spanscore.dialects.forms.ids import identity
from spanscore.dialects.forms.reprs import evaluated, opened_repr
from spanscore.dialects.forms.structure import opened, structure
from spanscore.dialects.forms.values import Facts, add_missing, count, text
from spanscore.dialects.keys.openinference import INPUT_VALUE, OUTPUT_VALUE
from spanscore.dialects.keys.openllmetry import (
    GEN_AI_COMPLETION_0_CONTENT,
    TRACELOOP_ENTITY_INPUT,
    TRACELOOP_ENTITY_OUTPUT,
)
from spanscore.dialects.quirk import Quirk
from spanscore.model.json import Json
from spanscore.model.span import Span
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_OPENINFERENCE = "openinference.instrumentation.haystack"
_OPENLLMETRY = "opentelemetry.instrumentation.haystack"

_DEFINED = ("name", "description", "parameters")
"""The keys of a tool's definition for a model; the function that it calls may be printed as an
object, too.
"""

_ROLES = frozenset({"user", "assistant", "system", "tool"})


def chat_messages(items: object) -> tuple[Message, ...] | None:
    """The messages in a list of ChatMessages; None for what is no list of them."""
    if not isinstance(items, list):
        return None
    found = [_message(opened_repr(x) if isinstance(x, str) else x) for x in items]
    return tuple(x for x in found if x is not None) if any(found) or not items else None


def state_messages(state: object) -> tuple[Message, ...] | None:
    """The messages of what a component, an agent or a pipeline was given or returned: its own, else
    its parts'.
    """
    if not isinstance(state, dict):
        return None
    parts = [x for x in state.values() if isinstance(x, dict)]
    found = (chat_messages(x.get(key)) for x in (state, *parts) for key in ("messages", "replies"))
    return next((x for x in found if x), None)


def conversation(given: object, returned: object, facts: Facts) -> None:
    """Add the messages that an agent or pipeline received and produced to the facts of its span.

    The state that an agent returns begins with its instructions and the question; without them it
    is all its own.
    """
    after = state_messages(returned)
    facts["input"], facts["output"] = (
        state_messages(given),
        langchain_messages.after_question(after),
    )
    instructions = [x.text for x in after or () if x.role == "system" and x.text]
    facts["system"] = "\n\n".join(instructions) or None


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of a span of OpenInference's, in place."""
    kind, name = facts["kind"], span.name
    if kind not in {"model", "workflow"}:
        return
    given, returned = (structure(span.attributes.get(x)).value for x in (INPUT_VALUE, OUTPUT_VALUE))
    if kind == "model":
        _complete_model(given, returned, facts)
    elif name.startswith(("Agent.", "Pipeline.", "AsyncPipeline.")):
        facts["kind"] = "agent" if name.startswith("Agent.") else kind
        if isinstance(given, dict) and isinstance(given.get("data"), dict):
            given = given["data"]
        conversation(given, returned, facts)


def read_meta(returned: object) -> Facts:
    """What the metadata of a generator's first reply record: the model, the response's id and the
    token counts.

    They are in the reply itself, or beside replies that are only texts.
    """
    state = returned if isinstance(returned, dict) else {}
    replies = [opened_repr(x) if isinstance(x, str) else x for x in _list(state.get("replies"))[:1]]
    metas = [x.get("meta", x.get("_meta")) for x in replies if _message(x) is not None]
    meta = next((x for x in [*metas, *_list(state.get("meta"))[:1]] if isinstance(x, dict)), {})
    counted = meta.get("usage")
    usage = counted if isinstance(counted, dict) else {}
    return {
        "model": text(meta.get("model")),
        "response_id": identity(meta.get("id")),
        "input_tokens": count(usage.get("prompt_tokens", usage.get("input_tokens"))),
        "output_tokens": count(usage.get("completion_tokens", usage.get("output_tokens"))),
    }


def _complete_model(given: object, returned: object, facts: Facts) -> None:
    """Add what the flattened attributes lack: results, ids, the calls of earlier answers, tools,
    token counts.
    """
    facts["input"] = state_messages(given) or facts.get("input")
    facts["output"] = state_messages(returned) or facts.get("output")
    if facts.get("tools") is None and isinstance(given, dict):
        facts["tools"] = _printed_tools(given.get("tools"))
    add_missing(facts, read_meta(returned))


def _printed_tools(offered: object) -> tuple[Tool, ...] | None:
    """The tools that a generator was given: a list of tools and toolsets, or one toolset, each
    printed by Python.
    """
    given = offered if isinstance(offered, list) else [offered]
    found: list[Any] = []
    for item in (opened_repr(x) if isinstance(x, str) else x for x in given):
        inner = item.get("tools") if isinstance(item, dict) else None
        found += inner if isinstance(inner, list) else [item]
    named = [{key: x.get(key) for key in _DEFINED} for x in found if isinstance(x, dict)]
    return tools(named) or None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def complete_openllmetry(span: Span, facts: Facts) -> None:
    """Add to the facts of a span of OpenLLMetry's, in place.

    Of a chat generator it records nothing but the names of the fields that it returned.
    """
    if facts["kind"] == "model" and span.attributes.get(GEN_AI_COMPLETION_0_CONTENT) == "replies":
        facts["kind"] = "other"
    elif facts["kind"] == "workflow":
        called = opened(span.attributes.get(TRACELOOP_ENTITY_INPUT))
        given = called.get("kwargs") if isinstance(called, dict) else None
        conversation(given, opened(span.attributes.get(TRACELOOP_ENTITY_OUTPUT)), facts)
        if any(x.calls for x in facts["output"] or ()):
            facts["kind"] = "agent"


def _message(item: Any) -> Message | None:
    """A message; its fields begin with an underscore where it was not serialized by Haystack
    itself.
    """
    if not isinstance(item, dict):
        return None
    role, content = item.get("role", item.get("_role")), item.get("content", item.get("_content"))
    if not isinstance(role, str) or role not in _ROLES:
        return None
    if not isinstance(content, list):
        return Message(role, content) if isinstance(content, str) else None
    parts = [x for x in content if isinstance(x, dict)]
    return Message(
        role,
        _joined(x["text"] for x in parts if isinstance(x.get("text"), str)),
        _joined(x for x in map(_thought, parts) if x),
        tuple(x for x in map(_call, parts) if x is not None),
        tuple(x for x in map(_result, parts) if x is not None),
    )


def _joined(texts: Iterable[str]) -> str | None:
    found = list(texts)
    return "\n".join(found) if found else None


def _thought(part: dict[str, Any]) -> str | None:
    reasoning = part.get("reasoning", part)
    thought = reasoning.get("reasoning_text") if isinstance(reasoning, dict) else None
    return thought if isinstance(thought, str) else None


def _call(part: dict[str, Any]) -> RequestedCall | None:
    call = part.get("tool_call", part)
    if not isinstance(call, dict) or not isinstance(call.get("tool_name"), str):
        return None
    return RequestedCall(call_id(call.get("id")), call["tool_name"], call.get("arguments"))


def _result(part: dict[str, Any]) -> ToolResult | None:
    content = part.get("tool_call_result", part)
    if not isinstance(content, dict) or not {"result", "origin"} <= content.keys():
        return None
    origin, value = content["origin"], _returned(content["result"])
    identity = call_id(origin.get("id")) if isinstance(origin, dict) else None
    return ToolResult(identity, value, failure(value) if content.get("error") is True else None)


def _returned(value: Any) -> Json:
    """What a tool returned: text, or a list of text contents that carry no type.

    Version 2 prints it by str().
    """
    if (
        isinstance(value, list)
        and value
        and all(isinstance(x, dict) and x.keys() == {"text"} for x in value)
    ):
        value = "\n".join(str(x["text"]) for x in value)
    returned = result(value)
    return evaluated(returned) if returned == value else returned


QUIRKS = (
    Quirk(
        name="haystack",
        under="openinference",
        scopes=(_OPENINFERENCE,),
        complete=complete_openinference,
        returns_state=True,
    ),
    Quirk(
        name="haystack", under="openllmetry", scopes=(_OPENLLMETRY,), complete=complete_openllmetry
    ),
)
