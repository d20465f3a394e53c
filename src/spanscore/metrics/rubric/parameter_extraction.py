"""Parameter extraction: did the values that tools were given come from the conversation?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics._words import counted, listed
from spanscore.metrics.rubric._criterion import Criterial, Criterion, level_of
from spanscore.metrics.rubric._turns import ruled
from spanscore.metrics.trace.argument_correctness import ArgumentCorrectness
from spanscore.model.score import Outcome, Score


@dataclass(frozen=True)
class ParameterExtraction(Criterial):
    """Whether the arguments of the tool calls were taken correctly from what the user said and the tools returned.

    >>> ParameterExtraction.criterion.tier
    'execution'
    """

    name: ClassVar[str] = "rubric.parameter_extraction"
    summary: ClassVar[str] = "Were the values given to tools taken correctly from the conversation?"
    criterion: ClassVar[Criterion] = Criterion(
        id="parameter_extraction",
        display_name="Parameter extraction",
        description=(
            "Were the values that tools were given taken correctly from the conversation? A value may come from the "
            "user, from the agent's rules or from what a tool had returned, or follow from these by computing, "
            "converting or rewording; it must mean what was meant there, by the user's last word. A critical value is "
            "one that changes what the call does or returns. An optional value that nobody asked about, such as a "
            "limit, needs no source."
        ),
        tier="execution",
        weight=0.15,
        levels=(
            "No value has a source in the conversation.",
            "Most values were made up, or most of those needed are missing.",
            "Several critical values are wrong or missing, or a wrong one changed what it must not.",
            "One critical value is wrong or missing, and the outcome shows it.",
            "All critical values are right; a minor one slipped, or a wrong one was put right before it had an effect.",
            "Every value is right and has its source.",
        ),
        no_occasion="no tool was called, or only tools that take no values",
        nothing_without=("tool_calls",),
        needs=("user_input", "tool_calls"),
        in_defaults=True,
    )

    def measure_by_rules(self, turns: Sequence[Evidence]) -> Outcome:
        """The share of calls, over all turns, to which the rules' argument_correctness says yes.

        A value that an earlier turn held has a source. The share is the level: 1 is 5, from 0.8 on 4, from 0.6 on 3,
        from 0.4 on 2, above 0 it is 1. Without any call there was nothing to extract, which is 5.
        """
        right = calls = 0
        at_fault: list[int] = []
        reasons: list[str] = []
        for index, turn in enumerate(turns):
            metric = ArgumentCorrectness()
            judged = metric.settle(turn.trace, {}) or metric.measure_by_rules(turn)
            if not isinstance(judged, Score):
                return judged
            verdicts = judged.metadata["verdicts"]
            calls += len(verdicts)
            right += sum(x["verdict"] == "yes" for x in verdicts)
            if judged.value < 1:
                at_fault.append(index)
                reasons.append(f"[turn {index}] {judged.reason}")
        faultless = f"The arguments of {counted(calls, 'call')} are right." if calls else "No tool was called."
        share = right / calls if calls else 1.0
        return ruled(self.criterion, level_of(share), listed(reasons) or faultless, at_fault, "wrong_arguments")
