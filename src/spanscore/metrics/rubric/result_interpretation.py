"""Result interpretation: does what the agent says reflect what its tools returned?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence, reads
from spanscore.metrics._words import counted, listed
from spanscore.metrics.rubric._criterion import Criterial, Criterion, level_of
from spanscore.metrics.rubric._turns import ruled
from spanscore.model.score import Outcome, Skip


@dataclass(frozen=True)
class ResultInterpretation(Criterial):
    """Whether the agent told the user what its tools had returned, accurately and whole, errors included.

    >>> "tool_calls" in ResultInterpretation.criterion.needs
    True
    """

    name: ClassVar[str] = "rubric.result_interpretation"
    summary: ClassVar[str] = "Does what the agent says reflect what its tools returned?"
    criterion: ClassVar[Criterion] = Criterion(
        id="result_interpretation",
        display_name="Result interpretation",
        description=(
            "Does what the agent says reflect what its tools returned? Hold each statement and each figure that rests "
            "on a tool against the result, and recompute what was counted or computed from results. An error that a "
            "tool returned must be dealt with or told, not passed over. What the user did not ask about need not be "
            "told."
        ),
        tier="execution",
        weight=0.15,
        levels=(
            "What the agent says has no relation to what the tools returned.",
            "The results were largely ignored, or the agent says the opposite of them.",
            "What the user mainly wanted to know is wrong, several statements are, or a failure was told as a success.",
            "One statement is inaccurate in a way that means something to the user; the main thing is right.",
            "Something minor was left out or blurred, and nobody is misled by it.",
            "Everything told is accurate and complete, and errors were dealt with.",
        ),
        no_occasion="no tool was called, or nothing that the agent had to tell the user rests on a result",
        nothing_without=("tool_calls",),
        needs=("final_output", "tool_calls"),
        in_defaults=True,
    )

    def measure_by_rules(self, turns: Sequence[Evidence]) -> Outcome:
        """The share of successful look-ups of which something new reached the answer or a later call of the turn.

        A look-up is a call of a tool whose name says that it only reads. The share is the level, as in tool_routing,
        but never above 4: whether what was said is right cannot be told. Without any call there was nothing to
        interpret, which is 5; without any look-up it needs a model.
        """
        if not any(turn.calls for turn in turns):
            return ruled(self.criterion, 5, "No tool was called: there was nothing to interpret.", (), "")
        looked_up, unused, at_fault = 0, [], []
        for index, turn in enumerate(turns):
            informative = [x for x, call in enumerate(turn.calls) if reads(call.name) and call.error is None]
            lost = [x for x in turn.unused if x in informative]
            looked_up += len(informative)
            unused += [f"[turn {index}] nothing of what {turn.calls[x].name} returned was used" for x in lost]
            at_fault += [index] * bool(lost)
        if not looked_up:
            return Skip(f"{self.name} needs a model: no call only looked something up.")
        level = min(4, level_of(1 - len(unused) / looked_up))
        used = f"Something of each of {counted(looked_up, 'look-up')} was used"
        return ruled(self.criterion, level, f"{listed(unused) or used}.", at_fault, "result_ignored")
