"""Tools on offer: was every tool that was called one that the agent had?"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics.check._check import Check, Finding, not_applicable, not_recorded
from spanscore.model.score import Skip
from spanscore.model.tool_names import bare


@dataclass(frozen=True)
class ToolsOnOffer(Check):
    """Whether each tool that was called is among those that the trace says were on offer.

    A server or namespace in front of a name makes no other tool, nor does case. Only calls that
    failed are looked at: one that returned had its tool, whatever list the trace recorded (tools of
    sub-agents and those that a provider runs are often in none).

    >>> ToolsOnOffer.needs
    ('tool_calls',)
    """

    name: ClassVar[str] = "check.tools_on_offer"
    summary: ClassVar[str] = "Was every tool that was called one that the agent had?"
    needs: ClassVar[tuple[str, ...]] = ("tool_calls",)
    fine: ClassVar[str] = "Every failed call was of a tool on offer."

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        failed = [
            (place, call) for place, call in enumerate(evidence.calls) if call.error is not None
        ]
        if not failed:
            return not_applicable("No call failed.")
        if not evidence.offered:
            return not_recorded("which tools were on offer")
        known = {bare(tool.name) for tool in evidence.offered}
        return [
            Finding.of_call(place, call, "no such tool was on offer")
            for place, call in failed
            if bare(call.name) not in known
        ]
