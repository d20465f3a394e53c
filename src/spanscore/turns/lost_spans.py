"""Signs that spans of a turn did not arrive, and the facts that may be short."""

from collections.abc import Mapping, Sequence

from spanscore.model.span import record
from spanscore.model.step import Step
from spanscore.model.trace import Usage
from spanscore.turns.basis import conversation
from spanscore.turns.basis.tool_boundary import requests_tools
from spanscore.turns.calls.call_facts import Call
from spanscore.turns.facts.source import Sourced, TurnSteps

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
    is_answered = _is_recorded(found["final_output"])
    if _lacks_models(turn, calls, is_answered=is_answered):
        facts |= _OF_MODELS
    if _lacks_results(turn, calls, is_answered=is_answered):
        facts |= _OF_CALLS
    lacks_parent = _lacks_parent(turn)
    if lacks_parent and not turn.models:
        facts |= _OF_MODELS | _OF_CALLS
    is_partial = lacks_parent or bool(facts)
    if is_partial and facts != _OF_CALLS:
        facts.update(name for name in _OF_ANY if not _is_recorded(found[name]))
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


def _is_recorded(fact: Sourced | None) -> bool:
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
