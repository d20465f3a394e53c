"""Grounding fidelity: can every claim be traced to something?"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics._grounding import MAX_VALUES, Said
from spanscore.metrics._words import MAX_TEXT_CHARS, counted, listed
from spanscore.metrics.rubric._criterion import Criterial, Criterion, level_of
from spanscore.metrics.rubric._turns import ruled
from spanscore.model.score import Outcome, Skip

_SPECIFIC = re.compile(r"\b(?:\d{4}-\d{2}-\d{2}|[A-Z]{1,6}-?\d{2,12}|\d[\d,]{0,20}\d(?:\.\d{1,6})?|\d\.\d{1,6})\b")


@dataclass(frozen=True)
class GroundingFidelity(Criterial):
    """Whether every claim of the agent can be traced to the conversation, to a tool's result or to its rules.

    >>> GroundingFidelity.criterion.weight
    0.125
    """

    name: ClassVar[str] = "rubric.grounding_fidelity"
    summary: ClassVar[str] = "Can every claim of the agent be traced to something it was told?"
    criterion: ClassVar[Criterion] = Criterion(
        id="grounding_fidelity",
        display_name="Grounding fidelity",
        description=(
            "Can every specific claim of the agent be traced to what the user said, to what a tool or a document "
            "gave, or to the agent's own rules? A deed that the agent claims needs a call that did it. What follows "
            "from the sources by counting, computing or rewording is grounded, and general knowledge that nobody "
            "would dispute needs no source. Whether a source was read rightly does not count here."
        ),
        tier="knowledge",
        weight=0.125,
        levels=(
            "All that was claimed was made up.",
            "Most of what was claimed was made up.",
            "Several claims that matter have no source, or a deed was claimed that was not done.",
            "One claim that matters has no source and could mislead.",
            "One minor statement cannot be verified.",
            "Every specific claim has its source, and what is uncertain is told as uncertain.",
        ),
        no_occasion="the agent made no specific claim: it only greeted or asked",
        needs=("user_input", "final_output", "tool_calls"),
        in_defaults=True,
    )

    def measure_by_rules(self, turns: Sequence[Evidence]) -> Outcome:
        """The share of specific values in what the agent said that stand in what it had been told or had found.

        Specific values are numbers of two digits or more, dates (2026-05-20) and codes (HAT136); the first 200 of each
        turn count. Sources are the conversation, the agent's instructions, documents, and what tools returned or were
        given in this turn and the turns before. A value that the agent computed has no source. The share is the
        level, as in tool_routing, but never above 4: claims in words are not looked at. Without any such value it
        needs a model.
        """
        values, lost, at_fault = 0, [], []
        for index, turn in enumerate(turns):
            said = _said(turn)
            found = list(_specific(turn.trace.final_output or ""))
            missing = [x for x in found if not said.grounds(x)]
            values += len(found)
            lost += [f"[turn {index}] {x} is in nothing the agent was told or had found" for x in missing]
            at_fault += [index] * bool(missing)
        if not values:
            return Skip(f"{self.name} needs a model: the agent named no number, date or code that could be traced.")
        level = min(4, level_of(1 - len(lost) / values))
        traced = f"{counted(values, 'specific value')} can be traced"
        return ruled(self.criterion, level, f"{listed(lost) or traced}.", at_fault, "ungrounded_claim")


def _specific(text: str) -> Iterator[str]:
    found = (x[0] for x in _SPECIFIC.finditer(text[:MAX_TEXT_CHARS]))
    yield from islice(dict.fromkeys(found), MAX_VALUES)


def _said(turn: Evidence) -> Said:
    """All that the turn's agent had been told or had found when it spoke."""
    conversation, background = turn.given
    said = Said(conversation, background, "\n".join(turn.raw_given))
    for raw, text in zip(turn.raw_results, turn.results, strict=True):
        said.add(raw, text)
    for arguments in turn.arguments:
        said.add(arguments, arguments)
    return said
