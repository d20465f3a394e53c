"""Agent traces built from steps."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from spanscore.model.json import loads
from spanscore.model.span import Span, record
from spanscore.model.step import Message, Reading, Step
from spanscore.model.trace import (
    AgentTrace,
    Attachment,
    Completeness,
    ModelCall,
    Retrieval,
    Target,
    ToolCall,
    TurnOutcome,
)
from spanscore.turns.basis import conversation
from spanscore.turns.basis.conversation import Tree
from spanscore.turns.calls import tool_calls
from spanscore.turns.calls.call_facts import finished
from spanscore.turns.damaged_facts import Lost, damaged, lost_of
from spanscore.turns.facts import agent, source, user_input
from spanscore.turns.facts.agent import available_tools, usage
from spanscore.turns.facts.source import FirstOf, Sourced, TurnSteps, first
from spanscore.turns.split import split
from spanscore.turns.stitch.stitcher import merge

SOURCES: dict[str, FirstOf[TurnSteps]] = {
    "user_input": user_input.QUESTION_SOURCES,
    "final_output": user_input.SOURCES,
    "system_instructions": agent.INSTRUCTION_SOURCES,
    "plan": user_input.PLAN_SOURCES,
    "history": user_input.HISTORY_SOURCES,
    "session_id": agent.SESSION_SOURCES,
    "user_id": agent.USER_SOURCES,
    "agent_name": agent.NAME_SOURCES,
    "expected": source.EXPECTED_SOURCES,
}
"""For each fact its sources: the first that has a value counts."""


@record()
class Known:
    """What identifies a turn: the same however many of its spans have arrived."""

    trace_ids: tuple[str, ...]
    root_span_id: str | None
    opening_span_id: str
    unread_spans: int
    completeness: Completeness


def agent_trace_of(turn: TurnSteps, opening: Step | None, known: Known) -> AgentTrace:
    """The AgentTrace of one turn; `opening` is the step it starts with where its traces hold
    several turns.
    """
    found = {name: first(sources, turn) for name, sources in SOURCES.items()}
    facts = _values(found)
    tools, are_tools_cut = available_tools(turn)
    rebuilt = tool_calls.rebuild(turn, tools or ())
    tokens = usage(turn)
    lost = lost_of(turn, found, rebuilt, tokens)
    calls = [finished(call) for call in rebuilt]
    if calls and _is_answer(calls[-1][0], facts.get("final_output")):
        calls = calls[:-1]
    target = turn.target(opening)
    outcome, error = _outcome(turn, facts.get("final_output"), [call for call, _ in calls])
    started_ns, ended_ns = _times(turn, target, opening)
    return AgentTrace(
        trace_ids=known.trace_ids,
        root_span_id=known.root_span_id,
        opening_span_id=known.opening_span_id,
        unread_spans=known.unread_spans,
        completeness=_completeness(known, lost),
        outcome=outcome,
        error=error,
        target=_target(target, turn),
        started_ns=started_ns,
        ended_ns=ended_ns,
        service_name=target.resource.service_name,
        available_tools=tools,
        tool_calls=tuple(call for call, _ in calls) if calls or turn.shows_calls() else None,
        model_calls=_model_calls(turn),
        retrieved=_retrieved(turn),
        damaged=tuple(
            sorted(lost.facts.union(damaged(turn, found, (tools, are_tools_cut), calls)))
        ),
        usage=tokens,
        dialects=tuple(sorted({step.dialect for step in turn.steps if step.dialect})),
        trial=agent.trial(turn, target),
        attachments=_attachments(found["user_input"]),
        **facts,
    )


def _completeness(known: Known, lost: Lost) -> Completeness:
    is_partial = known.completeness == "complete" and lost.is_partial
    return "partial" if is_partial else known.completeness


_WAITING = "interrupt"
"""What finish reasons contain where the agent stopped for a person."""

_REFUSED = frozenset({"content_filter", "content-filter", "safety", "error"})
"""Finish reasons, in lower case, of a model that gave no answer."""


def _outcome(
    turn: TurnSteps, answer: str | None, calls: Sequence[ToolCall]
) -> tuple[TurnOutcome, str | None]:
    """How a turn ended, and the error of one that failed.

    An exception that leaves the agent decides, and the answer before the steps inside: what failed
    there may have been tried again. Without an answer it is the last model call or tool call that
    did not succeed, then what encloses them.
    """
    outermost = turn.outermost[-1:]
    ended = _ended(outermost) or (None if answer else _waiting(turn, calls))
    if ended is not None:
        return ended
    if answer:
        return "answered", None
    inside = sorted((*turn.main, *turn.facing, *turn.tools), key=_ended_ns)
    for steps in (inside[-1:], turn.main[-1:], turn.first_agent, turn.workflows):
        ended = _ended(steps)
        if ended is not None:
            return ended
    reasons = turn.main[-1].finish_reasons if turn.main else ()
    refused = [x for x in reasons if x.lower() in _REFUSED]
    return ("failed", refused[0]) if refused else ("unknown", None)


def _ended(steps: Sequence[Step]) -> tuple[TurnOutcome, str | None] | None:
    """How the first of the steps ended that did not succeed."""
    step = next((x for x in steps if x.ending is not None), None)
    if step is None or step.ending is None:
        return None
    return step.ending, step.error if step.ending == "failed" else None


def _waiting(turn: TurnSteps, calls: Sequence[ToolCall]) -> tuple[TurnOutcome, str | None] | None:
    """That a turn waits, where one of its calls did and has no result so far."""
    open_spans = {x.span_id for x in calls if x.span_id and not x.returned and x.error is None}
    for step in turn.steps:
        is_open = step.kind != "tool" or step.span.span_id in open_spans
        stopped = any(_WAITING in x.lower() for x in step.finish_reasons)
        if (step.ending == "waiting" and is_open and step.kind == "tool") or stopped:
            return "waiting", None
    return None


def _ended_ns(step: Step) -> int:
    return step.span.end_ns


def _attachments(question: Sourced | None) -> tuple[Attachment, ...]:
    """The attachments of the message that a question was found in."""
    given = None if question is None or question.field != "input" else question.step.input
    at = conversation.last_user_message(given or ())
    return given[at].attachments if given and at >= 0 else ()


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


def _model_calls(turn: TurnSteps) -> tuple[ModelCall, ...]:
    return tuple(_model_call(x, utility=x.span.span_id in turn.utilities) for x in turn.models)


def _model_call(step: Step, *, utility: bool) -> ModelCall:
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
        utility,
        step.cache_read_tokens,
        step.cache_write_tokens,
        step.reasoning_tokens,
        step.previous_response_id,
    )


Watch: TypeAlias = Callable[[AgentTrace, TurnSteps, Reading], None]
"""Called with each agent trace that is built, with the turn and the reading that it was built
from.
"""


def build(
    *readings: Reading,
    completeness: Completeness = "complete",
    within: Mapping[str, str] = MappingProxyType({}),
    watch: Watch | None = None,
    later: Collection[str] = (),
) -> list[AgentTrace]:
    """Build the agent traces of one OTel trace, or of the traces that `group` found to be of one
    turn.

    `within` maps the id of a trace to the span of the tool call that requested that trace. `later`
    has the ids of traces of which earlier turns were built before: they keep their ids.

    The result is in order of time, oldest first. It is empty where no agent and no model call is
    recorded: tool calls, retrievals and bookkeeping alone are no agent trace. A workflow counts as
    an agent where it records its input or output, as a chain does whose model is not instrumented.
    The `unread_spans` of each turn are those of all the traces.
    """
    reading = readings[0] if len(readings) == 1 else merge(readings, within)
    if reading is None:
        return [
            trace
            for each in readings
            for trace in build(each, completeness=completeness, watch=watch, later=later)
        ]
    if not any(x.kind in {"agent", "model"} or _records_content(x) for x in reading.steps):
        return []
    tree = Tree(reading)
    turns = split(reading.steps, tree)
    if len(readings) > 1:
        groups = _by_shared_turn(readings, [steps for _, steps in turns])
        if len(groups) > 1:
            built = (
                build(*group, completeness=completeness, within=within, watch=watch, later=later)
                for group in groups
            )
            return [trace for traces in built for trace in traces]
    found: list[AgentTrace] = []
    begun = set(later)
    for opening, steps in turns:
        known = _known(readings, opening, steps, tree, begun, completeness)
        begun.update(known.trace_ids)
        turn = TurnSteps(steps, tree)
        found.append(agent_trace_of(turn, opening, known))
        if watch is not None:
            watch(found[-1], turn, reading)
    return found


def _records_content(step: Step) -> bool:
    return any(x is not None for x in (step.input, step.output, step.input_text, step.output_text))


def _known(
    readings: Sequence[Reading],
    opening: Step | None,
    steps: Sequence[Step],
    tree: Tree,
    begun: set[str],
    completeness: Completeness,
) -> Known:
    """What identifies a turn.

    The first turn of a trace keeps its id when a second one arrives.
    """
    first = opening.span if opening is not None and begun else tree.top
    trace_id, span_id = ("", "") if first is None else (first.trace_id, first.span_id)
    root = tree.root_of(trace_id)
    other_reports = [
        reading.other_reports[step.span.span_id]
        for reading in readings
        if reading.other_reports
        for step in steps
        if step.span.span_id in reading.other_reports
    ]
    return Known(
        tuple(dict.fromkeys([trace_id, *[x.span.trace_id for x in (*steps, *other_reports)]])),
        None if root is None or not root.recorded else root.span_id,
        span_id if trace_id in begun else tree.opening_id(trace_id),
        sum(x.unread for x in readings),
        completeness,
    )


def _by_shared_turn(
    readings: Sequence[Reading], turns: Sequence[Sequence[Step]]
) -> list[list[Reading]]:
    """The readings in groups: those that share a turn are in one."""
    groups = [[number] for number in range(len(readings))]
    at = {
        span.trace_id: number for number, reading in enumerate(readings) for span in reading.spans
    }
    for steps in turns:
        numbers = dict.fromkeys(at[x.span.trace_id] for x in steps)
        first = next(iter(numbers))
        for number in numbers:
            one, other = groups[first], groups[number]
            if one is not other:
                one += other
                for moved in other:
                    groups[moved] = one
    return [
        [readings[number] for number in sorted(group)]
        for group in {id(x): x for x in groups}.values()
    ]


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
