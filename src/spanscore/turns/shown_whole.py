"""Whether the record of a turn shows by itself that nothing of the turn is missing."""

from collections.abc import Sequence

from spanscore.model.trace import AgentTrace


def shows_whole(traces: Sequence[AgentTrace]) -> bool:
    """Whether there are turns, and each records its question, its answer and an outcome of each
    tool call, with nothing cut or redacted.

    What no record mentions may be missing all the same, such as a sub-agent whose spans have not
    arrived when its agent has answered.
    """
    return bool(traces) and all(_is_whole(trace) for trace in traces)


def _is_whole(trace: AgentTrace) -> bool:
    if trace.user_input is None or not trace.final_output or trace.damaged:
        return False
    calls = trace.tool_calls or ()
    if any(not call.returned and call.error is None for call in calls):
        return False
    made = {name for call in calls for name in (call.call_id, call.name) if name}
    requested = (request for call in trace.model_calls for request in call.tool_calls)
    return all(request.call_id in made or request.name in made for request in requested)
