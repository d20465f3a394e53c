"""Which scores that others gave count in the session metrics, as what, and how much."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, model_validator

from spanscore.metrics import SIGNAL_WEIGHTS
from spanscore.model.external import HUMAN
from spanscore.model.options import Options
from spanscore.model.score import Evaluation
from spanscore.naming import nearest

ANYBODY = "any"


class ExternalSignal(Options):
    """How a score that others gave is a signal of the session metrics."""

    counts_as: str | None = None
    """The signal in whose place it counts, in the traces that have it: `confidence`,
    `loop_detection`, `tool_correctness` or `coherence`. Without it, it is a signal of its own.
    """

    weight: Annotated[float, Field(ge=0, le=1)] = 1.0
    """How much it counts, as a signal of its own."""

    scale: tuple[float, float] | None = None
    """The worst and the best value, such as `[1, 5]`. Without it, and where the score does not say,
    a number does not count; a yes or no, and a label such as `pass`, counts as 1 or 0.
    """

    source: str = HUMAN
    """Who gives it: `human`, `programmatic`, an evaluator's name, or `any`."""

    @model_validator(mode="after")
    def _usable(self) -> "ExternalSignal":
        if self.counts_as is not None and self.counts_as not in SIGNAL_WEIGHTS:
            raise ValueError(
                f"{self.counts_as!r} is no signal of the session metrics;"
                f" {nearest(self.counts_as, SIGNAL_WEIGHTS)}"
            )
        if self.scale is not None and self.scale[0] == self.scale[1]:
            raise ValueError("scale: give two different values, the worst and the best")
        return self

    def value_of(self, score: Evaluation) -> float | None:
        """The score as a signal, 0 to 1; None where it is none."""
        if self.source not in {ANYBODY, score.evaluator.source}:
            return None
        bounds = self.scale or score.scale
        if bounds is None or score.value is None:
            return None if score.passed is None else float(score.passed)
        worst, best = bounds
        if worst == best:
            return None
        return min(1.0, max(0.0, (score.value - worst) / (best - worst)))


def external_names(configured: Mapping[str, ExternalSignal]) -> list[str]:
    """The external scores that are signals of their own."""
    return [name for name, signal in configured.items() if signal.counts_as is None]
