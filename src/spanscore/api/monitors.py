"""MonitorService, and monitors as messages and specs."""

import re
from typing import Any, Final

from google.protobuf.empty_pb2 import Empty
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from pydantic import Field, field_validator

from spanscore.api import requests
from spanscore.api.backend import Backend
from spanscore.api.messages import encode, read
from spanscore.api.requests import id_in, name_of, request_id_in, shown
from spanscore.api.runs import encode_run
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import monitor_service_pb2 as pb
from spanscore.control.monitors import Monitors, Shown, ShownTick
from spanscore.control.ticks import Known
from spanscore.errors import ConflictError, FieldError, NotFoundError
from spanscore.model.options import Duration, read_spec
from spanscore.monitoring import LONGEST_NS, State, Times, Watch, alpha_of, interval_s
from spanscore.otlp.codec import is_repeated
from spanscore.specs import MonitorSpec

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


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
        (after,) = requests.place(request, call, 1) or ("",)
        found = [x for x in await self._monitors.all_of(call.tenant) if x.id > after]
        described = await self._monitors.shown(found[:limit])
        return pb.ListMonitorsResponse(
            monitors=map(encode_monitor, described),
            next_page_token=requests.following(request, call, found, limit, lambda x: (x.id,)),
        )

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
        (before_ns,) = requests.place(request, call, 1) or (None,)
        known = await self._known(request.parent, call, "parent")
        found = await self._monitors.ticks(known, limit + 1, before_ns)
        return pb.ListMonitorTicksResponse(
            ticks=map(encode_tick, found[:limit]),
            next_page_token=requests.following(
                request, call, found, limit, lambda x: (x.tick.due_ns,)
            ),
        )

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


_LEAST_S: Final = 10
_GIVEN: Final = tuple(MonitorSpec.model_fields)
"""The fields of a monitor that its user gives."""

_TICK_STATES: Final = {"queued", "running", "skipped", "failed", "cancelled"}


class AskedTimes(Times):
    """Times that somebody asks for by the API: the server's owner alone has a monitor tick more
    often.
    """

    every: Duration | None = Field(default=None, ge=_LEAST_S * 10**9, le=LONGEST_NS)
    """How often to look, at multiples of it since the Unix epoch. Where `cron` is not set either,
    each minute.
    """

    @field_validator("cron")
    @classmethod
    def _has_seldom_times(cls, cron: str | None) -> str | None:
        if cron is not None and interval_s(cron) < _LEAST_S:
            raise ValueError(
                f"cron {cron!r} is too often: its seconds must be at least {_LEAST_S} apart"
            )
        return cron


class _AskedSpec(MonitorSpec):
    schedule: AskedTimes = AskedTimes()


def spec_of(monitor: pb.Monitor) -> MonitorSpec:
    """What a monitor is asked to do. Raises FieldError with the path of what is wrong."""
    return read_spec(MonitorSpec, read(_AskedSpec, monitor, "monitor").model_dump_json())


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
    message = encode(pb.Monitor, known.spec)
    paths += [_TAKES_PLACE_OF[x] for x in paths if x in _TAKES_PLACE_OF]
    FieldMask(paths=paths).MergeMessage(
        given, message, replace_message_field=True, replace_repeated_field=True
    )
    return message


_TAKES_PLACE_OF: Final = {
    "watch.floor": "watch.reference",
    "watch.reference.sessions": "watch.floor",
    "schedule.every_s": "schedule.cron",
    "schedule.cron": "schedule.every_s",
    "run.look_back_s": "run.everything",
    "run.everything": "run.look_back_s",
}
"""Where an update sets a field, it clears the one that a monitor cannot have beside it."""


def etag_of(known: Known) -> str:
    """What changes with each change of a monitor; "" for one of the configuration file."""
    return (
        "" if known.stored.is_configured else f"{known.stored.created_ns:x}-{known.stored.revision}"
    )


def encode_monitor(found: Shown) -> pb.Monitor:
    """A monitor as a message."""
    known, stored, watched = found.known, found.known.stored, found.known.spec.watch
    return encode(
        pb.Monitor,
        known.spec,
        name=name_of("monitors", known.id),
        etag=etag_of(known),
        state="paused" if known.is_paused else "active",
        configured=stored.is_configured,
        created_ns=None if stored.is_configured else stored.created_ns,
        updated_ns=None if stored.is_configured else stored.updated_ns,
        next_tick_ns=found.next_ns,
        last_tick=None if found.last_tick is None else encode_tick(found.last_tick),
        findings=None
        if watched is None or found.findings is None
        else _encode_findings(watched, found.findings),
    )


def encode_tick(found: ShownTick) -> pb.MonitorTick:
    """A tick as a message."""
    tick = found.tick
    state = tick.outcome if tick.outcome in _TICK_STATES else "done"
    is_looked_at = state == "done" and tick.outcome != "done"
    message = encode(
        pb.MonitorTick,
        tick,
        made_ns=tick.looked_ns,
        state=state,
        finding=tick.outcome if is_looked_at else "",
        run=name_of("runs", tick.run) if tick.run else "",
    )
    if found.run is not None:
        run = encode_run(found.run, None)
        message.run_state = run.state
        message.run_progress.CopyFrom(run.progress)
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
