"""How a turn ended."""

from collections.abc import Sequence

from spanscore.model.step import Step
from spanscore.model.trace import ToolCall, TurnOutcome
from spanscore.turns.facts.source import TurnSteps

_WAITING = "interrupt"
"""What finish reasons contain where the agent stopped for a person."""

_REFUSED = frozenset({"content_filter", "content-filter", "safety", "error"})
"""Finish reasons, in lower case, of a model that gave no answer."""


def outcome_of(
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
