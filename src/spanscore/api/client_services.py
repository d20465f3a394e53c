"""The clients' methods, with keywords and pages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from google.protobuf.descriptor import FieldDescriptor

from spanscore.api.client_requests import (
    Distribution,
    ItemStateName,
    MonitorOptions,
    NewScore,
    RunOptions,
    RunStateName,
    ScoreConditions,
    ScoreContent,
    Selection,
    SessionConditions,
    SessionEvaluation,
    Summary,
    TraceConditions,
    TraceEvaluation,
    Trend,
    batches,
    compare_request,
    create_monitor_request,
    create_score_request,
    delete_score_request,
    distribution_request,
    evaluate_session_request,
    evaluate_trace_request,
    history_request,
    list_run_items_request,
    list_runs_request,
    list_scores_request,
    named,
    rank_request,
    retry_run_request,
    run_name,
    run_of,
    sessions_request,
    summary_request,
    traces_request,
    trend_request,
    update_monitor_request,
    update_score_request,
)
from spanscore.api.v1 import analytics_service_pb2 as analytics_pb
from spanscore.api.v1 import monitor_service_pb2 as monitor_pb
from spanscore.api.v1 import run_service_pb2 as run_pb
from spanscore.api.v1 import score_service_pb2 as score_pb
from spanscore.api.v1 import trace_service_pb2 as trace_pb
from spanscore.api.v1.agent_trace_pb2 import AgentTrace
from spanscore.api.v1.analytics_service_pb2_grpc import AnalyticsServiceStub
from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceStub
from spanscore.api.v1.run_service_pb2_grpc import RunServiceStub
from spanscore.api.v1.score_pb2 import Score
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub
from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceStub

if TYPE_CHECKING:
    from spanscore.api.v1.analytics_service_pb2_grpc import AnalyticsServiceAsyncStub
    from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceAsyncStub
    from spanscore.api.v1.run_service_pb2_grpc import RunServiceAsyncStub
    from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceAsyncStub
    from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceAsyncStub
else:  # at run time one stub serves both
    AnalyticsServiceAsyncStub = AnalyticsServiceStub
    MonitorServiceAsyncStub = MonitorServiceStub
    RunServiceAsyncStub = RunServiceStub
    ScoreServiceAsyncStub = ScoreServiceStub
    TraceServiceAsyncStub = TraceServiceStub

RequestT = TypeVar("RequestT")


def pages(method: Callable[[RequestT], Any], request: RequestT) -> Iterator[Any]:
    """All items that a list method gives."""
    page_request = copied(request)
    while True:
        answer = method(page_request)
        yield from getattr(answer, _items_of(answer))
        if not answer.next_page_token:
            return
        page_request.page_token = answer.next_page_token


async def pages_async(method: Callable[[RequestT], Any], request: RequestT) -> AsyncIterator[Any]:
    """The same where the method is awaited."""
    page_request = copied(request)
    while True:
        answer = await method(page_request)
        for item in getattr(answer, _items_of(answer)):
            yield item
        if not answer.next_page_token:
            return
        page_request.page_token = answer.next_page_token


def copied(request: Any) -> Any:
    """A request that may be changed without changing the caller's."""
    made = type(request)()
    made.CopyFrom(request)
    return made


def _items_of(answer: Any) -> str:
    """The name of the one field of messages that the answer of a list has."""
    return str(
        next(x.name for x in answer.DESCRIPTOR.fields if x.type == FieldDescriptor.TYPE_MESSAGE)
    )


