"""Whether agent traces show by themselves that nothing of them is missing."""

from collections.abc import Sequence

from spanscore.model.trace import AgentTrace


def shows_whole(traces: Sequence[AgentTrace]) -> bool:
    """Whether each of these turns, at least one, has its question, its answer, and an outcome of
    each tool call.

    Nothing of it was cut or masked either. What no record shows may be missing all the same: an
    agent that answers without the sub-agent whose spans are still on their way.
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
