"""AnalyticsService: figures over the scores that are stored."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from google.protobuf.message import Message
from sqlalchemy.engine import Connection

from spanscore.analytics import difference, distribution, summary
from spanscore.analytics import selection as sessions
from spanscore.analytics.selection import Selection
from spanscore.analytics.summary import Unit
from spanscore.api import encode_analytics as encode
from spanscore.api import paging
from spanscore.api.convert import encode_score
from spanscore.api.requests import id_in, moment, shown, trace_id
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import analytics_service_pb2 as pb
from spanscore.control.request_threads import in_thread
from spanscore.errors import FieldError, InputError, NotFoundError
from spanscore.store import ranking

ItemT = TypeVar("ItemT")
MessageT = TypeVar("MessageT", bound=Message)

MAX_ANSWER_BYTES = 3 * 2**20
"""gRPC's clients read messages of up to 4 MiB unless they are told otherwise."""

_AT_ONCE = 2
"""Questions that are worked on at once: each takes several of the connections that whoever commits
needs too.
"""
_USUAL_LEVEL = 0.95
_USUAL_BINS = 10
_USUAL_QUANTILES = [0.1, 0.25, 0.5, 0.75, 0.9]
_Leveled: TypeAlias = (
    pb.SummarizeScoresRequest
    | pb.QueryScoreTrendRequest
    | pb.QueryScoreDistributionRequest
    | pb.CompareScoresRequest
)
_UNITS: dict[int, Unit] = {
    pb.TIME_UNIT_UNSPECIFIED: "day",
    pb.TIME_UNIT_HOUR: "hour",
    pb.TIME_UNIT_DAY: "day",
    pb.TIME_UNIT_WEEK: "week",
    pb.TIME_UNIT_MONTH: "month",
    pb.TIME_UNIT_QUARTER: "quarter",
    pb.TIME_UNIT_YEAR: "year",
}


class Stored(Protocol):
    """A store that can be read."""

    def read(self, ask: Callable[[Connection], ItemT]) -> ItemT:
        """What `ask` gives of what is stored, as of one moment. Called in threads."""
        ...


class AnalyticsService(Servicer):
    """See analytics_service.proto."""

    service = pb.DESCRIPTOR.services_by_name["AnalyticsService"]

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._reading = asyncio.Semaphore(_AT_ONCE)

    async def _read(self, ask: Callable[[Connection], MessageT]) -> MessageT:
        async with self._reading:
            return await in_thread(self._stored.read, ask)

    @needs("read")
    async def summarize_scores(
        self, request: pb.SummarizeScoresRequest, call: Call
    ) -> pb.SummarizeScoresResponse:
        """What the scores of each metric come to."""
        return await self._read(lambda connection: summarize(connection, request, call))

    @needs("read")
    async def query_score_trend(
        self, request: pb.QueryScoreTrendRequest, call: Call
    ) -> pb.QueryScoreTrendResponse:
        """The same for each hour, day or longer time."""
        return await self._read(lambda connection: trend(connection, request, call))

    @needs("read")
    async def query_score_distribution(
        self, request: pb.QueryScoreDistributionRequest, call: Call
    ) -> pb.QueryScoreDistributionResponse:
        """How the values and labels of each metric are spread."""
        return await self._read(lambda connection: spread(connection, request, call))

    @needs("read")
    async def compare_scores(
        self, request: pb.CompareScoresRequest, call: Call
    ) -> pb.CompareScoresResponse:
        """How two selections differ."""
        return await self._read(lambda connection: compare(connection, request, call))

    @needs("read")
    async def rank_sessions(
        self, request: pb.RankSessionsRequest, call: Call
    ) -> pb.RankSessionsResponse:
        """A page of sessions, the worst first."""
        return await self._read(lambda connection: rank(connection, request, call))

    @needs("read")
    async def list_score_history(
        self, request: pb.ListScoreHistoryRequest, call: Call
    ) -> pb.ListScoreHistoryResponse:
        """All that was ever said of one trace or session by one metric."""
        return await self._read(lambda connection: history(connection, request, call))


def summarize(
    connection: Connection, request: pb.SummarizeScoresRequest, call: Call
) -> pb.SummarizeScoresResponse:
    """Answer SummarizeScores. Raises FieldError or InputError where the request cannot be met."""
    found = summary.summarize(
        connection, selection(request.selection, call.tenant), request.group_by, level(request)
    )
    return _fitting(pb.SummarizeScoresResponse(summaries=map(encode.summary, found)))


