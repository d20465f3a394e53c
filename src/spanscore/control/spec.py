"""What an evaluation run is asked to do."""

from typing import Annotated

from pydantic import Field

from spanscore.control.target import MeasureSpec, Spec, TargetSpec


class RunBudget(Spec):
    """What a run may spend on its judge, all in all; what is past it is skipped."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens together; not set: no limit."""

    max_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """USD; not set: no limit. A model whose price is not known cannot be asked under this limit."""


class RunSpec(Spec):
    """What is evaluated, by what, and what becomes of it."""

    name: Annotated[str, Field(max_length=256)] = ""
    """For people; two runs may have the same."""

    target: TargetSpec = TargetSpec()
    """Which stored traces or sessions."""

    measure: MeasureSpec = MeasureSpec()
    """The metrics, their options, and the model that judges."""

    budget: RunBudget | None = None
    """The run's own budget. Not set: as much in all as `judge.budget` gives the server for one window."""

    export: bool = False
    """Whether the scores are exported by OTLP, with the run's id on each. They never replace the traces' own scores."""
