"""AnalyticsService as both clients have it: its stub, and the same methods with keywords."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Unpack

from spanscore.api.analytics_requests import (
    Distribution,
    Selection,
    Summary,
    Trend,
    compare_request,
    distribution_request,
    history_request,
    rank_request,
    summary_request,
    trend_request,
)
from spanscore.api.client_pages import pages, pages_async
from spanscore.api.v1 import analytics_service_pb2 as pb
from spanscore.api.v1.analytics_service_pb2_grpc import AnalyticsServiceStub
from spanscore.api.v1.score_pb2 import Score

if TYPE_CHECKING:
    from spanscore.api.v1.analytics_service_pb2_grpc import AnalyticsServiceAsyncStub
else:
    AnalyticsServiceAsyncStub = AnalyticsServiceStub  # at run time one stub serves both


class Analytics(AnalyticsServiceStub):
    """Figures over the stored scores, each with n and an interval."""

    def summarize(self, **wanted: Unpack[Summary]) -> Sequence[pb.ScoreSummary]:
        """What the scores of each metric come to: `summarize(filter='service = "shop"',
        group_by=["model"])`.
        """
        return tuple(self.SummarizeScores(summary_request(wanted)).summaries)

    def trend(self, **wanted: Unpack[Trend]) -> Sequence[pb.ScoreTrend]:
        """The same for each hour, day or longer time."""
        return tuple(self.QueryScoreTrend(trend_request(wanted)).trends)

    def distribution(self, **wanted: Unpack[Distribution]) -> Sequence[pb.ScoreDistribution]:
        """How the values and labels of each metric are spread."""
        return tuple(self.QueryScoreDistribution(distribution_request(wanted)).distributions)

    def compare(
        self,
        before: Selection,
        after: Selection,
        *,
        group_by: Sequence[str] = (),
        level: float | None = None,
    ) -> Sequence[pb.ScoreComparison]:
        """How two selections differ: `compare({"filter": "version = 1"}, {"filter": "version =
        2"})`.
        """
        return tuple(
            self.CompareScores(compare_request(before, after, group_by, level)).comparisons
        )

    def worst_sessions(self, **wanted: Unpack[Selection]) -> Iterator[pb.RankedSession]:
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

    async def summarize(self, **wanted: Unpack[Summary]) -> Sequence[pb.ScoreSummary]:
        """As `Analytics.summarize`."""
        return tuple((await self.SummarizeScores(summary_request(wanted))).summaries)

    async def trend(self, **wanted: Unpack[Trend]) -> Sequence[pb.ScoreTrend]:
        """As `Analytics.trend`."""
        return tuple((await self.QueryScoreTrend(trend_request(wanted))).trends)

    async def distribution(self, **wanted: Unpack[Distribution]) -> Sequence[pb.ScoreDistribution]:
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
    ) -> Sequence[pb.ScoreComparison]:
        """As `Analytics.compare`."""
        return tuple(
            (await self.CompareScores(compare_request(before, after, group_by, level))).comparisons
        )

    def worst_sessions(self, **wanted: Unpack[Selection]) -> AsyncIterator[pb.RankedSession]:
        """As `Analytics.worst_sessions`."""
        return pages_async(self.RankSessions, rank_request(wanted))

    async def history(
        self, metric: str, *, trace_id: str | None = None, session_id: str | None = None
    ) -> Sequence[Score]:
        """As `Analytics.history`."""
        return tuple(
            (await self.ListScoreHistory(history_request(metric, trace_id, session_id))).scores
        )
