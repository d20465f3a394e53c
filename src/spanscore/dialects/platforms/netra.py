"""Netra: its decorators' spans, and models' calls as messages of JSON."""

from typing import Any, Final

from spanscore.dialects import keys
from spanscore.dialects.conventions import openllmetry
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, Items, Quirk
from spanscore.dialects.forms.arguments import arguments
from spanscore.dialects.forms.decorated_calls import damaged, read_recorded
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    as_object,
    identity,
    is_redacted,
    opened,
    opened_repr,
    structure,
    text,
)
from spanscore.model.span import Span, changed
from spanscore.model.step import StepKind

_TYPE = "netra.span.type"
_INSTRUMENTATION = "netra.instrumentation.name"
_KINDS: Final[dict[str, StepKind]] = {"AGENT": "agent", "TOOL": "tool", "SPAN": "workflow"}
_CALLS_MODELS = "netra.trace.llm.call"
"""Of the span around all: model calls were made, whose tokens are lost where none is there."""

_FINISH_REASON = ".finish_reason"  # in a message of its own
_CALL = frozenset({"name", "arguments"})
_PRINTED = {"None": None, "True": True, "False": False}
"""What str() prints of a result that is neither text nor a number; lists and objects are JSON."""


def read(span: Span, context: Context) -> Facts:
    """The facts of a decorated function's span, or of a model call's."""
    kind = _KINDS.get(str(span.attributes.get(_TYPE)))
    if kind is None:
        facts = openllmetry.read(span, changed(context, quirk=_INDEXED))
        facts["finish_reasons"] = tuple(
            str(reason)
            for key, reason in span.attributes.items()
            if key.startswith(keys.GEN_AI_COMPLETION_PREFIX) and key.endswith(_FINISH_REASON)
        )
    else:
        facts = {"kind": kind}
        _read_function(span, facts, outermost=context.outermost)
    return facts | named(span)


def named(span: Span) -> Facts:
    """The session and user that it puts on each span."""
    attributes = span.attributes
    return {
        "session_id": identity(attributes.get("netra.session_id")),
        "user_id": identity(attributes.get("netra.user_id")),
    }


def _read_function(span: Span, facts: Facts, *, outermost: bool) -> None:
    """What a function was called with, by the names of its parameters, and returned.

    Its span starts with an empty input and output, and a function that failed has no status.
    """
    given, returned = span.attributes.get("input"), span.attributes.get("output")
    failed = text(span.attributes.get("netra.entity.error"))
    if failed:
        facts["error"], facts["ending"] = status_error(span) or failed, "failed"
    if facts["kind"] == "tool":
        facts["tool_name"] = text(span.name)
        facts["damaged"] = damaged(arguments=given, result=returned)
        if given is not None and not is_redacted(given):
            facts["arguments"] = arguments(given) if given else {}
        if returned is not None and not failed and not is_redacted(returned):
            facts["result"] = _PRINTED.get(str(returned), opened(returned))
            facts["has_result"] = True
    elif facts["kind"] == "agent" or outermost:
        facts["agent_name"] = text(span.name) if facts["kind"] == "agent" else None
        read_recorded(given or None, returned or None, facts)
        if span.attributes.get(_CALLS_MODELS) is True:
            add_damaged(facts, "tokens")


def opened_items(_span: Span, items: Items) -> Items:
    """Flattened messages as they were: each call that a message requested is a message of JSON
    after it, and blocks are printed.
    """
    found: Items = []
    for item in items:
        call = _call(item)
        if call is None and "role" in item:
            content = item.get("content")
            blocks = opened_repr(content) if str(content).startswith("[{'") else None
            found.append({**item, "content": blocks or content})
        elif call is not None:
            before = found[-1] if found and found[-1].get("role") == "assistant" else None
            if before is None:
                before = {"role": "assistant"}
                found.append(before)
            calls = before.setdefault("tool_calls", {})
            calls[str(len(calls))] = call
    return found


def _call(item: dict[str, Any]) -> dict[str, Any] | None:
    content = item.get("content")
    if item.get("role") != "assistant" or not str(content).startswith('{"name":'):
        return None
    call = as_object(structure(content).value)
    return {"id": item.get("tool_call_id"), **call} if call.keys() == _CALL else None


_INDEXED = Quirk(name="netra", under="openllmetry", items=opened_items)

DIALECT = Dialect(
    "netra",
    read,
    keys=(_TYPE, _INSTRUMENTATION),
    prefilters=(_TYPE.encode(), _INSTRUMENTATION.encode()),
    name_session=named,
    content=(ContentSwitch("set NETRA_TRACE_CONTENT=true"),),
)
