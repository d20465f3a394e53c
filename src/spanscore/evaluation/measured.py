"""An outcome with who measured it, and what that cost."""

from typing import NamedTuple

from spanscore.model.score import Evaluator, Failure, JudgeUsage, Outcome


class Measured(NamedTuple):
    """An outcome with who measured it, and what that cost."""

    outcome: Outcome
    evaluator: Evaluator
    usage: JudgeUsage = JudgeUsage()


def given(outcome: Outcome | None, source: str = "the metric") -> Outcome:
    """`outcome`; where `source` is broken and gave neither an outcome nor an error, that is its
    Failure.
    """
    return (
        outcome if outcome is not None else Failure("NoOutcomeError", f"{source} gave no outcome")
    )