def trend(
    connection: Connection, request: pb.QueryScoreTrendRequest, call: Call
) -> pb.QueryScoreTrendResponse:
    """Answer QueryScoreTrend. Raises as `summarize`."""
    unit = _UNITS.get(request.unit)
    if unit is None:
        raise FieldError("unit", f"{request.unit} is no unit of time")
    wanted, zone = selection(request.selection, call.tenant), summary.zone(request.time_zone)
    found = summary.trend(connection, wanted, unit, zone, request.group_by, level(request))
    return _fitting(pb.QueryScoreTrendResponse(trends=map(encode.trend, found)))


def spread(
    connection: Connection, request: pb.QueryScoreDistributionRequest, call: Call
) -> pb.QueryScoreDistributionResponse:
    """Answer QueryScoreDistribution. Raises as `summarize`."""
    wanted, shares = (
        selection(request.selection, call.tenant),
        list(request.quantiles) or _USUAL_QUANTILES,
    )
    found = distribution.distributions(
        connection, wanted, request.bins or _USUAL_BINS, shares, level(request)
    )
    return _fitting(
        pb.QueryScoreDistributionResponse(distributions=map(encode.distribution, found))
    )


def compare(
    connection: Connection, request: pb.CompareScoresRequest, call: Call
) -> pb.CompareScoresResponse:
    """Answer CompareScores. Raises as `summarize`."""
    before, after = selection(request.before, call.tenant), selection(request.after, call.tenant)
    found = difference.compare(connection, before, after, request.group_by, level(request))
    return _fitting(pb.CompareScoresResponse(comparisons=map(encode.comparison, found)))


def rank(
    connection: Connection, request: pb.RankSessionsRequest, call: Call
) -> pb.RankSessionsResponse:
    """Answer RankSessions. Raises as `summarize`."""
    limit = paging.limit(request.page_size)
    offset, *_ = paging.place(request, call, 1) or (0,)
    found = sessions.worst(
        connection, selection(request.selection, call.tenant), limit + 1, max(0, offset)
    )
    token = paging.token(request, call, (max(0, offset) + limit,)) if len(found) > limit else ""
    return pb.RankSessionsResponse(
        sessions=map(encode.session, found[:limit]), next_page_token=token
    )


def history(
    connection: Connection, request: pb.ListScoreHistoryRequest, call: Call
) -> pb.ListScoreHistoryResponse:
    """Answer ListScoreHistory. Raises FieldError, or NotFoundError where there is no such score."""
    if not request.metric:
        raise FieldError("metric", "is empty; name a metric")
    named = request.WhichOneof("subject")
    if named is None:
        raise FieldError("trace_id", "is empty; name a trace or a session")
    subject_id = trace_id(request.trace_id) if named == "trace_id" else request.session_id
    found = ranking.history(connection, request.metric, call.tenant, **{named: subject_id})
    if not found:
        raise NotFoundError(
            f"{shown(request.metric)} has no score of {shown(subject_id)}:"
            " it may be past its retention"
        )
    newest = paging.fitting(map(encode_score, reversed(found)), len(found))
    return pb.ListScoreHistoryResponse(scores=reversed(newest))


def selection(request: pb.ScoreSelection, tenant: str) -> Selection:
    """Which scores are asked for. Raises FieldError."""
    return Selection(
        tenant=tenant,
        filter=request.filter,
        start_ns=_moment(request, "start_ns"),
        end_ns=_moment(request, "end_ns"),
        run=id_in(request.run, "runs", "selection.run") if request.run else "",
    )


def level(request: _Leveled) -> float:
    """The level of the intervals. Raises FieldError."""
    if not request.HasField("level"):
        return _USUAL_LEVEL
    if not 0.5 <= request.level <= 0.9999:
        raise FieldError(
            "level",
            f"{request.level:g}: give a share of intervals from 0.5 to 0.9999, such as 0.95",
        )
    return request.level


def _moment(request: pb.ScoreSelection, field: Literal["start_ns", "end_ns"]) -> int | None:
    found = moment(getattr(request, field), f"selection.{field}")
    return found if request.HasField(field) else None


def _fitting(answer: MessageT) -> MessageT:
    if answer.ByteSize() > MAX_ANSWER_BYTES:
        raise InputError(
            f"the answer has {answer.ByteSize() // 2**20} MiB, more than a client reads: ask for"
            " fewer metrics or groups by a filter, or for longer times"
        )
    return answer


ANSWERS: Final[Mapping[str, Callable[[Connection, Any, Call], Any]]] = {
    "SummarizeScores": summarize,
    "QueryScoreTrend": trend,
    "QueryScoreDistribution": spread,
    "CompareScores": compare,
    "RankSessions": rank,
    "ListScoreHistory": history,
}
"""The methods by name, for whoever has a store and no server."""
