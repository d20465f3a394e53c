"""Errors recovered: did a call succeed after the last one that failed?"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics.check._check import Check, Finding, not_applicable, shown
from spanscore.model.score import Skip
from spanscore.model.tool_names import changes
from spanscore.model.trace import ToolCall


@dataclass(frozen=True)
class ErrorsRecovered(Check):
    """Whether each failed call was made good by a later one of the turn.

    Any later call that did not fail makes good a failed look-up; only one that changes something,
    by its tool's name, or one of the same tool, makes good a failed change. A turn that ends with
    an honest word about the failure is found too: the check says what became of the calls, not
    whose fault it was. Does not apply where no call failed.

    >>> ErrorsRecovered.needs
    ('tool_calls',)
    """

    name: ClassVar[str] = "check.errors_recovered"
    summary: ClassVar[str] = "Was each failed tool call made good by a later one?"
    needs: ClassVar[tuple[str, ...]] = ("tool_calls",)
    fine: ClassVar[str] = "Each failed call was made good by a later one."

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        calls = evidence.trace.tool_calls or ()
        if all(call.error is None for call in calls):
            return not_applicable("No call failed.")
        return _lasting(calls)


def _lasting(calls: tuple[ToolCall, ...]) -> list[Finding]:
    """The failed calls that no later one made good; of each tool the last."""
    found: dict[str, Finding] = {}
    good: set[str] = set()
    has_changed = False
    for place in range(len(calls) - 1, -1, -1):
        call = calls[place]
        if call.error is None:
            good.add(call.name)
            has_changed |= changes(call.name)
            continue
        is_good = call.name in good or (has_changed if changes(call.name) else bool(good))
        if not is_good and call.name not in found:
            text = f"failed with {shown(call.error)}, and no later call made it good"
            found[call.name] = Finding.of_call(place, call, text)
    return list(found.values())[::-1]
