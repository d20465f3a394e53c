"""A tool call whose places are known, as its sources in their order tell it."""

from spanscore.model.trace import ToolCall
from spanscore.turns.basis.errors import inferred_error
from spanscore.turns.calls.appearances import Call
from spanscore.turns.calls.call_sources import CALL_SOURCES, STATED_ERROR
from spanscore.turns.facts.source import first

_TOLD = tuple(CALL_SOURCES[name] for name in ("arguments", "result", "error", "agent"))


def finished(call: Call) -> tuple[ToolCall, bool]:
    """The call as its sources tell it; and whether its arguments or result were cut or redacted wherever they show."""
    plain = _plainly_told(call)
    if plain is not None:
        return plain, False
    arguments, result, error, agent = (first(sources, call) for sources in _TOLD)
    span = None if call.ran is None else call.ran.step.span
    finished_call = ToolCall(
        call.call_id,
        call.name,
        None if arguments is None else arguments.value,
        None if result is None else result.value,
        None if error is None else error.value,
        None if span is None else span.span_id,
        None if span is None else span.start_ns,
        error is not None and first(STATED_ERROR, call) is None,
        None if agent is None else agent.value,
        returned=result is not None and not result.damaged,  # of a damaged one, what is left of it tells
        ended_ns=None if span is None else span.end_ns,
    )
    return finished_call, bool((arguments and arguments.damaged) or (result and result.damaged))


def _plainly_told(call: Call) -> ToolCall | None:
    """The quick way for what nearly all calls are: a whole request, and a span that tells the result and no error.

    It tells what the sources in their order would, and takes a fifth of the time.
    """
    asked, ran, told = call.request, call.ran, call.told
    if asked is None or ran is None or asked.damaged or not isinstance(asked.call.arguments, dict) or not ran.agent:
        return None
    step = ran.step
    if step.damaged or step.result is None or not step.has_result or step.error or (told and told.result.error):
        return None
    error = inferred_error(step.result)
    return ToolCall(
        call.call_id,
        call.name,
        asked.call.arguments,
        step.result,
        error,
        step.span.span_id,
        step.span.start_ns,
        error is not None,
        ran.agent,
        returned=True,
        ended_ns=step.span.end_ns,
    )
