"""Find the answers of agents whose last tool's result is shown as it is, without another model call
(`skip_summarization`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from spanscore.dialects.keys.gen_ai import GEN_AI_TOOL_NAME
from spanscore.model.json import printed
from spanscore.model.span import STATUS_ERROR
from spanscore.model.step import Step
from spanscore.model.trace import RequestedCall

_TYPE = "gen_ai.tool.type"
_STILL_RUNNING = "LongRunningFunctionTool"
_MOVES_ON: Final = frozenset({"transfer_to_agent", "exit_loop"})
"""Tools that end an agent's run and return nothing to the user."""

_ASKED: Final = frozenset({"model", "agent"})
_MAX_DEPTH = 50


def with_skipped_summaries(steps: Sequence[Step]) -> list[Step]:
    """The steps; an agent's answer is what its tool returned, where the last thing that its model
    did was to request this one call, and the run did not fail.

    After any other result the framework asks the model again.
    """
    if not any(x.kind == "agent" for x in steps):
        return list(steps)
    by_id = {x.span.span_id: x for x in steps}
    inside: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        agent = _agent_around(step, by_id)
        if agent is not None:
            inside[agent.span.span_id].append(step)
    return [
        _answering(x, inside[x.span.span_id]) if x.kind == "agent" and _is_open(x) else x
        for x in steps
    ]


def _agent_around(step: Step, by_id: Mapping[str, Step]) -> Step | None:
    place = by_id.get(step.span.parent_span_id)
    for _ in range(_MAX_DEPTH):
        if place is None or place.kind == "agent":
            return place
        place = by_id.get(place.span.parent_span_id)
    return None


def _is_open(agent: Step) -> bool:
    """Whether a run has no answer so far, and did not fail."""
    has_answer = agent.output or agent.output_text is not None or agent.damaged
    return not has_answer and agent.span.status_code != STATUS_ERROR


def _answering(agent: Step, steps: Sequence[Step]) -> Step:
    models = [x for x in steps if x.kind == "model" and x.output]
    tool = _only_tool(max(models, key=_began), steps) if models else None
    if tool is None or not _is_shown(tool):
        return agent
    # what came after the result would have been given it
    later = [x for x in steps if x.kind in _ASKED and _began(x) >= tool.span.end_ns]
    return agent if later else replace(agent, output_text=printed(tool.result))


def _began(step: Step) -> int:
    return step.span.start_ns


def _only_tool(model: Step, steps: Sequence[Step]) -> Step | None:
    """The tool that ran for the only call that a model requested."""
    calls = [call for message in model.output or () for call in message.calls]
    if len(calls) != 1:
        return None
    ran = [x for x in steps if x.kind == "tool" and _is_of(x, calls[0])]
    return max((x for x in ran if _began(x) >= _began(model)), key=_began, default=None)


def _is_of(tool: Step, call: RequestedCall) -> bool:
    if tool.call_id and call.call_id:
        return tool.call_id == call.call_id
    return tool.tool_name == call.name


def _is_shown(tool: Step) -> bool:
    """Whether a tool returned something that a user can be shown."""
    attributes = tool.span.attributes
    is_done = tool.has_result and tool.result not in (None, "", {}, []) and not tool.error
    return (
        is_done
        and attributes.get(_TYPE) != _STILL_RUNNING
        and attributes.get(GEN_AI_TOOL_NAME) not in _MOVES_ON
    )
