"""Errors recovered: did a later call succeed?"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.check._check import Check, Evidence, Finding, not_applicable, shown
from spanscore.model.score import Skip
from spanscore.model.tool_names import changes, effect
from spanscore.model.trace import ToolCall

_MAX_ERROR_CHARS = 500
_NOTHING_THERE = re.compile(
    r"not[ _-]?found|"
    r"\bno (?:\w+ ){0,3}(?:found|matched|match(?:es)?|exists?|results?)\b|\bno such\b|"
    r"\b(?:does|do|did)(?: not|n't) (?:exist|match)\b|\b(?:could|can)(?: ?not|n't) find\b|"
    r"\bnicht gefunden\b|\bexistiert nicht\b|\b(?:kein|keine|keinen) .{0,40}gefunden\b|"
    r"\bintrouvable\b|\bn['\u2019]existe pas\b|\bno (?:se )?encontr\w+|\bno existe\b|"
    r"\bnon trovat\w\b|\bnon esiste\b|\bnão (?:foi )?encontrad\w\b|\bniet gevonden\b|"
    r"未找到|找不到|不存在|見つかりません|存在しません",
    re.IGNORECASE,
)
_MEANS = re.compile(
    r"\b(?:tools?|functions?|commands?|modules?|plugins?|hosts?|endpoints?|credentials?|"
    r"permissions?|fields?|attributes?|parameters?|arguments?|executables?|relations?|columns?|"
    r"no such table|(?:api|access|secret|auth\w*|bearer) (?:keys?|tokens?)|"
    r"werkzeug|outil|herramienta|strumento)\b|modulenotfound|commandnotfound",
    re.IGNORECASE,
)
"""What a call is made with: where that is missing, the call has found out nothing."""


_ASKS = re.compile(
    r"\?$|\bplease (?:choose|confirm|enter|give|provide|reply|select|send|share|specify|tell)\b"
    r"|\blet me know (?:how|what|when|whether|which)\b",
    re.IGNORECASE,
)
_TAKES_LEAVE = re.compile(
    r"\b(?:anything|something) (?:else|more)\b|\bother questions\b", re.IGNORECASE
)
_END = re.compile(r"(?<=[.!?])\s+|\n+")
_MAX_END_CHARS = 500


@dataclass(frozen=True)
class ErrorsRecovered(Check):
    """Whether each failed call was made good by a later one of the turn.

    Any later call that did not fail makes good a failed look-up; only one that changes something,
    by its tool's name, or one of the same tool, makes good a failed change. A look-up whose error
    is that what it looked for is not there has answered: it counts as one that did not fail. A turn
    that ends with an honest word about any other failure is found too: the check says what became
    of the calls, not whose fault it was. Does not apply where no call failed, nor where the turn
    ends by asking the user how to go on: it is not over.

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
        if not any(map(_failed, calls)):
            return not_applicable("No call failed.")
        found = _lasting(calls)
        if found and _asks_back(evidence.trace.final_output or ""):
            return not_applicable("The turn ends by asking the user how to go on.")
        return found


def _asks_back(output: str) -> bool:
    """Whether the last sentence of an answer asks for something, but for whether that was all."""
    last = _END.split(output.strip(" \n\t\"'*_}]")[-_MAX_END_CHARS:])[-1]
    return _ASKS.search(last) is not None and _TAKES_LEAVE.search(last) is None


def _failed(call: ToolCall) -> bool:
    """Whether a call did not do what it was for."""
    if call.error is None:
        return False
    error = call.error[:_MAX_ERROR_CHARS]
    is_answer = _NOTHING_THERE.search(error) is not None and _MEANS.search(error) is None
    return not (is_answer and effect(call.name) == "reads")


def _lasting(calls: tuple[ToolCall, ...]) -> list[Finding]:
    """The failed calls that no later one made good; of each tool the last."""
    found: dict[str, Finding] = {}
    good: set[str] = set()
    has_changed = False
    for place in range(len(calls) - 1, -1, -1):
        call = calls[place]
        if not _failed(call):
            good.add(call.name)
            has_changed |= changes(call.name)
            continue
        is_good = call.name in good or (has_changed if changes(call.name) else bool(good))
        if not is_good and call.name not in found:
            text = f"failed with {shown(call.error)}, and no later call made it good"
            found[call.name] = Finding.of_call(place, call, text)
    return list(found.values())[::-1]
