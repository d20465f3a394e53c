"""Merge the steps of one turn into an AgentTrace: each fact from the first of its sources that
records it.
"""

from collections.abc import Mapping, Sequence
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
    ToolCall,
)
from spanscore.turns.calls import tool_calls
from spanscore.turns.calls.call_facts import finished
from spanscore.turns.damaged_facts import damaged
from spanscore.turns.facts import trial
from spanscore.turns.facts.available_tools import available_tools
from spanscore.turns.facts.source import Sourced, first
from spanscore.turns.facts.sources import SOURCES
from spanscore.turns.facts.turn_steps import TurnSteps
from spanscore.turns.facts.usage import usage


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
    found = {name: first(sources, turn) for name, sources in SOURCES.items()}
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
        usage=usage(turn),
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
