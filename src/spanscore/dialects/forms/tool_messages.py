"""Open the message to a model that a tool's span has for a result: it names a call that a model of
its trace requested.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spanscore.dialects.forms.envelopes import answering, fields_of
from spanscore.dialects.forms.provider_answers import named_call, provider_answer
from spanscore.model.step import Step


def opened(steps: Sequence[Step]) -> list[Step]:
    """The steps; a tool's own object with such fields names no call of this trace, and stays as it
    is.
    """
    named = {
        x.span.span_id: call_id
        for x in steps
        if isinstance(x.result, dict | list) and (call_id := _named_call(x.result))
    }
    if not named:
        return list(steps)
    requested_ids = {
        call.call_id
        for x in steps
        for message in x.output or ()
        for call in message.calls
        if call.call_id
    }
    answering_ids = {span: call for span, call in named.items() if call in requested_ids}
    return [_opened(x, answering_ids.get(x.span.span_id)) for x in steps]


def _named_call(value: dict[str, Any] | list[Any]) -> str | None:
    """The call that a message names, as it is or as LangChain serializes it."""
    if isinstance(value, list):
        return named_call(value)
    if value.keys() == {"output"} and isinstance(value["output"], dict):
        value = value["output"]
    return named_call(fields_of(value)[0]) or named_call(value)


def _opened(step: Step, named: str | None) -> Step:
    if named is None or step.call_id not in (None, named):
        return step
    inside = provider_answer(step.result, named) or answering(step.result, named)
    if inside is None or inside.call_id != named:
        return step
    return replace(step, result=inside.value, call_id=named, error=step.error or inside.error)