class Analytics(AnalyticsServiceStub):
    """Figures over the stored scores, each with n and an interval."""

    def summarize(self, **wanted: Unpack[Summary]) -> Sequence[analytics_pb.ScoreSummary]:
        """What the scores of each metric come to: `summarize(filter='service = "shop"',
        group_by=["model"])`.
        """
        return tuple(self.SummarizeScores(summary_request(wanted)).summaries)

    def trend(self, **wanted: Unpack[Trend]) -> Sequence[analytics_pb.ScoreTrend]:
        """The same for each hour, day or longer time."""
        return tuple(self.QueryScoreTrend(trend_request(wanted)).trends)

    def distribution(
        self, **wanted: Unpack[Distribution]
    ) -> Sequence[analytics_pb.ScoreDistribution]:
        """How the values and labels of each metric are spread."""
        return tuple(self.QueryScoreDistribution(distribution_request(wanted)).distributions)

    def compare(
        self,
        before: Selection,
        after: Selection,
        *,
        group_by: Sequence[str] = (),
        level: float | None = None,
    ) -> Sequence[analytics_pb.ScoreComparison]:
        """How two selections differ: `compare({"filter": "version = 1"}, {"filter": "version =
        2"})`.
        """
        return tuple(
            self.CompareScores(compare_request(before, after, group_by, level)).comparisons
        )

    def worst_sessions(self, **wanted: Unpack[Selection]) -> Iterator[analytics_pb.RankedSession]:
        """Sessions, and traces that belong to none, those with the greatest share of failing scores
        first.
        """
        return pages(self.RankSessions, rank_request(wanted))

    def history(
        self, metric: str, *, trace_id: str | None = None, session_id: str | None = None
    ) -> Sequence[Score]:
        """All that was ever said of one trace or session by one metric."""
        return tuple(self.ListScoreHistory(history_request(metric, trace_id, session_id)).scores)


class AsyncAnalytics(AnalyticsServiceAsyncStub):
    """`Analytics` for asyncio: the same methods, to be awaited."""

    async def summarize(self, **wanted: Unpack[Summary]) -> Sequence[analytics_pb.ScoreSummary]:
        """As `Analytics.summarize`."""
        return tuple((await self.SummarizeScores(summary_request(wanted))).summaries)

    async def trend(self, **wanted: Unpack[Trend]) -> Sequence[analytics_pb.ScoreTrend]:
        """As `Analytics.trend`."""
        return tuple((await self.QueryScoreTrend(trend_request(wanted))).trends)

    async def distribution(
        self, **wanted: Unpack[Distribution]
    ) -> Sequence[analytics_pb.ScoreDistribution]:
        """As `Analytics.distribution`."""
        return tuple(
            (await self.QueryScoreDistribution(distribution_request(wanted))).distributions
        )

    async def compare(
        self,
        before: Selection,
        after: Selection,
        *,
        group_by: Sequence[str] = (),
        level: float | None = None,
    ) -> Sequence[analytics_pb.ScoreComparison]:
        """As `Analytics.compare`."""
        return tuple(
            (await self.CompareScores(compare_request(before, after, group_by, level))).comparisons
        )

    def worst_sessions(
        self, **wanted: Unpack[Selection]
    ) -> AsyncIterator[analytics_pb.RankedSession]:
        """As `Analytics.worst_sessions`."""
        return pages_async(self.RankSessions, rank_request(wanted))

    async def history(
        self, metric: str, *, trace_id: str | None = None, session_id: str | None = None
    ) -> Sequence[Score]:
        """As `Analytics.history`."""
        return tuple(
            (await self.ListScoreHistory(history_request(metric, trace_id, session_id))).scores
        )


