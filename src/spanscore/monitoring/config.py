"""What a monitor watches, and when it looks."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from spanscore.model.options import Options
from spanscore.model.quantity import Duration, duration_ns
from spanscore.monitoring.schedule import Schedule, check_cron
from spanscore.time_zones import zone_of

_Name = Annotated[str, Field(min_length=1, max_length=256)]
_LONGEST_NS = duration_ns("400d")


class Reference(Options):
    """The first sessions after the monitor's start, against whose mean a drop is held."""

    sessions: int = Field(default=400, ge=20, le=5000)
    """How many sessions. The more there are, the smaller the drops that are found."""

    tolerance: float = Field(default=0.0, ge=0, lt=1, allow_inf_nan=False)
    """How much lower the mean may be without an alert, on the scale 0..1."""


class Watching(Options):
    """What is watched, where something is: a metric, of which an alert is raised when it falls."""

    metric: _Name | None = None
    """The metric whose scores are watched."""

    scope: Literal["trace", "session"] = "trace"
    """Whether scores of traces or of sessions."""

    of: Literal["mean", "pass_rate"] = "mean"
    """What is watched: the mean score, or the share of the label `pass`."""

    service: _Name | None = None
    """Only scores of this `service.name`."""

    agent: _Name | None = None
    """Only scores of the agent of this name."""

    floor: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    """Alert when the mean, on the scale 0..1, is below this. Not set: below that of `reference`."""

    reference: Reference | None = None
    """Alert when the mean is below that of the first sessions.

    Where neither is set, that of 400 sessions.
    """

    alpha: float = Field(default=0.01, ge=1e-12, lt=1, allow_inf_nan=False)
    """The chance that this monitor ever raises a false alarm, however often it looks and however
    long it runs.
    """

    heaviest: float | None = Field(default=None, gt=0, le=1e12, allow_inf_nan=False)
    """With how many turns, each by the inverse of the chance with which it was drawn, a session
    counts at most.

    Not set: three times the mean of the first 30 sessions, which are used for nothing else.
    """

    settle_after: Duration = Field(default=duration_ns("30m"), ge=0, le=_LONGEST_NS)
    """For how long a session has had no new score when it is counted; after a day it is counted
    anyway.

    A session counts once: turns that come later are left out.
    """

    labels: dict[_Name, Annotated[str, Field(max_length=1024)]] = {}
    """Labels of the alert beside its own, such as `severity: page`."""

    @model_validator(mode="after")
    def _one_standard(self) -> Self:
        if self.floor is not None and self.reference is not None:
            raise ValueError("give floor or reference, not both")
        return self

    @property
    def held_against(self) -> Reference | None:
        """The reference; None where there is a floor."""
        return None if self.floor is not None else self.reference or Reference()


class Watch(Watching):
    """One metric, of which an alert is raised when it falls."""

    metric: _Name
    """The metric whose scores are watched."""


class Times(Options):
    """When a monitor looks."""

    every: Duration | None = Field(default=None, ge=10**9, le=_LONGEST_NS)
    """How often to look. Where `cron` is not set either, each minute."""

    cron: Annotated[str, Field(max_length=256)] | None = None
    """When to look, as minute, hour, day of the month, month and day of the week."""

    time_zone: Annotated[str, Field(max_length=64)] = "UTC"
    """The time zone of `cron`, such as Europe/Berlin."""

    jitter: Duration = Field(default=0, ge=0, le=_LONGEST_NS)
    """Each look is later by up to this, always as much for the same monitor, so that not all look
    at once.
    """

    catch_up: bool = True
    """Whether to look once at the start where looks were missed while the server was down."""

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, cron: str | None) -> str | None:
        if cron is not None:
            check_cron(cron)
        return cron

    @field_validator("time_zone")
    @classmethod
    def _is_zone(cls, name: str) -> str:
        zone_of(name)
        return name

    @model_validator(mode="after")
    def _one_schedule(self) -> Self:
        if self.every is not None and self.cron is not None:
            raise ValueError("give every or cron, not both")
        return self

    def schedule(self, name: str) -> Schedule:
        """When to look, of the monitor with this name."""
        every_ns = self.every if self.every is not None else duration_ns("1m")
        return Schedule(
            name, cron=self.cron, time_zone=self.time_zone, every_ns=every_ns, jitter_ns=self.jitter
        )
