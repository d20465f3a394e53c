"""MonitorService, and monitors as messages and specs."""

import re
from typing import Any, Final

from google.protobuf.empty_pb2 import Empty
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from pydantic import field_validator

from spanscore.api import requests
from spanscore.api.backend import Backend
from spanscore.api.requests import id_in, name_of, request_id_in, shown
from spanscore.api.runs import encode_run, encode_spec
from spanscore.api.runs import spec_of as run_spec_of
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import monitor_service_pb2 as pb
from spanscore.api.v1 import run_service_pb2 as run_pb
from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_TRACE, SCOPE_UNSPECIFIED
from spanscore.control.monitors import Monitors, Shown, ShownTick
from spanscore.control.ticks import Known
from spanscore.errors import ConflictError, FieldError, NotFoundError
from spanscore.model.options import Duration
from spanscore.monitoring import State, Times, Watch, alpha_of, interval_s
from spanscore.otlp.codec import is_repeated
from spanscore.specs import MonitorRun, MonitorSpec, read_spec

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ID_CHARS, _CHARS_A_NUMBER = 70, 7


class MonitorService(Servicer):
    """See monitor_service.proto."""

    service = pb.DESCRIPTOR.services_by_name["MonitorService"]

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def _monitors(self) -> Monitors:
        return self._backend.monitors

    @needs("write")
    async def create_monitor(self, request: pb.CreateMonitorRequest, call: Call) -> pb.Monitor:
        """Keep a new monitor."""
        if request.monitor_id and not _ID.fullmatch(request.monitor_id):
            allowed = 'up to 64 letters, digits, "-", "_" and ".", a letter or digit first'
            raise FieldError("monitor_id", f"{shown(request.monitor_id)} is no id: give {allowed}")
        request_id = request_id_in(request.request_id)
        spec = spec_of(request.monitor)
        try:
            known = await self._monitors.create(call.tenant, spec, request.monitor_id, request_id)
        except FieldError as error:
            raise error.within("monitor") from None
        return await self._encoded(known)

    @needs("read")
    async def get_monitor(self, request: pb.GetMonitorRequest, call: Call) -> pb.Monitor:
        """One monitor."""
        return await self._encoded(await self._known(request.name, call))

    @needs("read")
    async def list_monitors(
        self, request: pb.ListMonitorsRequest, call: Call
    ) -> pb.ListMonitorsResponse:
        """A page of monitors."""
        limit = requests.limit(request.page_size)
        after = requests.place(request, call, _ID_CHARS // _CHARS_A_NUMBER)
        monitors = await self._monitors.all_of(call.tenant)
        found = [x for x in monitors if after is None or _place(x.id) > after]
        described = await self._monitors.shown(found[:limit])
        response = pb.ListMonitorsResponse(monitors=map(encode_monitor, described))
        if len(found) > limit:
            response.next_page_token = requests.token(request, call, _place(found[limit - 1].id))
        return response

    @needs("write")
    async def update_monitor(self, request: pb.UpdateMonitorRequest, call: Call) -> pb.Monitor:
        """Change what a monitor does."""
        known = await self._known(request.monitor.name, call, "monitor.name")
        _refuse_changed(known, request.monitor.etag)
        spec = spec_of(merged(known, request.monitor, request.update_mask))
        try:
            return await self._encoded(await self._monitors.update(known, spec))
        except FieldError as error:
            raise error.within("monitor") from None

    @needs("write")
    async def delete_monitor(self, request: pb.DeleteMonitorRequest, call: Call) -> Empty:
        """Delete a monitor."""
        known = await self._known(request.name, call)
        _refuse_changed(known, request.etag)
        await self._monitors.delete(known)
        return Empty()

    @needs("write")
    async def pause_monitor(self, request: pb.PauseMonitorRequest, call: Call) -> pb.Monitor:
        """Have a monitor wait."""
        known = await self._known(request.name, call)
        return await self._encoded(await self._monitors.set_paused(known, is_paused=True))

    @needs("write")
    async def resume_monitor(self, request: pb.ResumeMonitorRequest, call: Call) -> pb.Monitor:
        """Have a paused monitor go on."""
        known = await self._known(request.name, call)
        return await self._encoded(await self._monitors.set_paused(known, is_paused=False))

    @needs("write")
    async def trigger_monitor(
        self, request: pb.TriggerMonitorRequest, call: Call
    ) -> pb.MonitorTick:
        """Make a tick now."""
        request_id = request_id_in(request.request_id)
        return encode_tick(
            await self._monitors.trigger(await self._known(request.name, call), request_id)
        )

    @needs("read")
    async def list_monitor_ticks(
        self, request: pb.ListMonitorTicksRequest, call: Call
    ) -> pb.ListMonitorTicksResponse:
        """A page of a monitor's ticks."""
        limit = requests.limit(request.page_size)
        place = requests.place(request, call, 1)
        known = await self._known(request.parent, call, "parent")
        found = await self._monitors.ticks(known, limit + 1, None if place is None else place[0])
        response = pb.ListMonitorTicksResponse(ticks=map(encode_tick, found[:limit]))
        if len(found) > limit:
            response.next_page_token = requests.token(
                request, call, (found[limit - 1].tick.due_ns,)
            )
        return response

    async def _known(self, name: str, call: Call, field: str = "name") -> Known:
        monitor_id = id_in(name, "monitors", field)
        if not _ID.fullmatch(monitor_id):
            raise NotFoundError(f"there is no monitor {shown(monitor_id)}")
        return await self._monitors.get(call.tenant, monitor_id)

    async def _encoded(self, known: Known) -> pb.Monitor:
        return encode_monitor((await self._monitors.shown([known]))[0])


def _refuse_changed(known: Known, etag: str) -> None:
    if etag and etag != etag_of(known):
        raise ConflictError(
            f"monitor {known.id!r} was changed since etag {shown(etag)}; read it again"
        )


def _place(monitor_id: str) -> tuple[int, ...]:
    """Numbers that are in the order of the ids."""
    padded = monitor_id.encode().ljust(_ID_CHARS, b"\0")[:_ID_CHARS]
    parts = range(0, _ID_CHARS, _CHARS_A_NUMBER)
    return tuple(int.from_bytes(padded[x : x + _CHARS_A_NUMBER], "big") for x in parts)


_SECOND: Final = 10**9
_DAY_S: Final = 86_400
_LEAST_S: Final = 10
_GIVEN: Final = ("display_name", "watch", "schedule", "run")
"""The fields of a monitor that its user gives."""

_NAMES: Final = {
    "name": "display_name",
    "watch.settle_after": "watch.settle_after_s",
    "schedule.every": "schedule.every_s",
    "schedule.jitter": "schedule.jitter_s",
    "run.look_back": "run.look_back_s",
}
"""Fields of a spec that the API names differently."""

_SCOPES: Final[dict[Any, str]] = {
    SCOPE_UNSPECIFIED: "trace",
    SCOPE_TRACE: "trace",
    SCOPE_SESSION: "session",
}
_OVERLAPS: Final[dict[Any, str]] = {
    pb.MONITOR_OVERLAP_UNSPECIFIED: "skip",
    pb.MONITOR_OVERLAP_SKIP: "skip",
    pb.MONITOR_OVERLAP_QUEUE: "queue",
    pb.MONITOR_OVERLAP_CANCEL_PREVIOUS: "cancel_previous",
}
_TICK_STATES: Final = {
    "queued": "QUEUED",
    "running": "RUNNING",
    "skipped": "SKIPPED",
    "failed": "FAILED",
}


class _AskedTimes(Times):
    """Times that somebody asks for by the API: the server's owner alone has a monitor tick more
    often.
    """

    every: Duration | None = None

    @field_validator("every")
    @classmethod
    def _is_seldom(cls, every: int | None) -> int | None:
        if every is not None and every < _LEAST_S * _SECOND:
            raise ValueError(f"{every / _SECOND:g} s is too often: at least {_LEAST_S} s")
        return every

    @field_validator("cron")
    @classmethod
    def _has_seldom_times(cls, cron: str | None) -> str | None:
        if cron is not None and interval_s(cron) < _LEAST_S:
            raise ValueError(
                f"cron {cron!r} is too often: its seconds must be at least {_LEAST_S} apart"
            )
        return cron


class _AskedSpec(MonitorSpec):
    schedule: _AskedTimes = _AskedTimes()


def spec_of(monitor: pb.Monitor) -> MonitorSpec:
    """What a monitor is asked to do. Raises FieldError with the path of what is wrong."""
    given: dict[str, Any] = {"name": monitor.display_name}
    if monitor.HasField("watch"):
        given["watch"] = _watch(monitor.watch)
    if monitor.HasField("schedule"):
        given["schedule"] = _schedule(monitor.schedule)
    if monitor.HasField("run"):
        given["run"] = _run(monitor.run)
    try:
        return read_spec(MonitorSpec, read_spec(_AskedSpec, given).model_dump_json())
    except FieldError as error:
        raise error.within("monitor", _NAMES) from None


def merged(known: Known, given: pb.Monitor, mask: FieldMask) -> pb.Monitor:
    """A monitor as it is to be: with the fields of `given` that `mask` names; without a mask those
    that are set.
    """
    paths = list(mask.paths) or _set_paths(given)
    paths = list(_GIVEN) if "*" in paths else paths
    for path in paths:
        if not FieldMask(paths=[path]).IsValidForDescriptor(pb.Monitor.DESCRIPTOR):
            raise FieldError("update_mask", f"Monitor has no field {shown(path)}")
        if path.partition(".")[0] not in _GIVEN:
            raise FieldError(
                "update_mask", f"{shown(path)} cannot be changed; these can: {', '.join(_GIVEN)}"
            )
    message = encode_given(known.spec)
    FieldMask(paths=paths).MergeMessage(
        given, message, replace_message_field=True, replace_repeated_field=True
    )
    return message


def etag_of(known: Known) -> str:
    """What changes with each change of a monitor; "" for one of the configuration file."""
    return (
        "" if known.stored.is_configured else f"{known.stored.created_ns:x}-{known.stored.revision}"
    )


def encode_given(spec: MonitorSpec) -> pb.Monitor:
    """What a monitor's user gave, as a message."""
    message = pb.Monitor(display_name=spec.name, schedule=_encode_times(spec.schedule))
    if spec.watch is not None:
        message.watch.CopyFrom(_encode_watch(spec.watch))
    if spec.run is not None:
        message.run.CopyFrom(_encode_monitor_run(spec.run))
    return message


def encode_monitor(found: Shown) -> pb.Monitor:
    """A monitor as a message."""
    known, stored = found.known, found.known.stored
    message = encode_given(known.spec)
    message.name = name_of("monitors", known.id)
    message.etag = etag_of(known)
    message.state = pb.MONITOR_STATE_PAUSED if known.is_paused else pb.MONITOR_STATE_ACTIVE
    message.configured = stored.is_configured
    if not stored.is_configured:
        message.created_ns, message.updated_ns = stored.created_ns, stored.updated_ns
    if found.next_ns is not None:
        message.next_tick_ns = found.next_ns
    if found.last_tick is not None:
        message.last_tick.CopyFrom(encode_tick(found.last_tick))
    if found.findings is not None and known.spec.watch is not None:
        message.findings.CopyFrom(_encode_findings(known.spec.watch, found.findings))
    return message


def encode_tick(found: ShownTick) -> pb.MonitorTick:
    """A tick as a message."""
    tick = found.tick
    state = _TICK_STATES.get(tick.outcome, "CANCELLED" if tick.outcome == "cancelled" else "DONE")
    is_looked_at = state == "DONE" and tick.outcome != "done"
    message = pb.MonitorTick(
        due_ns=tick.due_ns,
        made_ns=tick.looked_ns,
        ended_ns=tick.ended_ns,
        cause=pb.MonitorTickCause.Value(f"MONITOR_TICK_CAUSE_{tick.cause.upper()}"),
        state=pb.MonitorTickState.Value(f"MONITOR_TICK_STATE_{state}"),
        reason=tick.reason or "",
        finding=tick.outcome if is_looked_at else "",
        scores=tick.scores,
        sessions=tick.sessions,
        run=name_of("runs", tick.run) if tick.run else "",
    )
    if found.run is not None:
        run = encode_run(found.run, None)
        message.run_state = run.state
        message.run_progress.CopyFrom(run.progress)
    return message


def _watch(watch: pb.MonitorWatch) -> dict[str, Any]:
    given: dict[str, Any] = {
        "metric": watch.metric,
        "scope": _named(watch.scope, _SCOPES, "monitor.watch.scope"),
    }
    given |= {
        name: getattr(watch, name)
        for name in ("service", "agent", "floor", "alpha", "heaviest")
        if watch.HasField(name)
    }
    if watch.of:
        given["of"] = watch.of
    if watch.HasField("reference"):
        sessions = {"sessions": watch.reference.sessions} if watch.reference.sessions else {}
        given["reference"] = {**sessions, "tolerance": watch.reference.tolerance}
    if watch.HasField("settle_after_s"):
        given["settle_after"] = _duration(watch.settle_after_s, "monitor.watch.settle_after_s")
    return {**given, "labels": dict(watch.labels)}


def _schedule(schedule: pb.MonitorSchedule) -> dict[str, Any]:
    given: dict[str, Any] = {"jitter": _duration(schedule.jitter_s, "monitor.schedule.jitter_s")}
    given |= {
        name: getattr(schedule, name) for name in ("cron", "catch_up") if schedule.HasField(name)
    }
    if schedule.time_zone:
        given["time_zone"] = schedule.time_zone
    if schedule.HasField("every_s"):
        given["every"] = _duration(schedule.every_s, "monitor.schedule.every_s")
    return given


def _run(run: pb.MonitorRun) -> dict[str, Any]:
    asked = run_pb.Run(target=run.target, measure=run.measure, export=run.export)
    if run.HasField("budget"):
        asked.budget.CopyFrom(run.budget)
    try:
        spec = run_spec_of(asked)
    except FieldError as error:
        raise error.within("monitor") from None
    given: dict[str, Any] = {"target": spec.target, "measure": spec.measure, "budget": spec.budget}
    given |= {
        "export": spec.export,
        "everything": run.everything,
        "only_if_changed": run.only_if_changed,
    }
    if run.HasField("look_back_s"):
        given["look_back"] = _duration(run.look_back_s, "monitor.run.look_back_s", 1, 4000)
    return {**given, "overlap": _named(run.overlap, _OVERLAPS, "monitor.run.overlap")}


def _duration(seconds: float, field: str, least_s: int = 0, most_days: int = 400) -> str:
    """Seconds as a configuration writes them. Raises FieldError."""
    most_s = most_days * _DAY_S
    if not least_s <= seconds <= most_s:
        raise FieldError(
            field, f"{seconds:g} is no number of seconds from {least_s} to {most_s} ({most_days} d)"
        )
    return f"{round(seconds * _SECOND)}ns"


def _named(value: Any, names: dict[Any, str], field: str) -> str:
    if value not in names:
        raise FieldError(field, f"{value} is none of its values")
    return names[value]


def _encode_watch(watch: Watch) -> pb.MonitorWatch:
    message = pb.MonitorWatch(
        metric=watch.metric,
        scope=SCOPE_SESSION if watch.scope == "session" else SCOPE_TRACE,
        of=watch.of,
        service=watch.service,
        agent=watch.agent,
        floor=watch.floor,
        alpha=watch.alpha,
        heaviest=watch.heaviest,
        settle_after_s=watch.settle_after / _SECOND,
        labels=watch.labels,
    )
    if (reference := watch.reference) is not None:
        message.reference.CopyFrom(pb.MonitorReference(**reference.model_dump()))
    return message


def _encode_times(times: Times) -> pb.MonitorSchedule:
    return pb.MonitorSchedule(
        every_s=None if times.every is None else times.every / _SECOND,
        cron=times.cron,
        time_zone=times.time_zone,
        jitter_s=times.jitter / _SECOND,
        catch_up=times.catch_up,
    )


def _encode_monitor_run(run: MonitorRun) -> pb.MonitorRun:
    asked = encode_spec(run.run_spec(""))
    overlap = next(x for x, name in _OVERLAPS.items() if name == run.overlap and x)
    message = pb.MonitorRun(
        target=asked.target,
        measure=asked.measure,
        export=run.export,
        look_back_s=None if run.look_back is None else run.look_back / _SECOND,
        everything=run.everything,
        overlap=overlap,
        only_if_changed=run.only_if_changed,
    )
    if asked.HasField("budget"):
        message.budget.CopyFrom(asked.budget)
    return message


def _encode_findings(watched: Watch, found: dict[str, Any]) -> pb.MonitorFindings:
    state = State.from_json(found["state"])
    watches, fires = state.phase == "watching", state.phase == "firing"
    return pb.MonitorFindings(
        phase=state.phase,
        floor=state.floor if watches or fires else watched.floor,
        sessions=state.counted,
        alerts=state.alarms,
        evidence=state.evidence.value if watches else None,
        evidence_for_alert=1 / alpha_of(watched, state.alarms) if watches else None,
        firing_since_ns=found["began_ns"] if fires else None,
        low_mean=state.low_mean if fires else None,
        low_sessions=state.low_units if fires else None,
    )


def _set_paths(message: Message, before: str = "") -> list[str]:
    """The paths of all fields that are set, but of those that the server sets at the outermost
    level.
    """
    found = []
    for field, value in message.ListFields():
        path = f"{before}{field.name}"
        if not before and field.name not in _GIVEN:
            continue
        is_message = field.message_type is not None and not is_repeated(field)
        inner = _set_paths(value, f"{path}.") if is_message else []
        found += inner or [path]
    return found
