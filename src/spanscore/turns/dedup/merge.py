"""Complete one report of a call by another report of the same call."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from spanscore.model.step import Message, Step, StepFact
from spanscore.turns.basis.tool_boundary import requests_tools, stopped_for_tools

MODEL_FACTS: Mapping[str, StepFact | None] = {
    "input": "input",
    "output": "output",
    "system": "system",
    "tools": "tools",
    "model": None,
    "input_tokens": "tokens",
    "output_tokens": "tokens",
    "response_id": None,
}
"""What one report of a model call may have that another lacks, each with the fact that is damaged
if it was cut.
"""

_TOOL_FACTS: Mapping[str, StepFact | None] = {
    "call_id": None,
    "arguments": "arguments",
    "error": None,
}
_COUNTS = ("input_tokens", "output_tokens")
_MESSAGES = frozenset({"input", "output"})


def differ(one: object, other: object) -> bool:
    """Whether both are recorded and not the same."""
    return bool(one) and bool(other) and one != other


def merged(step: Step, other: Step) -> Step:
    """One report of a model call, completed by another; of messages with the same texts, those with
    more calls count.

    LiteLLM's own span records the texts, and not always the calls beside them or their ids. A count
    of no tokens counts less than one of some: what reads a stream may miss them. What was cut or
    redacted in one report is taken from the other where it is whole there.
    """
    filled = _fill(step, other, MODEL_FACTS)
    if _has_more_calls(other.input, filled.input):
        filled = replace(filled, input=other.input)
    if _has_more_calls(other.output, filled.output):
        filled = replace(filled, output=other.output)
    missed: dict[str, Any] = {
        x: getattr(other, x) for x in _COUNTS if getattr(filled, x) == 0 and getattr(other, x)
    }
    return replace(filled, **missed) if missed else filled


def merged_tools(step: Step, other: Step) -> Step:
    """One report of a tool call, completed by another."""
    filled = _fill(step, other, _TOOL_FACTS)
    is_cut = "result" in filled.damaged and "result" not in other.damaged
    if other.has_result and (is_cut or not filled.has_result):
        damaged = filled.damaged.difference({"result"}).union(
            other.damaged.intersection({"result"})
        )
        filled = replace(filled, result=other.result, has_result=True, damaged=damaged)
    return filled


def _has_more_calls(theirs: Sequence[Message] | None, ours: Sequence[Message] | None) -> bool:
    """Whether messages name more calls, or more of their ids, than other messages with the same
    texts.

    At most as many calls are looked at as the other messages may contain, since many reports may be
    compared with them.
    """
    if theirs is None or ours is None or theirs is ours or len(ours) > 2 * len(theirs):
        return False
    count = sum(1 for _ in _called(theirs))
    if sum(1 for _ in islice(_called(ours), count)) >= count:
        return False
    return _texts_of(theirs) == _texts_of(ours)


def _texts_of(messages: Sequence[Message]) -> set[str]:
    return {message.text for message in messages if message.text and not message.results}


def _called(messages: Sequence[Message]) -> Iterator[None]:
    """One for each call that messages name, and one for each id of a call or result."""
    for message in messages:
        for call in message.calls:
            yield None
            if call.call_id is not None:
                yield None
        for result in message.results:
            if result.call_id is not None:
                yield None


def _fill(step: Step, other: Step, facts: Mapping[str, StepFact | None]) -> Step:
    """`step`, completed from `other` where it lacks a fact or has only a part of it; damaged only
    as far as the result still is.
    """
    found: dict[str, Any] = {}
    for field in facts:
        theirs = getattr(other, field)
        if theirs is not None and (
            getattr(step, field) is None or _is_whole_of(step, other, field)
        ):
            found[field] = theirs
    if not found:
        return step
    taken = {fact for field in found if (fact := facts[field]) is not None}
    filled = replace(step, **found)
    if taken.isdisjoint(step.damaged) and taken.isdisjoint(other.damaged):
        return filled
    if filled.input_tokens is None or filled.output_tokens is None:
        taken.discard("tokens")
    if "output" in found and not _has_all_output(step, other):
        taken.discard("output")
    return replace(
        filled, damaged=step.damaged.difference(taken).union(other.damaged.intersection(taken))
    )


def _has_all_output(step: Step, other: Step) -> bool:
    """Whether another report contains everything that the model produced.

    A report of the same emitter may leave out the calls beside a text. So only a finish reason, or
    a report of another emitter, shows that no calls were requested.
    """
    if any(x.calls for x in other.output or ()):
        return True
    if stopped_for_tools(step) or requests_tools(other):
        return False
    return (
        bool(step.finish_reasons or other.finish_reasons)
        or step.span.scope.name != other.span.scope.name
    )


def _is_whole_of(step: Step, other: Step, field: str) -> bool:
    """Whether a report contains the whole of what another one contains in part; False if it records
    much less of it.
    """
    ours, theirs = (getattr(x, field) if field in _MESSAGES else () for x in (step, other))
    if len(ours) > 2 * len(theirs) or not is_cut(step, field) or is_cut(other, field):
        return False
    return field != "output" or _has_all_output(step, other)


def is_cut(step: Step, field: str) -> bool:
    """Whether a field of a report was cut or redacted, if only in one of its messages."""
    if field in step.damaged:
        return True
    messages: Sequence[Message] = getattr(step, field) or () if field in _MESSAGES else ()
    return any(message.damaged for message in messages)
