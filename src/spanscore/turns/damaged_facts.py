"""Name the facts of a turn that arrived cut or redacted, and those that what was cut may have told."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from spanscore.model.step import Message, Step, StepFact
from spanscore.model.trace import Tool, ToolCall
from spanscore.turns.basis import conversation
from spanscore.turns.facts.source import Sourced
from spanscore.turns.facts.turn_steps import TurnSteps
from spanscore.turns.stitch.unmatched_continuations import OF_OTHER_PARTS

_TOLD_BY: dict[str, frozenset[StepFact]] = {
    "user_input": frozenset({"input"}),
    "history": frozenset({"input"}),
    "final_output": frozenset({"output"}),
    "system_instructions": frozenset({"system", "input"}),
    "plan": frozenset({"output"}),
    "available_tools": frozenset({"tools"}),
}
"""For facts that a turn may not tell at all, what of its steps would tell them."""

_OF_ALL_PARTS = OF_OTHER_PARTS | {"final_output"}
_BARE = frozenset({"model", "workflow", "other"})


def damaged(
    turn: TurnSteps,
    found: Mapping[str, Sourced | None],
    tools: tuple[tuple[Tool, ...] | None, bool],
    calls: Sequence[tuple[ToolCall, bool]],
) -> tuple[str, ...]:
    """The names of the facts, sorted. `tools` and `calls` say of themselves whether they were cut."""
    lacking = [x for x in turn.steps if x.damaged or x.span.dropped_links_count]  # mostly none
    lacks_output = any(map(_lost_output, turn.models))
    lost = frozenset[StepFact]().union(*[x.damaged for x in lacking])
    if lacks_output and any(_lost_calls(x.output) for x in turn.models):
        lost |= {"output"}
    names = {name for name, x in found.items() if x is not None and x.damaged}
    if tools[1]:
        names.add("available_tools")
    if any(is_cut for _, is_cut in calls):
        names.add("tool_calls")
    if lacks_output:
        names.add("model_calls")
    if lost:
        told = {name for name, x in found.items() if _is_told(x)}
        if tools[0] is not None:
            told.add("available_tools")
        names.update(_of_lost(turn, told, lost, tools[0] or (), [x for x, _ in calls]))
    names |= _of_other_traces(turn, lacking, is_answered=_is_told(found["final_output"]))
    return tuple(sorted(names))


def _is_told(fact: Sourced | None) -> bool:
    return fact is not None and fact.value not in (None, ())


def _of_lost(
    turn: TurnSteps, told: set[str], lost: frozenset[StepFact], tools: Sequence[Tool], calls: Sequence[ToolCall]
) -> Iterator[str]:
    """The facts of which what the steps have lost may tell more."""
    yield from (name for name, facts in _TOLD_BY.items() if name not in told and not facts.isdisjoint(lost))
    if "tools" in lost and any(None in (x.description, x.parameters) for x in tools):
        yield "available_tools"
    if _may_lack_calls(turn, calls, lost):
        yield "tool_calls"
    yield from _of_other_kinds(turn, told, lost)


def _of_other_kinds(turn: TurnSteps, told: set[str], lost: frozenset[StepFact]) -> Iterator[str]:
    """The facts that steps would tell, or keep apart, if it were known what they stand for, or how they go on."""
    if _may_lack_tokens(turn):
        yield "usage"
    if any(map(_may_be_anything, turn.steps)):
        yield from ("tool_calls", "model_calls", "available_tools")
        yield from _TOLD_BY.keys() - told
    if "input" in lost and _may_be_several(turn, is_asked="user_input" in told):
        yield from _OF_ALL_PARTS


def _of_other_traces(turn: TurnSteps, lacking: Sequence[Step], *, is_answered: bool) -> frozenset[str]:
    """The facts of which other traces may tell more, to which what was cut or dropped would have joined this one."""
    if any(x.span.dropped_links_count for x in lacking):
        return _OF_ALL_PARTS
    if _may_lack_traces(turn, is_answered=is_answered):
        return OF_OTHER_PARTS if is_answered else _OF_ALL_PARTS
    return frozenset()


def _lost_output(model: Step) -> bool:
    if "output" in model.damaged:
        return True
    for message in model.output or ():  # noqa: SIM110 # asked of every model call: a generator would take twice as long
        if message.damaged:
            return True
    return False


def _may_lack_traces(turn: TurnSteps, *, is_answered: bool) -> bool:
    """Whether the turn may have parts in other traces, which what was cut would have joined to this one.

    So it may where only calls of a model show, if in a silent chain, unless they go from a question to an answer.
    """
    if _goes_on(turn):
        return True
    if not turn.main or any(x.kind not in _BARE for x in turn.steps) or not any(map(_is_cut, turn.steps)):
        return False
    if any(map(_tells, turn.workflows)):
        return False
    given = turn.main[0].input or ()
    is_first_asked = bool(given) and conversation.last_said(given) == len(given) - 1
    is_whole = is_first_asked and "input" not in turn.main[0].damaged
    return not (is_whole and is_answered)


def _goes_on(turn: TurnSteps) -> bool:
    """Whether a tool runs before a model is asked, and what was cut would tell whether another trace asked for it."""
    if not turn.main or not turn.tools or "input" not in turn.main[0].damaged:
        return False
    return turn.tools[0].span.start_ns < turn.main[0].span.start_ns


def _is_cut(model: Step) -> bool:
    """Whether what was cut of a model call would tell the calls or results by which its trace is joined to others."""
    lost = not model.damaged.isdisjoint({"input", "output"})
    return lost or _lost_calls(model.input) or _lost_calls(model.output)


def _lost_calls(messages: Sequence[Message] | None) -> bool:
    return any(not x.damaged.isdisjoint({"calls", "results"}) for x in messages or ())


def _may_be_several(turn: TurnSteps, *, is_asked: bool) -> bool:
    """Whether there may be more than one turn: what was cut would tell what each asks, or how they go on."""
    if len(turn.outermost) > 1:
        return True
    if any(map(_tells, turn.workflows)):  # what one function was called with is one question
        return False
    alone = sum(turn.tree.place(x).agents == 0 for x in turn.models)
    is_cut = len(turn.outermost) + alone > 1 and any("input" in x.damaged for x in turn.models)
    return is_cut or (not is_asked and not turn.outermost and len(turn.main) > 1)


def _is_order_unknown(turn: TurnSteps) -> bool:
    """Whether several tools ran between two model calls: only what the first put out tells in which order it asked."""
    kinds = [x.kind for x in sorted([*turn.models, *turn.tools], key=lambda x: x.span.start_ns)]
    return ("tool", "tool") in pairwise(kinds)


def _may_be_anything(step: Step) -> bool:
    """Whether what was cut or dropped of a step would tell what it stands for."""
    if step.kind == "workflow":  # as which some are read whose kind was dropped
        return bool(step.span.dropped_attributes_count and step.damaged) and not _tells(step)
    return step.kind == "other" and bool(step.damaged)


def _tells(step: Step) -> bool:
    told = (step.input, step.output, step.input_text, step.output_text, step.output_json)
    return any(x is not None for x in told)


def _may_lack_tokens(turn: TurnSteps) -> bool:
    """Whether more tokens may have been told than are counted: those of a model call, or, without any, of the turn."""
    if any("tokens" in x.damaged for x in turn.models) or any(map(_may_be_anything, turn.steps)):
        return True
    is_counted = any(x.input_tokens is not None or x.output_tokens is not None for x in turn.steps)
    return not is_counted and any("tokens" in x.damaged for x in turn.steps)


def _may_lack_calls(turn: TurnSteps, calls: Sequence[ToolCall], lost: frozenset[StepFact]) -> bool:
    """Whether what was cut, of what was given or put out, may have told more of the tool calls."""
    if any(x.damaged and not x.tool_name for x in turn.tools):
        return True
    produced = any("output" in x.damaged for x in turn.models)
    if produced and any(x.arguments is None for x in calls):
        return True
    if "output" in lost and _is_order_unknown(turn):
        return True
    is_told = not lost.isdisjoint({"input", "output"})
    if is_told and any(x.result is None and x.error is None for x in calls):  # for "" or 0 some spans say null
        return True
    return produced and not turn.tools
