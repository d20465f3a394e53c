"""Repeated calls: was a tool asked the same thing again and again, though nothing came of it?"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics.check._check import Check, Finding, not_applicable, not_recorded
from spanscore.model.json import dumps
from spanscore.model.score import Skip
from spanscore.model.tool_names import is_asked_again, only_reads
from spanscore.model.trace import ToolCall

_SAME_RESULT = 3
_SAME_ERROR = 3
_PASSING_ERRORS = 6
_PASSING = re.compile(
    r"time.?out|timed.out|unavailable|overloaded|rate.?limit|too many requests|connection|"
    r"temporar|\b(?:408|429|5\d\d)\b",
    re.IGNORECASE,
)
_UNDER_WAY = re.compile(
    r"pending|running|progress|processing|queued|waiting|not (?:yet"
    r" )?ready|in_progress|scheduled|building|starting",
    re.IGNORECASE,
)
_MAX_TEXT_CHARS = 2_000


@dataclass(frozen=True)
class RepeatedCalls(Check):
    """Whether one and the same call, arguments and all, was made three times or more with one and
    the same outcome.

    Left out is what is repeated for good reason: tools that wait, poll or step by their names,
    results that say that something is under way, what brought another result later on, calls
    between which another tool, that does not only look something up by its name, returned, and
    calls of different agents. An error that may pass by itself (a time-out, a 429 or 5xx) is found
    from the sixth time on.

    >>> RepeatedCalls.needs
    ('tool_calls',)
    """

    name: ClassVar[str] = "check.repeated_calls"
    summary: ClassVar[str] = "Were calls not repeated unchanged, again and again, to no end?"
    needs: ClassVar[tuple[str, ...]] = ("tool_calls",)
    fine: ClassVar[str] = "No call was repeated unchanged to no end."

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        if len(evidence.calls) < _SAME_RESULT:
            return not_applicable(f"Fewer than {_SAME_RESULT} calls were made.")
        if all(call.arguments is None for call in evidence.calls):
            return not_recorded("the arguments of any call")
        return _repeated(evidence.calls)


def _repeated(calls: tuple[ToolCall, ...]) -> Iterator[Finding]:
    # by what was asked: the outcome, and the calls that had it in a row
    runs: dict[str, tuple[str, list[int]]] = {}
    for place, call in enumerate(calls):
        asked, outcome = _identity(call), _outcome(call)
        if call.error is None and not only_reads(call.name):
            runs = {key: run for key, run in runs.items() if key == asked}
        if outcome is None:
            runs.pop(asked, None)
            continue
        before, places = runs.get(asked, ("", []))
        runs[asked] = (outcome, [*places, place] if before == outcome else [place])
        if len(runs[asked][1]) == _least(call) and not _goes_on(calls, place, asked, outcome):
            numbers = ", ".join(str(x + 1) for x in runs[asked][1])
            came = "the same error" if call.error else "the same result"
            yield Finding.of_call(
                place, call, f"the same call as before (calls {numbers}), each time with {came}"
            )


def _least(call: ToolCall) -> int:
    """From how many times on a call is repeated too often; 0: never."""
    if call.error is not None:
        return _PASSING_ERRORS if _PASSING.search(call.error[:_MAX_TEXT_CHARS]) else _SAME_ERROR
    if is_asked_again(call.name) or _UNDER_WAY.search(dumps(call.result)[:_MAX_TEXT_CHARS]):
        return 0
    return _SAME_RESULT


def _goes_on(calls: tuple[ToolCall, ...], place: int, asked: str, outcome: str) -> bool:
    """Whether the same call brought another result later on, so that asking again was worth it."""
    later = [call for call in calls[place + 1 :] if _identity(call) == asked and call.error is None]
    return any(_outcome(call) not in {None, outcome} for call in later)


def _identity(call: ToolCall) -> str:
    return dumps([call.agent, call.name, call.arguments], sort_keys=True)


def _outcome(call: ToolCall) -> str | None:
    """What a call came to; None where that was not recorded."""
    if call.error is not None:
        return f"error {call.error[:_MAX_TEXT_CHARS]}"
    return (
        dumps(call.result)[:_MAX_TEXT_CHARS]
        if call.returned and call.arguments is not None
        else None
    )
