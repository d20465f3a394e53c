"""Getters of one fact, which show what any reading of a span has for it, however the span was
changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spanscore.model.step import Step, ToolResult
from spanscore.model.trace import RequestedCall
from spanscore.turns.basis import conversation
from spanscore.turns.basis.errors import inferred_error
from spanscore.turns.calls.appearances import Call
from spanscore.turns.facts.plan import set_down_in
from spanscore.turns.facts.source import Sourced
from spanscore.turns.provenance.attribute_finder import FactGetter


class Recorded(NamedTuple):
    """A result that was recorded, be it null."""

    value: Any


class Place(NamedTuple):
    """Where a call or a result stands: in which field of a step, and as which, and of how many, in
    its messages.
    """

    field: str
    at: int
    among: int
    itself: RequestedCall | ToolResult


def of_fact(
    name: str, found: Sourced, call: Call | None = None, place: Place | None = None
) -> FactGetter:
    """What any reading of a span contains of the fact that was found in its step; `call` where it
    is a fact of one.
    """
    field = found.field
    if place is not None:
        return _in_message(name, field, place, inferred=_is_inferred(name, found, call))
    if field in {"input", "output"} and name in _IN_MESSAGES:
        return _IN_MESSAGES[name]
    if field == "arguments":
        return lambda step: (
            step.arguments if not step.positional else (step.arguments, step.positional)
        )
    if field == "result" and name == "error":
        return lambda step: inferred_error(step.result)
    if field == "result":
        return lambda step: Recorded(step.result) if step.has_result else None
    return _agent if field == "agent_name" else lambda step: getattr(step, field)


def _agent(step: Step) -> str | None:
    """The agent that a step names: the one that it belongs to, or that works in it."""
    return step.agent_name or step.runs_agent


def of_tool(name: str) -> FactGetter:
    """What any reading of a span contains of a tool on offer."""
    return lambda step: next((x for x in step.tools or () if x.name == name), None)


def placed(found: Sourced, call: Call | None) -> Place | None:
    """Where the call or result stands of which a fact was found in the messages of a step; None for
    any other fact.
    """
    if call is None or found.field not in {"calls", "results"}:
        return None
    for field in ("output", "input"):
        standing = _standing(found.step, field, found.field)
        at = (
            _at_call(standing, call, found.step)
            if found.field == "calls"
            else _at_result(standing, call)
        )
        if at is not None:
            return Place(field, at, len(standing), standing[at])
    return None


def repeated(request: RequestedCall, step: Step) -> Place | None:
    """Where a call stands word for word in what another step was given, or put out."""
    for field in ("input", "output"):
        calls = _standing(step, field, "calls")
        if request in calls:
            return Place(field, calls.index(request), len(calls), request)
    return None


def _at_call(calls: Sequence[RequestedCall], call: Call, step: Step) -> int | None:
    """Which of these is the call as it was requested, or repeated; its id may have been removed."""
    for one in (x.call for x in (call.request, call.repeated) if x is not None and x.step is step):
        for at, other in enumerate(calls):
            if other is one or (
                other.name is one.name and other.arguments is one.arguments and one.call_id is None
            ):
                return at
    return None


def _at_result(results: Sequence[ToolResult], call: Call) -> int | None:
    returned = None if call.returned is None else call.returned.result
    return next((at for at, x in enumerate(results) if x is returned), None)


def _is_inferred(name: str, found: Sourced, call: Call | None) -> bool:
    returned = None if call is None or call.returned is None else call.returned.result
    return (
        name == "error" and returned is not None and not returned.error and found.field == "results"
    )


def _in_message(name: str, field: str, place: Place, *, inferred: bool) -> FactGetter:
    def show(step: Step) -> Any:
        standing = _standing(step, place.field, field)
        if len(standing) == place.among:
            one = standing[place.at]
        elif place.itself in standing:  # what went was another one
            one = place.itself
        else:
            return None
        if inferred:
            return inferred_error(one.value)
        return Recorded(one.value) if name == "result" else getattr(one, name)

    return show


def _standing(step: Step, field: str, which: str) -> list[Any]:
    """The calls, or the results, in the messages of a step."""
    return [x for message in getattr(step, field) or () for x in getattr(message, which)]


def _plan(step: Step) -> tuple[str, tuple[str, ...]] | None:
    """The texts of the output, and the steps that were set down by a call."""
    texts = [x.text for x in step.output or () if x.text and x.text.strip()]
    planned = "\n".join(texts), next((x for x in map(set_down_in, step.output or ()) if x), ())
    return planned if any(planned) else None


_IN_MESSAGES: Mapping[str, FactGetter] = {
    "user_input": lambda step: conversation.opening(step.input or ()).text,
    "history": lambda step: conversation.history(conversation.opening(step.input or ())),
    "system_instructions": lambda step: conversation.system_text(step.input or ()),
    "final_output": lambda step: conversation.final_text(step.output or ()),
    "plan": _plan,
}
