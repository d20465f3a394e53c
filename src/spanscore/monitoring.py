"""Monitors: schedules, watches of a metric's scores, and alerts."""

import hashlib
import hmac
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from spanscore.model.options import Duration, Options, duration_ns
from spanscore.stats import DropTest, Evidence, lower_limit, watch
from spanscore.time_zones import zone_of

if TYPE_CHECKING:
    from cronsim import CronSim


_SECOND = 10**9


class Schedule:
    """The times of one monitor, in ns since the Unix epoch; those of an interval are its
    multiples.
    """

    def __init__(
        self,
        name: str,
        *,
        cron: str | None = None,
        time_zone: str = "UTC",
        every_ns: int = 0,
        jitter_ns: int = 0,
    ) -> None:
        """Either `cron` or `every_ns`.

        `jitter_ns`: each time is later by up to this, for one `name` always as much.

        Raises ValueError where an expression or a time zone is none, or the expression has no time
        at all.
        """
        self._every_ns = every_ns
        self._cron = cron
        self._zone = zone_of(time_zone)
        self._later_ns = zlib.crc32(name.encode()) * jitter_ns >> 32
        if cron is not None:
            check_cron(cron)

    def next_after(self, at_ns: int) -> int:
        """The first time after `at_ns`.

        A cron expression is met as Debian's cron does it: what falls into the time that is skipped
        when clocks go forward comes right after it, and what falls into the time that there is
        twice comes once. Where minute or hour is `*` or a step of it, the times go on as if clocks
        had not changed.

        >>> Schedule("a", every_ns=60 * 10**9).next_after(90 * 10**9) // 10**9
        120
        """
        at_ns -= self._later_ns
        if self._cron is None:
            return (at_ns // self._every_ns + 1) * self._every_ns + self._later_ns
        return next(_times(self._cron, self._zone, at_ns)) + self._later_ns

    def last_until(self, at_ns: int, after_ns: int) -> int | None:
        """The last time after `after_ns` that is not after `at_ns`; None where there is none."""
        if self._cron is None:
            last_ns = (at_ns - self._later_ns) // self._every_ns * self._every_ns + self._later_ns
            return last_ns if last_ns > after_ns else None
        # From some way back, so that a server that was down for a year does not go through all of
        # its minutes.
        for back_ns in (3600 * _SECOND, 40 * 86400 * _SECOND, at_ns):
            found = None
            for time_ns in _times(
                self._cron, self._zone, max(at_ns - back_ns, after_ns) - self._later_ns
            ):
                if time_ns + self._later_ns > at_ns:
                    break
                found = time_ns + self._later_ns
            if found is not None or at_ns - back_ns <= after_ns:
                return found
        return None


def _times(cron: str, zone: tzinfo, after_ns: int) -> Iterator[int]:
    """The times after `after_ns`, in ns since the Unix epoch."""
    for found in _parsed(cron, datetime.fromtimestamp(after_ns // _SECOND, UTC).astimezone(zone)):
        found_ns = int(found.timestamp()) * _SECOND
        # in the second of two equal hours, CronSim begins with one of the first
        if found_ns > after_ns:
            yield found_ns


def _parsed(cron: str, after: datetime) -> "CronSim":
    """The times of an expression after one. Raises ValueError where it is none."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - a server without monitors need not load it

    try:
        return CronSim(cron, after)
    except CronSimError as error:
        raise ValueError(
            f"cron {cron!r}: {error}; write minute, hour, day, month and day of the week"
        ) from None


def check_cron(cron: str) -> None:
    """Raise ValueError where an expression is none, or has no time at all."""
    if next(_times(cron, UTC, 0), None) is None:
        raise ValueError(f"cron {cron!r}: there is no such time")


def interval_s(cron: str) -> int:
    """How many seconds there are at least between two times of an expression.

    >>> interval_s("*/15 * * * * *"), interval_s("0 3 * * *")
    (15, 60)
    """
    seconds = sorted(_parsed(cron, datetime.fromtimestamp(0, UTC)).seconds)
    return min(later - earlier for earlier, later in pairwise([*seconds, seconds[0] + 60]))


_Name = Annotated[str, Field(min_length=1, max_length=256)]
LONGEST_NS = duration_ns("400d")


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

    settle_after: Duration = Field(default=duration_ns("30m"), ge=0, le=LONGEST_NS)
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

    every: Duration | None = Field(default=None, ge=10**9, le=LONGEST_NS)
    """How often to look, at multiples of it since the Unix epoch. Where `cron` is not set either,
    each minute.
    """

    cron: Annotated[str, Field(max_length=256)] | None = None
    """When to look, as minute, hour, day of the month, month and day of the week, or with seconds
    before these.
    """

    time_zone: Annotated[str, Field(max_length=64)] = "UTC"
    """The time zone of `cron`, such as Europe/Berlin."""

    jitter: Duration = Field(default=0, ge=0, le=LONGEST_NS)
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


_SIZED_BY = 30
_HEAVIER = 3.0
_RESOLVED_BY = 0.05
"""The chance that an alarm is taken back though the mean is still in the lower half of the drop."""

Phase: TypeAlias = Literal["sizing", "reference", "watching", "firing"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A session that has settled, or a trace without one: the weighted mean of its scores on 0..1,
    and their weight.
    """

    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class State:
    """All that a monitor knows. `gathered` are the units of a phase that is about these.

    `floor` is what the mean is held against. `alarms` counts those that were raised; `low_mean` and
    `low_units` are of the last: the mean since it fell, and of how many units it is. `counted` are
    all units so far.
    """

    phase: Phase
    heaviest: float = 0.0
    floor: float = 0.0
    gathered: tuple[tuple[float, float], ...] = ()
    alarms: int = 0
    evidence: Evidence = field(default_factory=Evidence)
    low_mean: float = 0.0
    low_units: int = 0
    counted: int = 0

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return asdict(self) | {"evidence": self.evidence.to_json()}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "State":
        """What `to_json` gave."""
        gathered = tuple((float(value), float(weight)) for value, weight in given["gathered"])
        return cls(
            **{**given, "gathered": gathered, "evidence": Evidence.from_json(given["evidence"])}
        )


@dataclass(frozen=True, slots=True)
class Change:
    """An alarm that begins or ends, with the state at that moment."""

    status: Literal["firing", "resolved"]
    state: State


def start_watch(watched: Watch) -> State:
    """The state of a monitor that has seen nothing."""
    if watched.heaviest is None:
        return State("sizing")
    return _sized(watched, State("sizing"), watched.heaviest)


def advance(watched: Watch, state: State, units: Sequence[Unit]) -> tuple[State, list[Change]]:
    """The state after these units too, and what changed on the way."""
    changes = []
    rest = list(units)
    while rest:
        after, taken, change = _STEPS[state.phase](watched, state, rest)
        rest = rest[taken:]
        state = replace(after, counted=state.counted + taken)
        if change is not None:
            changes.append(Change(change, state))
    return state, changes


def alpha_of(watched: Watch, alarms: int) -> float:
    """The chance of a false alarm that the next alarm may have, after so many.

    A reference takes half of `alpha`. Of the rest, 1/2, 1/6, 1/12 … are for the first, second,
    third … alarm, which sums to 1: so the chance that any alarm ever is a false one is `alpha` at
    most.
    """
    alpha = watched.alpha if watched.held_against is None else watched.alpha / 2
    return alpha / ((alarms + 1) * (alarms + 2))


_Step: TypeAlias = tuple[State, int, Literal["firing", "resolved"] | None]


def _size(watched: Watch, state: State, units: Sequence[Unit]) -> _Step:
    state, taken = _gather(state, units, _SIZED_BY)
    if len(state.gathered) < _SIZED_BY:
        return state, taken, None
    heaviest = _HEAVIER * sum(weight for _, weight in state.gathered) / _SIZED_BY
    return _sized(watched, state, heaviest), taken, None


def _sized(watched: Watch, state: State, heaviest: float) -> State:
    state = replace(state, heaviest=heaviest, gathered=())
    if watched.floor is not None:
        return replace(state, phase="watching", floor=watched.floor)
    return replace(state, phase="reference")


def _refer(watched: Watch, state: State, units: Sequence[Unit]) -> _Step:
    reference = watched.held_against or Reference()
    state, taken = _gather(state, units, reference.sessions)
    if len(state.gathered) < reference.sessions:
        return state, taken, None
    values, weights = zip(*state.gathered, strict=True)
    low = lower_limit(values, weights, heaviest=state.heaviest, alpha=watched.alpha / 2)
    return (
        replace(state, phase="watching", floor=max(0.0, low - reference.tolerance), gathered=()),
        taken,
        None,
    )


def _watch(watched: Watch, state: State, units: Sequence[Unit]) -> _Step:
    test = DropTest(state.floor, alpha_of(watched, state.alarms), state.heaviest)
    found, fell = watch(test, state.evidence, [x.value for x in units], [x.weight for x in units])
    taken = found.units - state.evidence.units
    if not fell:
        return replace(state, evidence=found), taken, None
    low = min(found.low_mean if found.low_mean is not None else 0.0, state.floor)
    fallen = replace(
        state,
        phase="firing",
        alarms=state.alarms + 1,
        evidence=Evidence(),
        low_mean=low,
        low_units=found.low_units,
    )
    return fallen, taken, "firing"


def _recover(_: Watch, state: State, units: Sequence[Unit]) -> _Step:
    """An alarm ends when the mean is more than half of the way back, by the same test upside
    down.
    """
    half = (state.low_mean + state.floor) / 2
    test = DropTest(1 - half, _RESOLVED_BY, state.heaviest)
    found, rose = watch(
        test, state.evidence, [1 - x.value for x in units], [x.weight for x in units]
    )
    taken = found.units - state.evidence.units
    if not rose:
        return replace(state, evidence=found), taken, None
    return replace(state, phase="watching", evidence=Evidence()), taken, "resolved"


def _gather(state: State, units: Sequence[Unit], wanted: int) -> tuple[State, int]:
    taken = min(len(units), wanted - len(state.gathered))
    return replace(
        state, gathered=(*state.gathered, *((x.value, x.weight) for x in units[:taken]))
    ), taken


_STEPS: Mapping[Phase, Callable[[Watch, State, Sequence[Unit]], _Step]] = {
    "sizing": _size,
    "reference": _refer,
    "watching": _watch,
    "firing": _recover,
}


ALERT_NAME = "SpanscoreScoreDrop"


@dataclass(frozen=True, slots=True)
class Origin:
    """The monitor of an alert, and the evaluation run whose scores it rests on; None where these
    are live ones. `certified` is of the judge whose verdicts a pass rate counts.
    """

    monitor: str
    tenant: str = ""
    run: str | None = None
    certified: bool | None = None


def alert_record(
    origin: Origin, watched: Watch, change: Change, *, number: int, began_ns: int, now_ns: int
) -> dict[str, Any]:
    """All that is known of an alert when it begins or ends, which is stored until it has left, and
    a webhook's body.

    It is the monitor's alert of this `number`, and began at `began_ns`. Means are on the scale
    0..1.
    """
    state = change.state
    return {
        "version": 1,
        "id": f"{origin.monitor}/{number}",
        "status": change.status,
        "monitor": origin.monitor,
        "tenant": origin.tenant or None,
        "metric": watched.metric,
        "scope": watched.scope,
        "of": watched.of,
        "service": watched.service,
        "agent": watched.agent,
        "run": origin.run,
        "labels": dict(watched.labels),
        "began_at": moment(began_ns),
        "changed_at": moment(now_ns),
        "floor": round(state.floor, 4),
        "mean": round(state.low_mean, 4),
        "sessions": state.low_units,
        "sessions_counted": state.counted,
        "alpha": watched.alpha,
        "certified": origin.certified,
        "summary": _summary(origin, watched, change),
    }


def ended_alert(alert: Mapping[str, Any], why: str, now_ns: int) -> dict[str, Any]:
    """The record of an alert that ends for another reason than that the mean has come back."""
    return {
        **alert,
        "status": "resolved",
        "changed_at": moment(now_ns),
        "summary": f"{alert['monitor']}: the alert ends, {why}",
    }


def for_alertmanager(
    change: Mapping[str, Any], now_ns: int, lasts_ns: int, url: str | None
) -> list[dict[str, Any]]:
    """The body of POST /api/v2/alerts.

    One that fires ends by itself after `lasts_ns`, unless it is sent again.
    """
    own = {"alertname": ALERT_NAME, "monitor": change["monitor"], "metric": change["metric"]}
    given = {"service": change["service"], "agent": change["agent"], "tenant": change.get("tenant")}
    labels = {
        **change["labels"],
        **own,
        **{name: value for name, value in given.items() if value is not None},
    }
    ends = moment(now_ns + lasts_ns) if change["status"] == "firing" else change["changed_at"]
    description = (
        f"Evidence that the mean is below {change['floor']:g}: it was {change['mean']:g} over the"
        f" last {change['sessions']} sessions when the alert began. The chance that this monitor"
        f" ever raises a false alert is {change['alpha']:g}."
    )
    alert = {
        "labels": labels,
        "annotations": {"summary": change["summary"], "description": description},
        "startsAt": change["began_at"],
        "endsAt": ends,
    }
    return [alert if url is None else {**alert, "generatorURL": url}]


def alert_signature(secret: str, sent_at_s: int, body: bytes) -> str:
    """The HMAC by SHA-256 of time, a full stop and body, in hex: who knows the secret can check
    that both are ours.

    >>> alert_signature("s", 1700000000, b"{}")[:16]
    'e9232c9945da8456'
    """
    return hmac.new(secret.encode(), b"%d." % sent_at_s + body, hashlib.sha256).hexdigest()


def moment(time_ns: int) -> str:
    """A time as RFC 3339 has it.

    >>> moment(1_700_000_000_123_000_000)
    '2023-11-14T22:13:20.123Z'
    """
    return (
        datetime.fromtimestamp(time_ns / 1e9, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _summary(origin: Origin, watched: Watch, change: Change) -> str:
    what = (
        f"{origin.monitor}: {'the pass rate' if watched.of == 'pass_rate' else 'the mean'} of"
        f" {watched.metric}"
    )
    if change.status == "resolved":
        return f"{what} has come back"
    state = change.state
    fell = (
        f"{what} fell to {state.low_mean:.2f}, below {state.floor:.2f}, in the last"
        f" {state.low_units} sessions"
    )
    return f"{fell}, by a judge without a certificate" if origin.certified is False else fell
