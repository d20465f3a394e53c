"""Claims backed by calls: did a tool do what the final output says was done?"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics.check._arguments import texts
from spanscore.metrics.check._check import Check, Finding, not_applicable, successes
from spanscore.metrics.check._claims import Claim, claims
from spanscore.metrics.check._states import (
    is_stated_before,
    reported_facts,
    returns_documents,
    shows_state,
)
from spanscore.model.score import Skip
from spanscore.model.tool_names import changes, only_reads
from spanscore.model.trace import AgentTrace, ToolCall

_MAX_CHARS = 20_000
_MAX_MESSAGES = 50
"""Messages before the turn that are looked through for what they state."""
_SQL_VERBS = r"(?:INSERT|UPDATE|DELETE|DROP|ALTER|MERGE|TRUNCATE|CREATE|REPLACE)\b"
_SQL_BY_CASE = re.compile(rf"\s*{_SQL_VERBS}")
_SQL_BY_KEY = re.compile(rf"\s*{_SQL_VERBS}", re.IGNORECASE)
_SQL_BY_FORM = re.compile(
    r"(?:^|[;)\n])\s*(?:"
    r"(?:insert(?: or \w+)?|replace|merge)\s+into\s|update\s+\S+\s+(?:as\s+\w+\s+)?set\s|"
    r"delete\s+from\s+\S+\s+(?:where|using|returning)\b|delete\s+from\s+\S+;|"
    r"(?:drop|alter|truncate|create(?:\s+or\s+replace)?)\s+"
    r"(?:table|view|index|database|schema|trigger|function|procedure)\s)",
    re.IGNORECASE,
)
_MUTATION = re.compile(r"(?:^|[}\n])\s*mutation\b\s*\w*\s*[({@]")
_SQL_KEYS = frozenset({"sql", "sql_query", "statement"})
_METHOD_KEYS = frozenset({"method", "http_method", "request_method", "operation", "operation_type"})
_MAX_METHOD_CHARS = 60
_METHODS = frozenset({"patch", "mutation"})
"""Methods and operations that change something, beside those that are verbs of tools' names."""


@dataclass(frozen=True)
class ClaimsBackedByCalls(Check):
    """Whether a call stands behind a claim such as "I have booked" or "your order has been
    cancelled".

    Claims are sought in English, German, Dutch, French, Italian, Portuguese, Spanish, Chinese and
    Japanese, of what only a tool can have done: booking, cancelling, paying, sending, deleting,
    scheduling, switching a device, changing an address, filing a ticket. They count where the user
    asks for the deed in this turn, and not where the user asks how things are, or for something to
    be written; what can be done to a text, such as removing, only where the agent has tools and the
    request names no text. Questions, conditions, negations and quotations in the
    answer are left out, and so is what it says was done earlier or by others; "has been cancelled"
    counts only where no look-up returned the state that this deed leads to, and neither the user
    nor the system prompt states it; "your table is booked" only where the user asks for this very
    deed and not how to do it, in the first turn of a conversation where no tool was called.

    Found is a claim where no call of the turn succeeded but such as only look something up, by the
    tool's name. A look-up does more where an argument is SQL that begins with a verb such as
    DELETE, a GraphQL mutation, or a `method` or `operation` such as POST.
    Does not apply where nothing is claimed, nor where the user's input has more than 20,000
    characters.

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
        claimed = claims(trace.final_output or "", trace.user_input or "")
        counted = [x for x in claimed if has_tools or not x.by_text]
        looked_up = _looked_up(evidence) if counted else []
        found = [x for x in counted if not _may_be_reported(x, evidence, looked_up)]
        if not found:
            return not_applicable(
                "The final output claims nothing that a tool would have to do in this turn."
            )
        calls = trace.tool_calls or ()
        if any(map(_may_have_done_it, successes(calls))):
            return ()
        return [Finding(f'"{claim.text}", but {_what_was_called(trace)}') for claim in found]


def _may_have_done_it(call: ToolCall) -> bool:
    """Whether a call may have changed something, by its tool's name or by what it was given."""
    if not only_reads(call.name):
        return True
    if returns_documents(call.name):
        return False
    return any(_is_change(key, text) for key, text in texts(call.arguments))


def _is_change(key: str, text: str) -> bool:
    """Whether an argument is a statement that changes something, or names such a method."""
    if key in _METHOD_KEYS and len(text) <= _MAX_METHOD_CHARS:
        return changes(text) or text.strip().lower() in _METHODS
    if key in _SQL_KEYS and _SQL_BY_KEY.match(text):
        return True
    return any(x.search(text) for x in (_SQL_BY_FORM, _MUTATION)) or (
        _SQL_BY_CASE.match(text) is not None
    )


def _may_be_reported(claim: Claim, evidence: Evidence, looked_up: list[str]) -> bool:
    """Whether the answer may only report what it says, since it was looked up or said before."""
    if claim.is_state and (evidence.calls or evidence.trace.history != ()):
        return True
    if not (claim.may_be_anyones or claim.is_state):
        return False
    trace = evidence.trace
    if is_stated_before(claim.text, (trace.user_input or "")[:_MAX_CHARS], _earlier_texts(trace)):
        return True
    return shows_state(claim.text, looked_up)


def _earlier_texts(trace: AgentTrace) -> Iterator[str]:
    """The system prompt and the latest messages before this turn."""
    if trace.system_instructions:
        yield trace.system_instructions
    for message in (trace.history or ())[-_MAX_MESSAGES:]:
        if message.text:
            yield message.text


def _looked_up(evidence: Evidence) -> list[str]:
    """The facts that the look-ups of the turn returned."""
    trace = evidence.trace
    turn = f"{(trace.user_input or '')[:2_000]} {(trace.final_output or '')[:2_000]}"
    results = (
        call.result
        for call in successes(evidence.calls)
        if not _may_have_done_it(call) and not returns_documents(call.name)
    )
    return reported_facts(results, turn)


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
