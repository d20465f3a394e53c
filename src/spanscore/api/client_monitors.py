"""MonitorService as both clients have it: its stub, and the same methods with keywords."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import TYPE_CHECKING, Unpack

from spanscore.api.client_keywords import named
from spanscore.api.client_pages import pages, pages_async
from spanscore.api.monitor_requests import MonitorOptions, create_request, update_request
from spanscore.api.v1 import monitor_service_pb2 as pb
from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceStub

if TYPE_CHECKING:
    from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceAsyncStub
else:
    MonitorServiceAsyncStub = MonitorServiceStub  # at run time one stub serves both


class Monitors(MonitorServiceStub):
    """Monitors of the configuration and of the store.

    A monitor is named by its id, or by `monitors/ID`.
    """

    def create(
        self, *, monitor_id: str = "", request_id: str = "", **wanted: Unpack[MonitorOptions]
    ) -> pb.Monitor:
        """Create a monitor: `create(metric="task_completion", floor=0.8, every_s=300)`.

        With the `request_id` of an earlier call that monitor is returned.
        """
        found: pb.Monitor = self.CreateMonitor(create_request(wanted, monitor_id, request_id))
        return found

    def get(self, monitor: str) -> pb.Monitor:
        """A monitor with what it knows now."""
        found: pb.Monitor = self.GetMonitor(pb.GetMonitorRequest(name=named("monitors", monitor)))
        return found

    def list(self) -> Iterator[pb.Monitor]:
        """The monitors, by their names."""
        return pages(self.ListMonitors, pb.ListMonitorsRequest())

    def update(
        self, monitor: str, *, etag: str = "", **wanted: Unpack[MonitorOptions]
    ) -> pb.Monitor:
        """Change what is given of a monitor; with an `etag` only where nobody has changed it since
        (ConflictError).
        """
        found: pb.Monitor = self.UpdateMonitor(update_request(monitor, wanted, etag))
        return found

    def delete(self, monitor: str, *, etag: str = "") -> None:
        """Delete a monitor with its history; its runs and their scores stay."""
        self.DeleteMonitor(pb.DeleteMonitorRequest(name=named("monitors", monitor), etag=etag))

    def pause(self, monitor: str) -> pb.Monitor:
        """Have a monitor wait until it is resumed."""
        found: pb.Monitor = self.PauseMonitor(
            pb.PauseMonitorRequest(name=named("monitors", monitor))
        )
        return found

    def resume(self, monitor: str) -> pb.Monitor:
        """Have a paused monitor go on."""
        found: pb.Monitor = self.ResumeMonitor(
            pb.ResumeMonitorRequest(name=named("monitors", monitor))
        )
        return found

    def trigger(self, monitor: str, *, request_id: str = "") -> pb.MonitorTick:
        """Make a tick now. With the `request_id` of an earlier call that tick is returned."""
        found: pb.MonitorTick = self.TriggerMonitor(
            pb.TriggerMonitorRequest(name=named("monitors", monitor), request_id=request_id)
        )
        return found

    def ticks(self, monitor: str) -> Iterator[pb.MonitorTick]:
        """The ticks of a monitor, the newest first."""
        return pages(
            self.ListMonitorTicks, pb.ListMonitorTicksRequest(parent=named("monitors", monitor))
        )


class AsyncMonitors(MonitorServiceAsyncStub):
    """`Monitors` for asyncio: the same methods, to be awaited."""

    def create(
        self, *, monitor_id: str = "", request_id: str = "", **wanted: Unpack[MonitorOptions]
    ) -> Awaitable[pb.Monitor]:
        """As `Monitors.create`."""
        call: Awaitable[pb.Monitor] = self.CreateMonitor(
            create_request(wanted, monitor_id, request_id)
        )
        return call

    def get(self, monitor: str) -> Awaitable[pb.Monitor]:
        """As `Monitors.get`."""
        call: Awaitable[pb.Monitor] = self.GetMonitor(
            pb.GetMonitorRequest(name=named("monitors", monitor))
        )
        return call

    def list(self) -> AsyncIterator[pb.Monitor]:
        """As `Monitors.list`."""
        return pages_async(self.ListMonitors, pb.ListMonitorsRequest())

    def update(
        self, monitor: str, *, etag: str = "", **wanted: Unpack[MonitorOptions]
    ) -> Awaitable[pb.Monitor]:
        """As `Monitors.update`."""
        call: Awaitable[pb.Monitor] = self.UpdateMonitor(update_request(monitor, wanted, etag))
        return call

    async def delete(self, monitor: str, *, etag: str = "") -> None:
        """As `Monitors.delete`."""
        await self.DeleteMonitor(
            pb.DeleteMonitorRequest(name=named("monitors", monitor), etag=etag)
        )

    def pause(self, monitor: str) -> Awaitable[pb.Monitor]:
        """As `Monitors.pause`."""
        call: Awaitable[pb.Monitor] = self.PauseMonitor(
            pb.PauseMonitorRequest(name=named("monitors", monitor))
        )
        return call

    def resume(self, monitor: str) -> Awaitable[pb.Monitor]:
        """As `Monitors.resume`."""
        call: Awaitable[pb.Monitor] = self.ResumeMonitor(
            pb.ResumeMonitorRequest(name=named("monitors", monitor))
        )
        return call

    def trigger(self, monitor: str, *, request_id: str = "") -> Awaitable[pb.MonitorTick]:
        """As `Monitors.trigger`."""
        request = pb.TriggerMonitorRequest(name=named("monitors", monitor), request_id=request_id)
        call: Awaitable[pb.MonitorTick] = self.TriggerMonitor(request)
        return call

    def ticks(self, monitor: str) -> AsyncIterator[pb.MonitorTick]:
        """As `Monitors.ticks`."""
        return pages_async(
            self.ListMonitorTicks, pb.ListMonitorTicksRequest(parent=named("monitors", monitor))
        )
