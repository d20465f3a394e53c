"""Claims backed by calls: did a tool do what the final output says was done?"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics.check._check import Check, Finding, not_applicable, successes
from spanscore.metrics.check._claims import claims
from spanscore.model.score import Skip
from spanscore.model.tool_names import only_reads
from spanscore.model.trace import AgentTrace


@dataclass(frozen=True)
class ClaimsBackedByCalls(Check):
    """Whether a call stands behind a claim such as "I have booked" or "your order has been
    cancelled".

    Claims are sought in English, German, Dutch, French, Italian, Portuguese, Spanish, Chinese and
    Japanese, of what only a tool can have done: booking, cancelling, paying, sending, deleting,
    scheduling. They count where the user asks for the deed in this turn, and not where the user
    asks how things are, or for something to be written; what can be done to a text, such as
    removing, only where the agent has tools. Questions, conditions and quotations in the answer are
    left out. Found is a claim where no call of the turn succeeded but such as only look something
    up, by the tool's name. Does not apply where nothing is claimed, nor where the user's input has
    more than 20,000 characters.

    >>> ClaimsBackedByCalls.needs
    ('user_input', 'final_output', 'tool_calls')
    """

    name: ClassVar[str] = "check.claims_backed_by_calls"
    summary: ClassVar[str] = "Did a tool do what the final output says was done?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "final_output", "tool_calls")
    fine: ClassVar[str] = "A call that may have done it stands behind each claim."

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        trace = evidence.trace
        has_tools = bool(trace.tool_calls or evidence.offered)
        found = [
            x
            for x in claims(trace.final_output or "", trace.user_input or "")
            if has_tools or not x.by_text
        ]
        if not found:
            return not_applicable(
                "The final output claims nothing that a tool would have to do in this turn."
            )
        calls = trace.tool_calls or ()
        if any(not only_reads(call.name) for call in successes(calls)):
            return ()
        return [Finding(f'"{claim.text}", but {_what_was_called(trace)}') for claim in found]


def _what_was_called(trace: AgentTrace) -> str:
    calls = trace.tool_calls or ()
    if not calls:
        return "no tool was called"
    failed = [call.name for call in calls if call.error is not None]
    if failed:
        return (
            f"no call succeeded that could have done it ({', '.join(dict.fromkeys(failed))} failed)"
        )
    return (
        "only look-ups were made"
        f" ({', '.join(list(dict.fromkeys(call.name for call in calls))[:5])})"
    )
