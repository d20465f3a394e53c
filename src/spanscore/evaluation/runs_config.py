"""What can be configured about evaluation runs."""

from typing import Annotated

from pydantic import Field

from spanscore.model.options import Options
from spanscore.model.quantity import Duration, duration_ns


class RunRetention(Options):
    """How long evaluation runs are kept that have ended; whichever bound is reached first."""

    max_age: Duration | None = Field(default=duration_ns("30d"), gt=0)
    """Runs that ended longer ago are deleted; null keeps them for ever."""

    max_runs: int | None = Field(default=1000, ge=1)
    """How many are kept, the newest, of each tenant; null sets no bound."""

    delete_scores: bool = False
    """Whether the scores of a run go with it; false: they stay for as long as `store.retention`
    says.
    """


class RunMaxBudget(Options):
    """The most that one evaluation run may spend on its judge, all in all."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens together; null: no bound."""

    max_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """USD; null: no bound. A model whose price is not known cannot be asked under it."""


class RunSource(Options):
    """Where the stored traces are that runs may read."""

    url: str = Field(min_length=1)
    """As for `spanscore eval`: `jaeger://localhost:16686?service=shop`, `file:///data/traces`,
    `s3://bucket/path`. Its conditions hold for every run; a run's own filter narrows them.
    """

    tenants: list[str] = []
    """Which tenants may read it; where there are no tenants, everybody may whose token can create
    runs.
    """


class Runs(Options):
    """Evaluation runs, which score what is stored: they give way to what comes in."""

    at_once: int = Field(default=2, ge=1, le=64)
    """Runs that are worked on at the same time; others wait for their turn."""

    max_concurrent: int = Field(default=8, ge=1)
    """Traces or sessions that one run evaluates at the same time, and metrics of these that wait
    for a judge.
    """

    max_budget: RunMaxBudget = RunMaxBudget()
    """What no run may spend more than.

    One that asks for more is refused; one without a budget of its own has this.
    """

    sources: dict[Annotated[str, Field(min_length=1, max_length=256)], RunSource] = {}
    """Backends and files elsewhere whose stored traces runs may evaluate, by the name that a run
    gives. A run can name no other place.
    """

    max_from_source: int = Field(default=50_000, ge=1)
    """Traces or sessions of a source that one run may evaluate, after its sample is drawn: their
    traces are stored.
    """

    retention: RunRetention = RunRetention()
    """How long runs are kept that have ended."""