class Monitors(MonitorServiceStub):
    """Monitors of the configuration and of the store.

    A monitor is named by its id, or by `monitors/ID`.
    """

    def create(
        self, *, monitor_id: str = "", request_id: str = "", **wanted: Unpack[MonitorOptions]
    ) -> monitor_pb.Monitor:
        """Create a monitor: `create(metric="task_completion", floor=0.8, every_s=300)`.

        With the `request_id` of an earlier call that monitor is returned.
        """
        found: monitor_pb.Monitor = self.CreateMonitor(
            create_monitor_request(wanted, monitor_id, request_id)
        )
        return found

    def get(self, monitor: str) -> monitor_pb.Monitor:
        """A monitor with what it knows now."""
        found: monitor_pb.Monitor = self.GetMonitor(
            monitor_pb.GetMonitorRequest(name=named("monitors", monitor))
        )
        return found

    def list(self) -> Iterator[monitor_pb.Monitor]:
        """The monitors, by their names."""
        return pages(self.ListMonitors, monitor_pb.ListMonitorsRequest())

    def update(
        self, monitor: str, *, etag: str = "", **wanted: Unpack[MonitorOptions]
    ) -> monitor_pb.Monitor:
        """Change what is given of a monitor; with an `etag` only where nobody has changed it since
        (ConflictError).
        """
        found: monitor_pb.Monitor = self.UpdateMonitor(
            update_monitor_request(monitor, wanted, etag)
        )
        return found

    def delete(self, monitor: str, *, etag: str = "") -> None:
        """Delete a monitor with its history; its runs and their scores stay."""
        self.DeleteMonitor(
            monitor_pb.DeleteMonitorRequest(name=named("monitors", monitor), etag=etag)
        )

    def pause(self, monitor: str) -> monitor_pb.Monitor:
        """Have a monitor wait until it is resumed."""
        found: monitor_pb.Monitor = self.PauseMonitor(
            monitor_pb.PauseMonitorRequest(name=named("monitors", monitor))
        )
        return found

    def resume(self, monitor: str) -> monitor_pb.Monitor:
        """Have a paused monitor go on."""
        found: monitor_pb.Monitor = self.ResumeMonitor(
            monitor_pb.ResumeMonitorRequest(name=named("monitors", monitor))
        )
        return found

    def trigger(self, monitor: str, *, request_id: str = "") -> monitor_pb.MonitorTick:
        """Make a tick now. With the `request_id` of an earlier call that tick is returned."""
        found: monitor_pb.MonitorTick = self.TriggerMonitor(
            monitor_pb.TriggerMonitorRequest(name=named("monitors", monitor), request_id=request_id)
        )
        return found

    def ticks(self, monitor: str) -> Iterator[monitor_pb.MonitorTick]:
        """The ticks of a monitor, the newest first."""
        return pages(
            self.ListMonitorTicks,
            monitor_pb.ListMonitorTicksRequest(parent=named("monitors", monitor)),
        )


class AsyncMonitors(MonitorServiceAsyncStub):
    """`Monitors` for asyncio: the same methods, to be awaited."""

    def create(
        self, *, monitor_id: str = "", request_id: str = "", **wanted: Unpack[MonitorOptions]
    ) -> Awaitable[monitor_pb.Monitor]:
        """As `Monitors.create`."""
        call: Awaitable[monitor_pb.Monitor] = self.CreateMonitor(
            create_monitor_request(wanted, monitor_id, request_id)
        )
        return call

    def get(self, monitor: str) -> Awaitable[monitor_pb.Monitor]:
        """As `Monitors.get`."""
        call: Awaitable[monitor_pb.Monitor] = self.GetMonitor(
            monitor_pb.GetMonitorRequest(name=named("monitors", monitor))
        )
        return call

    def list(self) -> AsyncIterator[monitor_pb.Monitor]:
        """As `Monitors.list`."""
        return pages_async(self.ListMonitors, monitor_pb.ListMonitorsRequest())

    def update(
        self, monitor: str, *, etag: str = "", **wanted: Unpack[MonitorOptions]
    ) -> Awaitable[monitor_pb.Monitor]:
        """As `Monitors.update`."""
        call: Awaitable[monitor_pb.Monitor] = self.UpdateMonitor(
            update_monitor_request(monitor, wanted, etag)
        )
        return call

    async def delete(self, monitor: str, *, etag: str = "") -> None:
        """As `Monitors.delete`."""
        await self.DeleteMonitor(
            monitor_pb.DeleteMonitorRequest(name=named("monitors", monitor), etag=etag)
        )

    def pause(self, monitor: str) -> Awaitable[monitor_pb.Monitor]:
        """As `Monitors.pause`."""
        call: Awaitable[monitor_pb.Monitor] = self.PauseMonitor(
            monitor_pb.PauseMonitorRequest(name=named("monitors", monitor))
        )
        return call

    def resume(self, monitor: str) -> Awaitable[monitor_pb.Monitor]:
        """As `Monitors.resume`."""
        call: Awaitable[monitor_pb.Monitor] = self.ResumeMonitor(
            monitor_pb.ResumeMonitorRequest(name=named("monitors", monitor))
        )
        return call

    def trigger(self, monitor: str, *, request_id: str = "") -> Awaitable[monitor_pb.MonitorTick]:
        """As `Monitors.trigger`."""
        request = monitor_pb.TriggerMonitorRequest(
            name=named("monitors", monitor), request_id=request_id
        )
        call: Awaitable[monitor_pb.MonitorTick] = self.TriggerMonitor(request)
        return call

    def ticks(self, monitor: str) -> AsyncIterator[monitor_pb.MonitorTick]:
        """As `Monitors.ticks`."""
        return pages_async(
            self.ListMonitorTicks,
            monitor_pb.ListMonitorTicksRequest(parent=named("monitors", monitor)),
        )


