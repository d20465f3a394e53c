"""RunService as both clients have it: its stub, and the same methods with keywords."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import TYPE_CHECKING, Unpack

from spanscore.api.client_pages import pages, pages_async
from spanscore.api.run_requests import (
    ItemStateName,
    RunOptions,
    RunStateName,
    items_request,
    list_request,
    retry_request,
    run_name,
    run_of,
)
from spanscore.api.v1 import run_service_pb2 as pb
from spanscore.api.v1.run_service_pb2_grpc import RunServiceStub

if TYPE_CHECKING:
    from spanscore.api.v1.run_service_pb2_grpc import RunServiceAsyncStub
else:
    RunServiceAsyncStub = RunServiceStub  # at run time one stub serves both


class Runs(RunServiceStub):
    """Evaluation runs. A run is named by its id, or by `runs/ID`."""

    def create(self, *, request_id: str = "", **wanted: Unpack[RunOptions]) -> pb.Run:
        """Create a run: `create(filter="label.faithfulness = fail", metrics=["faithfulness"],
        max_usd=5)`.

        With the `request_id` of an earlier call that run is returned.
        """
        found: pb.Run = self.CreateRun(
            pb.CreateRunRequest(run=run_of(wanted), request_id=request_id)
        )
        return found

    def estimate(self, **wanted: Unpack[RunOptions]) -> pb.RunEstimate:
        """What a run would ask a judge, and what that costs at most."""
        found: pb.RunEstimate = self.EstimateRun(pb.EstimateRunRequest(run=run_of(wanted)))
        return found

    def get(self, run: str) -> pb.Run:
        """A run as it is now."""
        found: pb.Run = self.GetRun(pb.GetRunRequest(name=run_name(run)))
        return found

    def list(self, *states: RunStateName, order_by: str = "") -> Iterator[pb.Run]:
        """The runs in these states, without any all, the newest first unless `order_by` asks for
        another order.
        """
        return pages(self.ListRuns, list_request(states, order_by))

    def watch(self, run: str) -> Iterator[pb.Run]:
        """A run whenever it has changed, until it has ended or is paused; also over a restart of
        the server.
        """
        yield from self.WatchRun(pb.WatchRunRequest(name=run_name(run)))

    def items(self, run: str, state: ItemStateName = "failed") -> Iterator[pb.RunItem]:
        """The traces or sessions of a run that are in a state."""
        return pages(self.ListRunItems, items_request(run, state))

    def pause(self, run: str) -> pb.Run:
        """Stop a run for now."""
        found: pb.Run = self.PauseRun(pb.PauseRunRequest(name=run_name(run)))
        return found

    def resume(self, run: str) -> pb.Run:
        """Have a paused run go on."""
        found: pb.Run = self.ResumeRun(pb.ResumeRunRequest(name=run_name(run)))
        return found

    def cancel(self, run: str) -> pb.Run:
        """End a run for good."""
        found: pb.Run = self.CancelRun(pb.CancelRunRequest(name=run_name(run)))
        return found

    def retry(
        self, run: str, *, max_usd: float | None = None, max_tokens: int | None = None
    ) -> pb.Run:
        """Evaluate again what failed of a run, with another budget where one is given."""
        found: pb.Run = self.RetryRun(retry_request(run, max_usd, max_tokens))
        return found

    def delete(self, run: str, *, with_scores: bool = False) -> None:
        """Delete a run, and the scores that it made where they are to go too."""
        self.DeleteRun(pb.DeleteRunRequest(name=run_name(run), delete_scores=with_scores))


class AsyncRuns(RunServiceAsyncStub):
    """`Runs` for asyncio: the same methods, to be awaited."""

    def create(self, *, request_id: str = "", **wanted: Unpack[RunOptions]) -> Awaitable[pb.Run]:
        """As `Runs.create`."""
        call: Awaitable[pb.Run] = self.CreateRun(
            pb.CreateRunRequest(run=run_of(wanted), request_id=request_id)
        )
        return call

    def estimate(self, **wanted: Unpack[RunOptions]) -> Awaitable[pb.RunEstimate]:
        """As `Runs.estimate`."""
        call: Awaitable[pb.RunEstimate] = self.EstimateRun(
            pb.EstimateRunRequest(run=run_of(wanted))
        )
        return call

    def get(self, run: str) -> Awaitable[pb.Run]:
        """As `Runs.get`."""
        call: Awaitable[pb.Run] = self.GetRun(pb.GetRunRequest(name=run_name(run)))
        return call

    def list(self, *states: RunStateName, order_by: str = "") -> AsyncIterator[pb.Run]:
        """As `Runs.list`."""
        return pages_async(self.ListRuns, list_request(states, order_by))

    async def watch(self, run: str) -> AsyncIterator[pb.Run]:
        """As `Runs.watch`."""
        async for state in self.WatchRun(pb.WatchRunRequest(name=run_name(run))):
            yield state

    def items(self, run: str, state: ItemStateName = "failed") -> AsyncIterator[pb.RunItem]:
        """As `Runs.items`."""
        return pages_async(self.ListRunItems, items_request(run, state))

    def pause(self, run: str) -> Awaitable[pb.Run]:
        """As `Runs.pause`."""
        call: Awaitable[pb.Run] = self.PauseRun(pb.PauseRunRequest(name=run_name(run)))
        return call

    def resume(self, run: str) -> Awaitable[pb.Run]:
        """As `Runs.resume`."""
        call: Awaitable[pb.Run] = self.ResumeRun(pb.ResumeRunRequest(name=run_name(run)))
        return call

    def cancel(self, run: str) -> Awaitable[pb.Run]:
        """As `Runs.cancel`."""
        call: Awaitable[pb.Run] = self.CancelRun(pb.CancelRunRequest(name=run_name(run)))
        return call

    def retry(
        self, run: str, *, max_usd: float | None = None, max_tokens: int | None = None
    ) -> Awaitable[pb.Run]:
        """As `Runs.retry`."""
        call: Awaitable[pb.Run] = self.RetryRun(retry_request(run, max_usd, max_tokens))
        return call

    async def delete(self, run: str, *, with_scores: bool = False) -> None:
        """As `Runs.delete`."""
        await self.DeleteRun(pb.DeleteRunRequest(name=run_name(run), delete_scores=with_scores))
