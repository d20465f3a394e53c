"""Facts of a turn that arrived cut or redacted, or not at all."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from spanscore.model.span import record
from spanscore.model.step import Message, Step, StepFact
from spanscore.model.trace import Tool, ToolCall, Usage
from spanscore.turns.basis import conversation
from spanscore.turns.basis.tool_boundary import requests_tools
from spanscore.turns.calls.call_facts import Call
from spanscore.turns.facts.source import Sourced, TurnSteps
from spanscore.turns.stitch.stitcher import OF_OTHER_PARTS

_RECORDED_IN: dict[str, frozenset[StepFact]] = {
    "user_input": frozenset({"input"}),
    "history": frozenset({"input"}),
    "final_output": frozenset({"output"}),
    "system_instructions": frozenset({"system", "input"}),
    "plan": frozenset({"output"}),
    "available_tools": frozenset({"tools"}),
}
"""For facts that a turn may lack, the facts of its steps that they would be taken from."""

_OF_ALL_PARTS = OF_OTHER_PARTS | {"final_output"}
_BARE = frozenset({"model", "workflow", "other"})


def damaged(
    turn: TurnSteps,
    found: Mapping[str, Sourced | None],
    tools: tuple[tuple[Tool, ...] | None, bool],
    calls: Sequence[tuple[ToolCall, bool]],
) -> tuple[str, ...]:
    """The names of the damaged facts, sorted.

    `tools` and each of `calls` come with whether they were cut.
    """
    # mostly none
    lacking = [step for step in turn.steps if step.damaged or step.span.dropped_links_count]
    lacks_output = any(map(_lost_output, turn.models))
    names = {name for name, fact in found.items() if fact is not None and fact.damaged}
    names.update(_cut_lists(lacks_output=lacks_output, are_tools_cut=tools[1], calls=calls))
    lost = frozenset[StepFact]().union(*(step.damaged for step in lacking))
    if lacks_output and any(_lost_calls(model.output) for model in turn.models):
        lost |= {"output"}
    if lost:
        recorded = _recorded(found, has_tools=tools[0] is not None)
        names.update(_of_lost(turn, recorded, lost, tools[0] or (), [call for call, _ in calls]))
    names |= _of_other_traces(turn, lacking, is_answered=_is_recorded(found["final_output"]))
    return tuple(sorted(names))


def _recorded(found: Mapping[str, Sourced | None], *, has_tools: bool) -> set[str]:
    """The names of the facts that are recorded."""
    recorded = {name for name, fact in found.items() if _is_recorded(fact)}
    if has_tools:
        recorded.add("available_tools")
    return recorded


def _cut_lists(
    *, lacks_output: bool, are_tools_cut: bool, calls: Sequence[tuple[ToolCall, bool]]
) -> Iterator[str]:
    """The lists of a turn of which an entry, or all, was cut."""
    if are_tools_cut:
        yield "available_tools"
    if any(is_cut for _, is_cut in calls):
        yield "tool_calls"
    if lacks_output:
        yield "model_calls"


def _is_recorded(fact: Sourced | None) -> bool:
    return fact is not None and fact.value not in (None, ())


def _of_lost(
    turn: TurnSteps,
    recorded: set[str],
    lost: frozenset[StepFact],
    tools: Sequence[Tool],
    calls: Sequence[ToolCall],
) -> Iterator[str]:
    """The facts of which cut or dropped steps may have contained more."""
    yield from (
        name
        for name, facts in _RECORDED_IN.items()
        if name not in recorded and not facts.isdisjoint(lost)
    )
    if "tools" in lost and any(None in (x.description, x.parameters) for x in tools):
        yield "available_tools"
    if _may_lack_calls(turn, calls, lost):
        yield "tool_calls"
    yield from _of_other_kinds(turn, recorded, lost)


def _of_other_kinds(
    turn: TurnSteps, recorded: set[str], lost: frozenset[StepFact]
) -> Iterator[str]:
    """The facts that depend on steps whose kind, tokens or order is not known."""
    if _may_lack_tokens(turn):
        yield "usage"
    if any(map(_may_be_anything, turn.steps)):
        yield from ("tool_calls", "model_calls", "available_tools")
        yield from _RECORDED_IN.keys() - recorded
    if "input" in lost and _may_be_several(turn, has_question="user_input" in recorded):
        yield from _OF_ALL_PARTS


def _of_other_traces(
    turn: TurnSteps, lacking: Sequence[Step], *, is_answered: bool
) -> frozenset[str]:
    """The facts of which another trace may contain more that could not be joined to this one, since
    what would join them was cut or dropped.
    """
    if any(x.span.dropped_links_count for x in lacking):
        return _OF_ALL_PARTS
    if _may_lack_traces(turn, is_answered=is_answered):
        return OF_OTHER_PARTS if is_answered else _OF_ALL_PARTS
    return frozenset()


def _lost_output(model: Step) -> bool:
    if "output" in model.damaged:
        return True
    for message in (
        model.output or ()
    ):  # called for every model call: a generator would take twice as long
        if message.damaged and message.damaged != conversation.UNREADABLE:
            return True
    return False


def _may_lack_traces(turn: TurnSteps, *, is_answered: bool) -> bool:
    """Whether another trace may be part of the turn and could not be joined, since what would join
    them was cut.

    That may be so where only model calls are recorded, if in a chain without content, unless they
    lead from a question to an answer.
    """
    if _goes_on(turn):
        return True
    if (
        not turn.main
        or any(x.kind not in _BARE for x in turn.steps)
        or not any(map(_is_cut, turn.steps))
    ):
        return False
    if any(map(_records_content, turn.workflows)):
        return False
    given = turn.main[0].input or ()
    ends_with_question = bool(given) and conversation.last_user_message(given) == len(given) - 1
    is_whole = ends_with_question and "input" not in turn.main[0].damaged
    return not (is_whole and is_answered)


def _goes_on(turn: TurnSteps) -> bool:
    """Whether a tool runs before the first model call, whose input was cut: the tool may have been
    requested in another trace.
    """
    if not turn.main or not turn.tools or "input" not in turn.main[0].damaged:
        return False
    return turn.tools[0].span.start_ns < turn.main[0].span.start_ns


def _is_cut(model: Step) -> bool:
    """Whether a model call may have lost the calls or results by which its trace is joined to
    others.
    """
    lost = not model.damaged.isdisjoint({"input", "output"})
    return lost or _lost_calls(model.input) or _lost_calls(model.output)


def _lost_calls(messages: Sequence[Message] | None) -> bool:
    return any(not x.damaged.isdisjoint({"calls", "results"}) for x in messages or ())


def _may_be_several(turn: TurnSteps, *, has_question: bool) -> bool:
    """Whether there may be more than one turn: their questions may have been cut."""
    if len(turn.outermost) > 1:
        return True
    # what one function was called with is one question
    if any(map(_records_content, turn.workflows)):
        return False
    alone = sum(turn.tree.place(x).agents == 0 for x in turn.models)
    is_cut = len(turn.outermost) + alone > 1 and any("input" in x.damaged for x in turn.models)
    return is_cut or (not has_question and not turn.outermost and len(turn.main) > 1)


def _is_order_unknown(turn: TurnSteps) -> bool:
    """Whether several tools ran between two model calls: only the first one's output has the order
    of its requests.
    """
    kinds = [x.kind for x in sorted([*turn.models, *turn.tools], key=lambda x: x.span.start_ns)]
    return ("tool", "tool") in pairwise(kinds)


def _may_be_anything(step: Step) -> bool:
    """Whether the kind of a step is not known, since some of its span was cut or dropped."""
    if step.kind == "workflow":  # as which some are read whose kind was dropped
        return bool(step.span.dropped_attributes_count and step.damaged) and not _records_content(
            step
        )
    return step.kind == "other" and bool(step.damaged)


def _records_content(step: Step) -> bool:
    contents = (step.input, step.output, step.input_text, step.output_text, step.output_json)
    return any(x is not None for x in contents)


def _may_lack_tokens(turn: TurnSteps) -> bool:
    """Whether counts of tokens may have been lost: of a model call, or of the turn where no model
    call has any.
    """
    if any("tokens" in x.damaged for x in turn.models) or any(map(_may_be_anything, turn.steps)):
        return True
    is_counted = any(x.input_tokens is not None or x.output_tokens is not None for x in turn.steps)
    return not is_counted and any("tokens" in x.damaged for x in turn.steps)


def _may_lack_calls(turn: TurnSteps, calls: Sequence[ToolCall], lost: frozenset[StepFact]) -> bool:
    """Whether an input or output that was cut may have contained more tool calls."""
    if any(x.damaged and not x.tool_name for x in turn.tools):
        return True
    produced = any("output" in x.damaged for x in turn.models)
    if produced and any(x.arguments is None for x in calls):
        return True
    if "output" in lost and _is_order_unknown(turn):
        return True
    is_cut = not lost.isdisjoint({"input", "output"})
    # for "" or 0 some spans record null
    if is_cut and any(x.result is None and x.error is None for x in calls):
        return True
    return produced and not turn.tools


_OF_MODELS = frozenset({"model_calls", "usage"})
_OF_CALLS = frozenset({"tool_calls"})
_OF_ANY = ("user_input", "final_output", "system_instructions", "plan", "history")


@record()
class Lost:
    """What shows that spans are missing: whether some are, and the facts that may be short."""

    is_partial: bool
    facts: frozenset[str]


def lost_of(
    turn: TurnSteps, found: Mapping[str, Sourced | None], calls: Sequence[Call], usage: Usage
) -> Lost:
    """The facts that may be short since a model call or a tool call is known of which no span is
    there, or since nothing records them in a turn of which a parent did not arrive.
    """
    facts: set[str] = set()
    is_answered = _has_value(found["final_output"])
    if _lacks_models(turn, calls, is_answered=is_answered):
        facts |= _OF_MODELS
    if _lacks_results(turn, calls, is_answered=is_answered):
        facts |= _OF_CALLS
    lacks_parent = _lacks_parent(turn)
    if lacks_parent and not turn.models:
        facts |= _OF_MODELS | _OF_CALLS
    is_partial = lacks_parent or bool(facts)
    if is_partial and facts != _OF_CALLS:
        facts.update(name for name in _OF_ANY if not _has_value(found[name]))
    if _lacks_usage(turn, usage):
        facts.add("usage")
    return Lost(is_partial, frozenset(facts))


def _lacks_parent(turn: TurnSteps) -> bool:
    """Whether a span of the turn names a parent that did not arrive."""
    parent = turn.tree.parent
    return any(x.span.parent_span_id and parent(x.span) is None for x in turn.steps)


def _lacks_usage(turn: TurnSteps, usage: Usage) -> bool:
    """Whether an agent answered without a model call that could have counted its tokens."""
    is_counted = usage.input_tokens is not None or usage.output_tokens is not None
    return not turn.models and not is_counted and 0 < len(turn.agents) < len(turn.steps)


def _has_value(fact: Sourced | None) -> bool:
    """Whether a fact is recorded, if only as an empty one."""
    return fact is not None and fact.value is not None


def _lacks_models(turn: TurnSteps, calls: Sequence[Call], *, is_answered: bool) -> bool:
    """Whether tools were requested by no model call that is there, or a request is the last that
    the model of an agent produced which answered.
    """
    if not turn.main:
        return False
    if is_answered and conversation.waits_for_tools(turn.main[-1].output or ()):
        return True
    # where outputs are not recorded, or without calls, any of these may have requested it
    silent = [x for x in turn.models if x.output is None or _is_silent(x)]
    return any(_is_unrequested(call, turn, silent) for call in calls)


def _is_silent(model: Step) -> bool:
    return requests_tools(model) and not any(x.calls for x in model.output or ())


def _is_unrequested(call: Call, turn: TurnSteps, silent: Sequence[Step]) -> bool:
    """Whether a call is one of the main agent that a later input repeats, or that its tool's span
    shows before any model call, and that no model call can have requested.
    """
    if call.request is not None:
        return False
    if call.repeated is not None:
        # else its order is that of the model call that was given what stands before it
        is_unknown = call.order[0] >= call.repeated.step.span.start_ns
        return call.ran is None and is_unknown and not silent
    if call.ran is None:
        return False
    step = call.ran.step
    place = turn.tree.place(step)
    return not place.in_tool and place.model is None and _is_first(step, turn)


def _is_first(step: Step, turn: TurnSteps) -> bool:
    return step.span.start_ns < turn.models[0].span.start_ns


def _lacks_results(turn: TurnSteps, calls: Sequence[Call], *, is_answered: bool) -> bool:
    """Whether a call was requested of which no outcome is there, though the turn went on."""
    if not turn.main:
        return False
    last = turn.main[-1].span.span_id
    return any(
        call.ran is None
        and not call.has_result
        and call.request is not None
        and (is_answered or call.request.step.span.span_id != last)
        for call in calls
    )