class Runs(RunServiceStub):
    """Evaluation runs. A run is named by its id, or by `runs/ID`."""

    def create(self, *, request_id: str = "", **wanted: Unpack[RunOptions]) -> run_pb.Run:
        """Create a run: `create(filter="label.faithfulness = fail", metrics=["faithfulness"],
        max_usd=5)`.

        With the `request_id` of an earlier call that run is returned.
        """
        found: run_pb.Run = self.CreateRun(
            run_pb.CreateRunRequest(run=run_of(wanted), request_id=request_id)
        )
        return found

    def estimate(self, **wanted: Unpack[RunOptions]) -> run_pb.RunEstimate:
        """What a run would ask a judge, and what that costs at most."""
        found: run_pb.RunEstimate = self.EstimateRun(run_pb.EstimateRunRequest(run=run_of(wanted)))
        return found

    def get(self, run: str) -> run_pb.Run:
        """A run as it is now."""
        found: run_pb.Run = self.GetRun(run_pb.GetRunRequest(name=run_name(run)))
        return found

    def list(self, *states: RunStateName, order_by: str = "") -> Iterator[run_pb.Run]:
        """The runs in these states, without any all, the newest first unless `order_by` asks for
        another order.
        """
        return pages(self.ListRuns, list_runs_request(states, order_by))

    def watch(self, run: str) -> Iterator[run_pb.Run]:
        """A run whenever it has changed, until it has ended or is paused; also over a restart of
        the server.
        """
        yield from self.WatchRun(run_pb.WatchRunRequest(name=run_name(run)))

    def items(self, run: str, state: ItemStateName = "failed") -> Iterator[run_pb.RunItem]:
        """The traces or sessions of a run that are in a state."""
        return pages(self.ListRunItems, list_run_items_request(run, state))

    def pause(self, run: str) -> run_pb.Run:
        """Stop a run for now."""
        found: run_pb.Run = self.PauseRun(run_pb.PauseRunRequest(name=run_name(run)))
        return found

    def resume(self, run: str) -> run_pb.Run:
        """Have a paused run go on."""
        found: run_pb.Run = self.ResumeRun(run_pb.ResumeRunRequest(name=run_name(run)))
        return found

    def cancel(self, run: str) -> run_pb.Run:
        """End a run for good."""
        found: run_pb.Run = self.CancelRun(run_pb.CancelRunRequest(name=run_name(run)))
        return found

    def retry(
        self, run: str, *, max_usd: float | None = None, max_tokens: int | None = None
    ) -> run_pb.Run:
        """Evaluate again what failed of a run, with another budget where one is given."""
        found: run_pb.Run = self.RetryRun(retry_run_request(run, max_usd, max_tokens))
        return found

    def delete(self, run: str, *, with_scores: bool = False) -> None:
        """Delete a run, and the scores that it made where they are to go too."""
        self.DeleteRun(run_pb.DeleteRunRequest(name=run_name(run), delete_scores=with_scores))


