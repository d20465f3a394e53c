"""MonitorService: monitors of the configuration and of the store."""

import re

from google.protobuf.empty_pb2 import Empty

from spanscore.api import paging
from spanscore.api.backend import Backend
from spanscore.api.encode_monitors import encode_monitor, encode_tick, etag_of, merged, spec_of
from spanscore.api.requests import id_in, request_id_in, shown
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import monitor_service_pb2 as pb
from spanscore.control.monitors import Monitors
from spanscore.control.ticking import Known
from spanscore.errors import ConflictError, FieldError, NotFoundError

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
        limit = paging.limit(request.page_size)
        after = paging.place(request, call, _ID_CHARS // _CHARS_A_NUMBER)
        monitors = await self._monitors.all_of(call.tenant)
        found = [x for x in monitors if after is None or _place(x.id) > after]
        described = await self._monitors.shown(found[:limit])
        response = pb.ListMonitorsResponse(monitors=map(encode_monitor, described))
        if len(found) > limit:
            response.next_page_token = paging.token(request, call, _place(found[limit - 1].id))
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
        limit = paging.limit(request.page_size)
        place = paging.place(request, call, 1)
        known = await self._known(request.parent, call, "parent")
        found = await self._monitors.ticks(known, limit + 1, None if place is None else place[0])
        response = pb.ListMonitorTicksResponse(ticks=map(encode_tick, found[:limit]))
        if len(found) > limit:
            response.next_page_token = paging.token(request, call, (found[limit - 1].tick.due_ns,))
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
