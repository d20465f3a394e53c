"""Requests of MonitorService made from keywords, for both clients."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypedDict

from google.protobuf.field_mask_pb2 import FieldMask

from spanscore.api.client_keywords import ScopeName, fields, named, one_of, scope_of
from spanscore.api.run_requests import RunOptions, run_of
from spanscore.api.v1 import monitor_service_pb2 as pb

OverlapName = Literal["skip", "queue", "cancel_previous"]


class MonitorOptions(TypedDict, total=False):
    """What a monitor does; what is left out is as the server has it.

    It watches a metric, starts runs, or both.
    """

    name: str
    """For people; two monitors may have the same."""

    metric: str
    """The metric that is watched; without it none is."""

    scope: ScopeName
    """Whether scores of traces are watched, or of sessions."""

    of: Literal["mean", "pass_rate"]
    """What is watched of the scores."""

    service: str
    """Only scores of this service.name."""

    agent: str
    """Only scores of this agent."""

    floor: float
    """Alert when the mean, on the scale 0 to 1, is below this."""

    reference_sessions: int
    """Alert when the mean is below that of so many first sessions, in place of `floor`."""

    tolerance: float
    """How much lower than that of the first sessions the mean may be, on the scale 0 to 1."""

    alpha: float
    """The chance that this monitor ever raises a false alarm."""

    heaviest: float
    """With how many turns a session counts at most."""

    settle_after_s: float
    """For how many seconds a session has had no new score when it is counted."""

    labels: Mapping[str, str]
    """Labels of its alerts."""

    every_s: float
    """It ticks every so many seconds."""

    cron: str
    """It ticks by this cron expression, in place of `every_s`."""

    time_zone: str
    """The time zone of `cron`, such as Europe/Berlin."""

    jitter_s: float
    """Each tick is later by up to so many seconds."""

    catch_up: bool
    """Whether one tick makes up for those that were missed while the server was down."""

    run: RunOptions
    """The run that each tick starts, by the keywords of `runs.create`; without it none is
    started.
    """

    look_back_s: float
    """Its runs are about what was stored in so many seconds before, in place of what is new since
    the run before.
    """

    everything: bool
    """Its runs are about all of the target."""

    overlap: OverlapName
    """What happens at a tick while the run of an earlier one is still going."""

    only_if_changed: bool
    """Whether a tick is skipped where nothing has changed since the run before."""


_WATCH: Final = (
    "metric",
    "of",
    "service",
    "agent",
    "floor",
    "alpha",
    "heaviest",
    "settle_after_s",
    "labels",
)
_SCHEDULE: Final = ("every_s", "cron", "time_zone", "jitter_s", "catch_up")
_REFERENCE: Final = {"reference_sessions": "sessions", "tolerance": "tolerance"}
_RUN: Final = ("look_back_s", "everything", "only_if_changed")
_TAKES_PLACE_OF: Final = {
    "watch.floor": "watch.reference",
    "watch.reference.sessions": "watch.floor",
    "schedule.every_s": "schedule.cron",
    "schedule.cron": "schedule.every_s",
    "run.look_back_s": "run.everything",
    "run.everything": "run.look_back_s",
}
"""Where an update sets a field, it clears the one that a monitor cannot have beside it."""


def create_request(
    wanted: MonitorOptions, monitor_id: str, request_id: str
) -> pb.CreateMonitorRequest:
    """Asks for a monitor. Raises TypeError for an option that there is not."""
    return pb.CreateMonitorRequest(
        monitor=_monitor(wanted), monitor_id=monitor_id, request_id=request_id
    )


def update_request(monitor: str, wanted: MonitorOptions, etag: str) -> pb.UpdateMonitorRequest:
    """Asks for a monitor to be changed, in what is given.

    Raises TypeError for an option that there is not.
    """
    changed = _monitor(wanted)
    changed.name, changed.etag = named("monitors", monitor), etag
    mask = with_cleared(_paths(wanted))
    return pb.UpdateMonitorRequest(monitor=changed, update_mask=mask)


def with_cleared(paths: Iterable[str]) -> FieldMask:
    """The mask of an update that sets these fields, and clears those that they take the place
    of.
    """
    given = set(paths)
    cleared = {_TAKES_PLACE_OF[x] for x in given if x in _TAKES_PLACE_OF}
    return FieldMask(paths=sorted(given | cleared))


def _monitor(wanted: MonitorOptions) -> pb.Monitor:
    found = fields(wanted, MonitorOptions, "a monitor")
    watch = _part(found, *_WATCH)
    if "scope" in found:
        watch["scope"] = scope_of(found["scope"])
    reference = {field: found[name] for name, field in _REFERENCE.items() if name in found}
    if reference:
        watch["reference"] = pb.MonitorReference(**reference)
    schedule = _part(found, *_SCHEDULE)
    return pb.Monitor(
        display_name=found.get("name", ""),
        watch=pb.MonitorWatch(**watch) if watch else None,
        schedule=pb.MonitorSchedule(**schedule) if schedule else None,
        run=_run(found),
    )


def _run(found: Mapping[str, Any]) -> pb.MonitorRun | None:
    options = _part(found, *_RUN)
    if "overlap" in found:
        one_of("overlap", found["overlap"], OverlapName)
        options["overlap"] = pb.MonitorOverlap.Value(f"MONITOR_OVERLAP_{found['overlap'].upper()}")
    if "run" in found:
        run = run_of(found["run"])
        budget = {"budget": run.budget} if run.HasField("budget") else {}
        options |= {"target": run.target, "measure": run.measure, "export": run.export, **budget}
    return pb.MonitorRun(**options) if options else None


def _paths(wanted: MonitorOptions) -> Iterator[str]:
    """The fields that the options are of."""
    for name in wanted:
        if name == "name":
            yield "display_name"
        elif name == "run":
            yield from ("run.target", "run.measure", "run.budget", "run.export")
        elif name in _REFERENCE:
            yield f"watch.reference.{_REFERENCE[name]}"
        else:
            part = (
                "watch"
                if name in {*_WATCH, "scope"}
                else "schedule"
                if name in _SCHEDULE
                else "run"
            )
            yield f"{part}.{name}"


def _part(found: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: found[name] for name in names if name in found}
