"""Name the facts of a turn that arrived cut or redacted, and those that what was cut may have told."""

from collections.abc import Mapping, Sequence

from spanscore.model.step import Step, StepFact
from spanscore.model.trace import Tool, ToolCall
from spanscore.turns._found import Found
from spanscore.turns._sorted import Turn

_TOLD_BY: dict[str, frozenset[StepFact]] = {
    "user_input": frozenset({"input"}),
    "history": frozenset({"input"}),
    "final_output": frozenset({"output"}),
    "system_instructions": frozenset({"system", "input"}),
    "plan": frozenset({"output"}),
    "available_tools": frozenset({"tools"}),
}
"""For facts that a turn may not tell at all, what of its steps would tell them."""


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
    names |= {"model_calls"} if any(map(_is_cut, turn.models)) else set()
    names |= {"usage"} if any(map(_lost_tokens, turn.models)) else set()
    lost = frozenset[StepFact]().union(*[x.damaged for x in turn.steps])
    if lost:
        told = {name for name, x in found.items() if x is not None and x.value not in (None, ())}
        told |= set() if tools[0] is None else {"available_tools"}
        names |= {name for name, facts in _TOLD_BY.items() if name not in told and not facts.isdisjoint(lost)}
        if "input" in lost and len(turn.outermost) > 1:  # they may be turns: how a conversation goes on is not known
            names |= {"user_input", "final_output"}
        names |= {"tool_calls"} if _may_lack_calls(turn, [x for x, _ in calls]) else set()
        if any(x.kind == "other" and x.damaged for x in turn.steps):  # it is not known what such a span stands for
            names |= {"tool_calls", "model_calls", *(x for x in _TOLD_BY if x not in told)}
    return tuple(sorted(names))


def _is_cut(model: Step) -> bool:
    if "output" in model.damaged:
        return True
    for message in model.output or ():  # noqa: SIM110 # asked of every model call: a generator would take twice as long
        if message.damaged:
            return True
    return False


def _lost_tokens(model: Step) -> bool:
    """Whether a model call may have counted its tokens in attributes that were dropped: the sum is then too small."""
    return bool(model.span.dropped_attributes_count) and model.input_tokens is None and model.output_tokens is None


def _may_lack_calls(turn: Turn, calls: Sequence[ToolCall]) -> bool:
    """Whether what a model call was given or put out, and was cut, may have told more of the tool calls."""
    given = any("input" in x.damaged for x in turn.models)
    produced = any("output" in x.damaged for x in turn.models)
    if produced and any(x.arguments is None for x in calls):
        return True
    if given and any(x.result is None and x.error is None for x in calls):  # some emitters' spans say null for "" or 0
        return True
    return produced and not turn.tools