class AsyncRuns(RunServiceAsyncStub):
    """`Runs` for asyncio: the same methods, to be awaited."""

    def create(
        self, *, request_id: str = "", **wanted: Unpack[RunOptions]
    ) -> Awaitable[run_pb.Run]:
        """As `Runs.create`."""
        call: Awaitable[run_pb.Run] = self.CreateRun(
            run_pb.CreateRunRequest(run=run_of(wanted), request_id=request_id)
        )
        return call

    def estimate(self, **wanted: Unpack[RunOptions]) -> Awaitable[run_pb.RunEstimate]:
        """As `Runs.estimate`."""
        call: Awaitable[run_pb.RunEstimate] = self.EstimateRun(
            run_pb.EstimateRunRequest(run=run_of(wanted))
        )
        return call

    def get(self, run: str) -> Awaitable[run_pb.Run]:
        """As `Runs.get`."""
        call: Awaitable[run_pb.Run] = self.GetRun(run_pb.GetRunRequest(name=run_name(run)))
        return call

    def list(self, *states: RunStateName, order_by: str = "") -> AsyncIterator[run_pb.Run]:
        """As `Runs.list`."""
        return pages_async(self.ListRuns, list_runs_request(states, order_by))

    async def watch(self, run: str) -> AsyncIterator[run_pb.Run]:
        """As `Runs.watch`."""
        async for state in self.WatchRun(run_pb.WatchRunRequest(name=run_name(run))):
            yield state

    def items(self, run: str, state: ItemStateName = "failed") -> AsyncIterator[run_pb.RunItem]:
        """As `Runs.items`."""
        return pages_async(self.ListRunItems, list_run_items_request(run, state))

    def pause(self, run: str) -> Awaitable[run_pb.Run]:
        """As `Runs.pause`."""
        call: Awaitable[run_pb.Run] = self.PauseRun(run_pb.PauseRunRequest(name=run_name(run)))
        return call

    def resume(self, run: str) -> Awaitable[run_pb.Run]:
        """As `Runs.resume`."""
        call: Awaitable[run_pb.Run] = self.ResumeRun(run_pb.ResumeRunRequest(name=run_name(run)))
        return call

    def cancel(self, run: str) -> Awaitable[run_pb.Run]:
        """As `Runs.cancel`."""
        call: Awaitable[run_pb.Run] = self.CancelRun(run_pb.CancelRunRequest(name=run_name(run)))
        return call

    def retry(
        self, run: str, *, max_usd: float | None = None, max_tokens: int | None = None
    ) -> Awaitable[run_pb.Run]:
        """As `Runs.retry`."""
        call: Awaitable[run_pb.Run] = self.RetryRun(retry_run_request(run, max_usd, max_tokens))
        return call

    async def delete(self, run: str, *, with_scores: bool = False) -> None:
        """As `Runs.delete`."""
        await self.DeleteRun(run_pb.DeleteRunRequest(name=run_name(run), delete_scores=with_scores))


class Traces(TraceServiceStub):
    """Stored agent traces.

    A trace is named by its id, by that of an OpenTelemetry trace, or by `traces/ID`.
    """

    def get(self, trace: str) -> AgentTrace:
        """One agent trace as it was rebuilt."""
        found: AgentTrace = self.GetTrace(trace_pb.GetTraceRequest(name=named("traces", trace)))
        return found

    def list(self, **wanted: Unpack[TraceConditions]) -> Iterator[trace_pb.TraceSummary]:
        """Agent traces with their scores, page after page: `list(filter="label.faithfulness =
        fail")`.
        """
        return pages(self.ListTraces, traces_request(wanted))

    def evaluate(self, trace: str, **wanted: Unpack[TraceEvaluation]) -> Sequence[Score]:
        """Evaluate a stored trace again, now."""
        return tuple(self.EvaluateTrace(evaluate_trace_request(trace, wanted)).scores)


class Sessions(TraceServiceStub):
    """Stored sessions.

    A session is named by its key, by its id where only one has it, or by `sessions/KEY`.
    """

    def get(self, session: str) -> trace_pb.Session:
        """One session with its scores and those of its traces."""
        found: trace_pb.Session = self.GetSession(
            trace_pb.GetSessionRequest(name=named("sessions", session))
        )
        return found

    def list(self, **wanted: Unpack[SessionConditions]) -> Iterator[trace_pb.Session]:
        """Sessions with their scores, page after page: `list(filter="trace_count > 3 AND failing =
        true")`.
        """
        return pages(self.ListSessions, sessions_request(wanted))

    def evaluate(self, session: str, **wanted: Unpack[SessionEvaluation]) -> Sequence[Score]:
        """Evaluate a stored session again, now."""
        return tuple(self.EvaluateSession(evaluate_session_request(session, wanted)).scores)


class AsyncTraces(TraceServiceAsyncStub):
    """`Traces` for asyncio: the same methods, to be awaited."""

    def get(self, trace: str) -> Awaitable[AgentTrace]:
        """As `Traces.get`."""
        call: Awaitable[AgentTrace] = self.GetTrace(
            trace_pb.GetTraceRequest(name=named("traces", trace))
        )
        return call

    def list(self, **wanted: Unpack[TraceConditions]) -> AsyncIterator[trace_pb.TraceSummary]:
        """As `Traces.list`."""
        return pages_async(self.ListTraces, traces_request(wanted))

    async def evaluate(self, trace: str, **wanted: Unpack[TraceEvaluation]) -> Sequence[Score]:
        """As `Traces.evaluate`."""
        return tuple((await self.EvaluateTrace(evaluate_trace_request(trace, wanted))).scores)


