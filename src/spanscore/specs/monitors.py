"""What a monitor is asked to do, through the API or by the configuration: which metric to watch,
which runs to start, and when.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from spanscore.model import tenant
from spanscore.model.quantity import Duration, duration_ns
from spanscore.monitoring.config import Times, Watch, Watching
from spanscore.specs.runs import RunBudget, RunSpec
from spanscore.specs.target import MeasureSpec, Spec, TargetSpec, TraceFilter

MAX_IDS = 1000

LATER_SCORES: Final = (
    "a trace that is scored after a tick would be in no run: give look_back or everything beside it"
)
"""Why a condition over scores needs a window."""


class MonitorRun(Spec):
    """The evaluation run that each tick starts."""

    target: TargetSpec = TargetSpec()
    """Which stored traces or sessions."""

    measure: MeasureSpec = MeasureSpec()
    """By what they are evaluated."""

    budget: RunBudget | None = None
    """What each of the runs may spend."""

    export: bool = False
    """Whether the scores are exported."""

    look_back: Duration | None = Field(default=None, ge=10**9, le=duration_ns("4000d"))
    """Only traces that were stored in so much time before the run, or of a source started. Not set:
    since the run before.
    """

    everything: bool = False
    """All traces of the target, in place of those that were stored since the run before."""

    overlap: Literal["skip", "queue", "cancel_previous"] = "skip"
    """What happens at a tick while the run of an earlier one is still going."""

    only_if_changed: bool = False
    """Whether ticks are skipped at which nothing has changed since the run before."""

    @field_validator("target")
    @classmethod
    def _is_bounded(cls, target: TargetSpec) -> TargetSpec:
        if max(len(target.trace_ids), len(target.session_ids)) > MAX_IDS:
            raise ValueError(f"a monitor names at most {MAX_IDS} ids; give a filter")
        return target

    @model_validator(mode="after")
    def _one_window(self) -> Self:
        if self.look_back is not None and self.everything:
            raise ValueError("give look_back or everything, not both")
        if self.look_back is not None and self.names_ids:
            raise ValueError(
                "a target of ids has no look_back: all of these are evaluated each time"
            )
        if self.target.source is not None and not self.names_ids:
            self._refuse_of_source()
        return self

    def _refuse_of_source(self) -> None:
        if self.look_back is None and not self.everything:
            raise ValueError(
                "a source has no record of what is new in it: give look_back or everything"
            )
        if self.only_if_changed:
            raise ValueError(
                "a source has no record of what has changed in it: leave only_if_changed out"
            )

    @property
    def names_ids(self) -> bool:
        """Whether the target names its traces or sessions one by one."""
        return bool(self.target.trace_ids or self.target.session_ids)

    @property
    def misses_later_scores(self) -> bool:
        """Whether the runs are about what was stored since the run before, of which some may not be
        scored yet.
        """
        return bool(self.target.where) and self.look_back is None and not self.everything

    def run_spec(self, name: str, now_ns: int | None = None) -> RunSpec:
        """The run of a tick that is made at `now_ns`."""
        target = self.target
        if target.source is not None and self.look_back is not None and now_ns is not None:
            wanted = target.filter or TraceFilter()
            after_ns = max(wanted.started_after_ns or 0, now_ns - self.look_back)
            target = target.model_copy(
                update={"filter": wanted.model_copy(update={"started_after_ns": after_ns})}
            )
        return RunSpec(
            name=name, target=target, measure=self.measure, budget=self.budget, export=self.export
        )


class MonitorSpec(Spec):
    """A monitor: it watches a metric, starts runs, or both."""

    name: Annotated[str, Field(max_length=256)] = ""
    """For people; two monitors may have the same."""

    watch: Watch | None = None
    """The metric of which an alert is raised when it falls: where there are runs, in their
    scores.
    """

    schedule: Times = Times()
    """When it ticks."""

    run: MonitorRun | None = None
    """The run that each tick starts.

    Not set: the scores that are made as the traces come are looked at.
    """

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.watch is None and self.run is None:
            raise ValueError(
                "give watch, a metric to be watched, or run, what each tick evaluates, or both"
            )
        return self


def _refuse_no_tenant(name: str) -> str:
    if name and (problem := tenant.problem(name)) is not None:
        raise ValueError(problem)
    return name


class Monitor(Times, Watching):
    """A monitor of the configuration.

    It watches one metric, as its scores are made or in those of the runs that it starts, and raises
    an alert when it falls; or it only starts runs.
    """

    run: MonitorRun | None = None
    """The evaluation run that each tick starts. Not set: `metric` is watched as its scores are
    made.
    """

    tenant: Annotated[str, AfterValidator(_refuse_no_tenant)] = ""
    """Whose scores are watched, and who sees the monitor, where there are tenants (`tenancy`)."""

    paused: bool = False
    """Whether not to tick; what comes meanwhile belongs to the first tick after it."""

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.metric is None:
            given = sorted(self.model_fields_set & (Watch.model_fields.keys() - {"metric"}))
            if given:
                raise ValueError(f"{given[0]} is of a metric that is watched: give metric")
            if self.run is None:
                raise ValueError("give metric, which is watched, or run, or both")
        if self.run is not None and self.run.misses_later_scores:
            raise ValueError(f"run.target.where: {LATER_SCORES}")
        return self

    @property
    def spec(self) -> MonitorSpec:
        """The same as through the API."""
        watched = {name: getattr(self, name) for name in Watch.model_fields}
        times = {name: getattr(self, name) for name in Times.model_fields}
        return MonitorSpec(
            watch=None if self.metric is None else Watch.model_construct(**watched),
            schedule=Times.model_construct(**times),
            run=self.run,
        )
