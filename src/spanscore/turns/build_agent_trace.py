"""Merge the steps of one turn into an AgentTrace: each fact from the first of its sources that
records it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spanscore.model.json import loads
from spanscore.model.record import record
from spanscore.model.span import Span
from spanscore.model.step import Message, Step
from spanscore.model.trace import (
    AgentTrace,
    Completeness,
    ModelCall,
    Retrieval,
    Target,
    Tool,
    ToolCall,
    Usage,
)
from spanscore.turns.calls import tool_calls
from spanscore.turns.calls.call_facts import finished
from spanscore.turns.damaged_facts import damaged
from spanscore.turns.facts import sources, trial
from spanscore.turns.facts.source import Sourced, first
from spanscore.turns.facts.turn_steps import TurnSteps


@record()
class Known:
    """What identifies a turn: the same however many of its spans have arrived."""

    trace_ids: tuple[str, ...]
    root_span_id: str | None
    opening_span_id: str
    unread_spans: int
    completeness: Completeness


def build(turn: TurnSteps, opening: Step | None, known: Known) -> AgentTrace:
    """The AgentTrace of one turn; `opening` is the step it starts with where its traces hold
    several turns.
    """
    found = {name: first(sources, turn) for name, sources in sources.SOURCES.items()}
    facts = _values(found)
    tools, are_tools_cut = available_tools(turn)
    calls = [finished(call) for call in tool_calls.rebuild(turn, tools or ())]
    if calls and _is_answer(calls[-1][0], facts.get("final_output")):
        calls = calls[:-1]
    target = turn.target(opening)
    started_ns, ended_ns = _times(turn, target, opening)
    return AgentTrace(
        trace_ids=known.trace_ids,
        root_span_id=known.root_span_id,
        opening_span_id=known.opening_span_id,
        unread_spans=known.unread_spans,
        completeness=known.completeness,
        target=_target(target, turn),
        started_ns=started_ns,
        ended_ns=ended_ns,
        service_name=target.resource.service_name,
        available_tools=tools,
        tool_calls=tuple(call for call, _ in calls) if calls or turn.shows_calls() else None,
        model_calls=tuple(_model_call(model) for model in turn.models),
        retrieved=_retrieved(turn),
        damaged=damaged(turn, found, (tools, are_tools_cut), calls),
        usage=_usage(turn),
        dialects=tuple(sorted({step.dialect for step in turn.steps if step.dialect})),
        trial=trial.trial(turn, target),
        **facts,
    )


def _values(found: Mapping[str, Sourced | None]) -> dict[str, Any]:
    """The values of the facts that are recorded."""
    return {
        name: fact.value
        for name, fact in found.items()
        if fact is not None and fact.value is not None
    }


def _times(turn: TurnSteps, target: Span, opening: Step | None) -> tuple[int, int]:
    """When a turn starts and ends; spans without a start do not count for that."""
    spans = [step.span for step in turn.steps]
    if opening is None:
        spans.append(target)
    started_ns = min((span.start_ns for span in spans if span.start_ns), default=0)
    return started_ns, max(max(span.start_ns, span.end_ns) for span in spans)


def _retrieved(turn: TurnSteps) -> tuple[Retrieval, ...]:
    steps = [step for step in turn.steps if step.kind == "retrieval"]
    return tuple(Retrieval(step.span.span_id, step.query, step.documents) for step in steps)


def _is_answer(call: ToolCall, answer: Any) -> bool:
    """Whether a call that never ran only carries the structured answer, as its arguments."""
    if (
        call.span_id is not None
        or call.returned
        or not isinstance(answer, str)
        or not answer.startswith("{")
    ):
        return False
    try:
        return bool(loads(answer) == call.arguments)
    except ValueError:
        return False


def available_tools(turn: TurnSteps) -> tuple[tuple[Tool, ...] | None, bool]:
    """All tools that were offered in the turn, by name, each with its first description; None where
    no list of tools is recorded.

    A tool without a description in any list has that of its own spans. The second value is whether
    all lists of one of the agents were cut.
    """
    steps = [step for source in sources.OFFERED for step in source.find(turn)]
    lists = [step for step in steps if step.tools is not None or "tools" in step.damaged]
    is_any_cut = any("tools" in step.damaged for step in lists)
    is_damaged = is_any_cut and _lacks_whole_list(lists, turn)
    distinct = {id(step.tools): step.tools for step in lists if step.tools is not None}
    if not distinct:
        return None, is_damaged
    found = _most_described(distinct.values())
    if any(map(_is_bare, found.values())):
        is_described_by_cut = _describe(found, turn)
        is_still_bare = any(map(_is_bare, found.values()))
        is_damaged = is_damaged or is_described_by_cut or (is_any_cut and is_still_bare)
    return tuple(found.values()), is_damaged


def _lacks_whole_list(lists: Sequence[Step], turn: TurnSteps) -> bool:
    """Whether all lists of the tools of one of the agents were cut."""
    cut = {_owner(step, turn) for step in lists if "tools" in step.damaged}
    whole = {_owner(step, turn) for step in lists if step.tools and "tools" not in step.damaged}
    return not cut <= whole


def _most_described(lists: Iterable[Sequence[Tool]]) -> dict[str, Tool]:
    """The tools of several lists by name, each with its first description."""
    found: dict[str, Tool] = {}
    for tools in lists:
        for tool in tools:
            if tool.name not in found or _describes_more(tool, found[tool.name]):
                found[tool.name] = tool
    return found


def _describe(found: dict[str, Tool], turn: TurnSteps) -> bool:
    """Add descriptions from the tools' own spans where a list contains only the name; returns
    whether any of these descriptions was cut.
    """
    damaged = False
    steps = [step for source in sources.DESCRIBED for step in source.find(turn) if step.tools]
    for step in sorted(steps, key=lambda x: "tools" in x.damaged):
        for tool in step.tools or ():
            if tool.name in found and _is_bare(found[tool.name]):
                found[tool.name] = tool
                damaged = damaged or "tools" in step.damaged
    return damaged


def _owner(step: Step, turn: TurnSteps) -> str:
    """The agent whose tools a step lists, by the id of its span; "" for none."""
    agent = step if step.kind == "agent" else turn.tree.place(step).agent
    return "" if agent is None else agent.span.span_id


def _describes_more(tool: Tool, known: Tool) -> bool:
    return _is_bare(known) or (known.parameters is None and tool.parameters is not None)


def _is_bare(tool: Tool) -> bool:
    return tool.description is None and tool.parameters is None


def _usage(turn: TurnSteps) -> Usage:
    """The sums over the steps of the first source that counts anything."""
    for source in sources.TOKENS:
        steps = source.find(turn)
        given = [x.input_tokens for x in steps if x.input_tokens is not None]
        produced = [x.output_tokens for x in steps if x.output_tokens is not None]
        if given or produced:
            return Usage(sum(given) if given else None, sum(produced) if produced else None)
    return Usage()


def _target(span: Span, turn: TurnSteps) -> Target:
    """The target of the turn's scores.

    A span that stands for log records is replaced by the span that they were written under, if
    there is one, which may have ended before.
    """
    model = next((x for x in turn.models if x.span is span), None)
    trace_id, span_id = span.trace_id, span.span_id
    if not span.recorded:
        trace_id, span_id = next(((x.trace_id, x.span_id) for x in span.links), (trace_id, ""))
        span = turn.tree.span(span_id) or span
    return Target(
        trace_id,
        span_id,
        span.start_ns,
        span.end_ns,
        span.resource.attributes,
        None if model is None else model.response_id,
    )


def _model_call(step: Step) -> ModelCall:
    output: Sequence[Message] = step.output or ()
    texts = [x.text for x in output if x.text is not None]
    thoughts = [x.reasoning for x in output if x.reasoning]
    return ModelCall(
        step.span.span_id,
        step.model,
        "\n".join(texts) if texts else None,
        "\n".join(thoughts) if thoughts else None,
        tuple([call for x in output for call in x.calls]),
        step.input_tokens,
        step.output_tokens,
        step.span.start_ns,
        step.span.end_ns,
        step.response_id,
    )