class AsyncSessions(TraceServiceAsyncStub):
    """`Sessions` for asyncio: the same methods, to be awaited."""

    def get(self, session: str) -> Awaitable[trace_pb.Session]:
        """As `Sessions.get`."""
        call: Awaitable[trace_pb.Session] = self.GetSession(
            trace_pb.GetSessionRequest(name=named("sessions", session))
        )
        return call

    def list(self, **wanted: Unpack[SessionConditions]) -> AsyncIterator[trace_pb.Session]:
        """As `Sessions.list`."""
        return pages_async(self.ListSessions, sessions_request(wanted))

    async def evaluate(self, session: str, **wanted: Unpack[SessionEvaluation]) -> Sequence[Score]:
        """As `Sessions.evaluate`."""
        return tuple((await self.EvaluateSession(evaluate_session_request(session, wanted))).scores)


class Scores(ScoreServiceStub):
    """Scores that were measured, and that others gave.

    A score is named by its uid, or by `scores/UID`.
    """

    def get(self, score: str) -> Score:
        """One score, of whatever revision."""
        found: Score = self.GetScore(score_pb.GetScoreRequest(name=named("scores", score)))
        return found

    def list(self, **wanted: Unpack[ScoreConditions]) -> Iterator[Score]:
        """Scores, page after page: `list(filter="value < 0.5", metric="faithfulness")`."""
        return pages(self.ListScores, list_scores_request(wanted))

    def create(self, *, request_id: str = "", **wanted: Unpack[NewScore]) -> Score:
        """Keep a score that somebody gave: `create(metric="helpful", trace_id=…, label="pass",
        author="ann")`.

        With the `request_id` of an earlier call that score is returned.
        """
        found: Score = self.CreateScore(create_score_request(wanted, request_id))
        return found

    def create_many(self, scores: Iterable[NewScore]) -> Sequence[Score]:
        """Keep many scores, of each thousand all or none, in their order."""
        return [
            score for request in batches(scores) for score in self.BatchCreateScores(request).scores
        ]

    def update(self, score: str, *, etag: str = "", **wanted: Unpack[ScoreContent]) -> Score:
        """Change a score that somebody gave; with an `etag` only where nobody has changed it since
        (ConflictError).
        """
        found: Score = self.UpdateScore(update_score_request(score, wanted, etag))
        return found

    def delete(self, score: str, *, etag: str = "", missing_ok: bool = False) -> None:
        """Delete a score that somebody gave; with an `etag` as `update`."""
        self.DeleteScore(delete_score_request(score, etag, missing_ok))


class AsyncScores(ScoreServiceAsyncStub):
    """`Scores` for asyncio: the same methods, to be awaited."""

    def get(self, score: str) -> Awaitable[Score]:
        """As `Scores.get`."""
        call: Awaitable[Score] = self.GetScore(
            score_pb.GetScoreRequest(name=named("scores", score))
        )
        return call

    def list(self, **wanted: Unpack[ScoreConditions]) -> AsyncIterator[Score]:
        """As `Scores.list`."""
        return pages_async(self.ListScores, list_scores_request(wanted))

    def create(self, *, request_id: str = "", **wanted: Unpack[NewScore]) -> Awaitable[Score]:
        """As `Scores.create`."""
        call: Awaitable[Score] = self.CreateScore(create_score_request(wanted, request_id))
        return call

    async def create_many(self, scores: Iterable[NewScore]) -> Sequence[Score]:
        """As `Scores.create_many`."""
        return [
            score
            for request in batches(scores)
            for score in (await self.BatchCreateScores(request)).scores
        ]

    def update(
        self, score: str, *, etag: str = "", **wanted: Unpack[ScoreContent]
    ) -> Awaitable[Score]:
        """As `Scores.update`."""
        call: Awaitable[Score] = self.UpdateScore(update_score_request(score, wanted, etag))
        return call

    async def delete(self, score: str, *, etag: str = "", missing_ok: bool = False) -> None:
        """As `Scores.delete`."""
        await self.DeleteScore(delete_score_request(score, etag, missing_ok))
