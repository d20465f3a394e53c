"""Tool results recorded as chat messages."""

from collections.abc import Sequence
from typing import Any

from spanscore.dialects.forms.arguments import failure
from spanscore.dialects.forms.tool_results import (
    answering,
    fields_of,
    named_call,
    provider_answer,
    stated_answer,
)
from spanscore.model.span import changed
from spanscore.model.step import Step

_STATED = frozenset({"content", "tool_call_id", "status"})
_STATUSES = ("success", "error")


def opened(steps: Sequence[Step]) -> list[Step]:
    """The steps; a tool's own object with such fields names no call of this trace, and stays as it
    is.
    """
    named = {
        x.span.span_id: call_id
        for x in steps
        if isinstance(x.result, dict | list) and (call_id := _named_call(x.result))
    }
    requested_ids = {
        call.call_id
        for x in steps
        for message in x.output or ()
        for call in message.calls
        if call.call_id
    }
    if not requested_ids:
        return [_unrequested(_stated(x)) for x in steps]
    answering_ids = {span: call for span, call in named.items() if call in requested_ids}
    return [
        _opened(x, answering_ids[x.span.span_id]) if x.span.span_id in answering_ids else _stated(x)
        for x in steps
    ]


def _named_call(value: dict[str, Any] | list[Any]) -> str | None:
    """The call that a message names, as it is or as LangChain serializes it."""
    if isinstance(value, list):
        return named_call(value)
    if value.keys() == {"output"} and isinstance(value["output"], dict):
        value = value["output"]
    return named_call(fields_of(value)[0]) or named_call(value)


def _stated(step: Step) -> Step:
    if not isinstance(step.result, dict | list):
        return step
    inside = stated_answer(step.result, step.tool_name)
    if inside is None:
        return step
    has_own_error = step.error is not None and step.error != failure(step.result)
    return changed(step, result=inside.value, error=step.error if has_own_error else inside.error)


def _unrequested(step: Step) -> Step:
    """The step with the message opened that states a status and a call, where no model's request
    shows whether it is this one.
    """
    result = step.result
    if not isinstance(result, dict) or result.keys() != _STATED or step.call_id is not None:
        return step
    if result["status"] not in _STATUSES or not isinstance(result["tool_call_id"], str):
        return step
    return _opened(step, result["tool_call_id"])


def _opened(step: Step, named: str) -> Step:
    if step.call_id not in (None, named):
        return step
    inside = provider_answer(step.result, named) or answering(step.result, named)
    if inside is None or inside.call_id != named:
        return step
    return changed(step, result=inside.value, call_id=named, error=step.error or inside.error)
