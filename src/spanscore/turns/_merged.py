"""Complete one report of a call by what another report of the same call tells."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from spanscore.model.step import Message, Step

MODEL_FACTS = ("input", "output", "system", "tools", "model", "input_tokens", "output_tokens", "response_id")
"""What one report of a model call may tell that another does not."""

_TOOL_FACTS = ("call_id", "arguments", "error")
_COUNTS = ("input_tokens", "output_tokens")


def merged(step: Step, other: Step) -> Step:
    """One report of a model call, completed by another; of messages with the same texts, those that tell more count.

    LiteLLM's own span tells the texts, and not always the calls beside them or their ids. A count of no tokens counts
    less than one of some: what reads a stream may miss them.
    """
    filled = _fill(step, other, MODEL_FACTS)
    if _tells_more(other.input, filled.input):
        filled = replace(filled, input=other.input)
    if _tells_more(other.output, filled.output):
        filled = replace(filled, output=other.output)
    missed: dict[str, Any] = {x: getattr(other, x) for x in _COUNTS if getattr(filled, x) == 0 and getattr(other, x)}
    return replace(filled, **missed) if missed else filled


def merged_tools(step: Step, other: Step) -> Step:
    """One report of a tool call, completed by another."""
    filled = _fill(step, other, _TOOL_FACTS)
    if not filled.has_result and other.has_result:
        filled = replace(filled, result=other.result, has_result=True)
    return filled


def _tells_more(theirs: Sequence[Message] | None, ours: Sequence[Message] | None) -> bool:
    """Whether messages name more calls, or more of their ids, than others with the same texts.

    Of what is much longer only so much is looked at as there may be in theirs: many reports may be held against it.
    """
    if theirs is None or ours is None or theirs is ours or len(ours) > 2 * len(theirs):
        return False
    count = sum(1 for _ in _called(theirs))
    if sum(1 for _ in islice(_called(ours), count)) >= count:
        return False
    heard, said = ({x.text for x in each if x.text and not x.results} for each in (theirs, ours))
    return heard == said


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


def _fill(step: Step, other: Step, facts: tuple[str, ...]) -> Step:
    """`step`, with the facts that it does not tell taken from `other`."""
    missing: dict[str, Any] = {x: getattr(other, x) for x in facts if getattr(step, x) is None}
    found = {k: v for k, v in missing.items() if v is not None}
    return replace(step, **found) if found else step
