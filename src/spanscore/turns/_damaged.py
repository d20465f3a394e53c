"""Name the facts of a turn that arrived cut or redacted, and those that what was cut may have told."""

from collections.abc import Mapping, Sequence

from spanscore.model.step import Message, Step, StepFact
from spanscore.model.trace import Tool, ToolCall
from spanscore.turns import _conversation
from spanscore.turns._found import Found
from spanscore.turns._sorted import Turn
from spanscore.turns._unjoined import OF_OTHER_PARTS

_TOLD_BY: dict[str, frozenset[StepFact]] = {
    "user_input": frozenset({"input"}),
    "history": frozenset({"input"}),
    "final_output": frozenset({"output"}),
    "system_instructions": frozenset({"system", "input"}),
    "plan": frozenset({"output"}),
    "available_tools": frozenset({"tools"}),
}
"""For facts that a turn may not tell at all, what of its steps would tell them."""

_BARE = frozenset({"model", "workflow", "other"})


def damaged(
    turn: Turn,
    found: Mapping[str, Found | None],
    tools: tuple[tuple[Tool, ...] | None, bool],
    calls: Sequence[tuple[ToolCall, bool]],
) -> tuple[str, ...]:
    """The names of the facts, sorted. `tools` and `calls` say of themselves whether they were cut."""
    names = {name for name, x in found.items() if x is not None and x.damaged}
    names |= {"available_tools"} if tools[1] else set()
    names |= {"tool_calls"} if any(is_cut for _, is_cut in calls) else set()
    names |= {"model_calls"} if any(map(_lost_output, turn.models)) else set()
    lost = frozenset[StepFact]().union(*[x.damaged for x in turn.steps])
    if "model_calls" in names and "output" not in lost and any(_lost_calls(x.output) for x in turn.models):
        lost |= {"output"}
    told = {name for name, x in found.items() if x is not None and x.value not in (None, ())}
    if lost:
        told |= set() if tools[0] is None else {"available_tools"}
        names |= {"usage"} if _may_lack_tokens(turn) else set()
        names |= {"tool_calls"} if _may_lack_calls(turn, [x for x, _ in calls], lost) else set()
        names |= {name for name, facts in _TOLD_BY.items() if name not in told and not facts.isdisjoint(lost)}
        if any(map(_may_be_anything, turn.steps)):
            names |= {"tool_calls", "model_calls", *(x for x in _TOLD_BY if x not in told)}
        if "input" in lost and _may_be_several(turn, is_asked="user_input" in told):
            names |= {*OF_OTHER_PARTS, "final_output"}
    if _may_lack_traces(turn, is_answered="final_output" in told):
        names |= OF_OTHER_PARTS | ({"final_output"} - told)
    return tuple(sorted(names))


def _lost_output(model: Step) -> bool:
    if "output" in model.damaged:
        return True
    for message in model.output or ():  # noqa: SIM110 # asked of every model call: a generator would take twice as long
        if message.damaged:
            return True
    return False


def _may_lack_traces(turn: Turn, *, is_answered: bool) -> bool:
    """Whether the turn may have parts in other traces, which what was cut would have joined to this one.

    So it may where only calls of a model show, if in a silent chain, unless they go from a question to an answer.
    """
    if not turn.main or any(x.kind not in _BARE for x in turn.steps) or not any(map(_is_cut, turn.steps)):
        return False
    if any(map(_tells, turn.workflows)):
        return False
    given = turn.main[0].input or ()
    is_first_asked = bool(given) and _conversation.last_said(given) == len(given) - 1
    is_whole = is_first_asked and "input" not in turn.main[0].damaged
    return not (is_whole and is_answered)


def _is_cut(model: Step) -> bool:
    """Whether what was cut of a model call would tell the calls or results by which its trace is joined to others."""
    lost = not model.damaged.isdisjoint({"input", "output"})
    return lost or _lost_calls(model.input) or _lost_calls(model.output)


def _lost_calls(messages: Sequence[Message] | None) -> bool:
    return any(not x.damaged.isdisjoint({"calls", "results"}) for x in messages or ())


def _may_be_several(turn: Turn, *, is_asked: bool) -> bool:
    """Whether there may be more than one turn: what was cut would tell what each asks, or how they go on."""
    if len(turn.outermost) > 1:
        return True
    if any(map(_tells, turn.workflows)):  # what one function was called with is one question
        return False
    alone = sum(turn.tree.place(x).agents == 0 for x in turn.models)
    is_cut = len(turn.outermost) + alone > 1 and any("input" in x.damaged for x in turn.models)
    return is_cut or (not is_asked and not turn.outermost and len(turn.main) > 1)


def _may_be_anything(step: Step) -> bool:
    """Whether what was cut or dropped of a step would tell what it stands for."""
    if step.kind == "workflow":  # as which some are read whose kind was dropped
        return bool(step.span.dropped_attributes_count and step.damaged) and not _tells(step)
    return step.kind == "other" and bool(step.damaged)


def _tells(step: Step) -> bool:
    told = (step.input, step.output, step.input_text, step.output_text, step.output_json)
    return any(x is not None for x in told)


def _may_lack_tokens(turn: Turn) -> bool:
    """Whether more tokens may have been told than are counted: those of a model call, or, without any, of the turn."""
    if any("tokens" in x.damaged for x in turn.models) or any(map(_may_be_anything, turn.steps)):
        return True
    is_counted = any(x.input_tokens is not None or x.output_tokens is not None for x in turn.steps)
    return not is_counted and any("tokens" in x.damaged for x in turn.steps)


def _may_lack_calls(turn: Turn, calls: Sequence[ToolCall], lost: frozenset[StepFact]) -> bool:
    """Whether what was cut, of what was given or put out, may have told more of the tool calls."""
    produced = any("output" in x.damaged for x in turn.models)
    if produced and any(x.arguments is None for x in calls):
        return True
    is_told = not lost.isdisjoint({"input", "output"})
    if is_told and any(x.result is None and x.error is None for x in calls):  # for "" or 0 some spans say null
        return True
    return produced and not turn.tools
