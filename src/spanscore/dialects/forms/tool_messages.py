"""Open the tool message that a tool's span has for a result: it names a call that a model of its
trace requested.
"""

from collections.abc import Sequence
from dataclasses import replace

from spanscore.dialects.forms.envelopes import answering
from spanscore.model.step import Step

_FIELDS = {"content", "tool_call_id"}


def opened(steps: Sequence[Step]) -> list[Step]:
    """The steps; a tool's own object with such fields names no call of this trace, and stays as it
    is.
    """
    span_ids = {
        x.span.span_id for x in steps if isinstance(x.result, dict) and x.result.keys() >= _FIELDS
    }
    if not span_ids:
        return list(steps)
    requested_ids = {
        call.call_id
        for x in steps
        for message in x.output or ()
        for call in message.calls
        if call.call_id
    }
    return [_opened(x, requested_ids) if x.span.span_id in span_ids else x for x in steps]


def _opened(step: Step, requested_ids: set[str]) -> Step:
    named = step.result.get("tool_call_id") if isinstance(step.result, dict) else None
    if (
        not isinstance(named, str)
        or named not in requested_ids
        or step.call_id not in (None, named)
    ):
        return step
    inside = answering(step.result, named)
    if inside is None:
        return step
    return replace(step, result=inside.value, call_id=named, error=step.error or inside.error)
