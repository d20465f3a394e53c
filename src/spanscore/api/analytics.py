"""AnalyticsService: figures over the scores that are stored."""

import asyncio
from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

from google.protobuf.message import Message
from sqlalchemy.engine import Connection

from spanscore.analytics import calendar, summary
from spanscore.analytics.calendar import Unit
from spanscore.analytics.selection import Selection
from spanscore.api import encode_analytics as encode
from spanscore.api.requests import id_in
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import analytics_service_pb2 as pb
from spanscore.errors import FieldError, InputError

ItemT = TypeVar("ItemT")
MessageT = TypeVar("MessageT", bound=Message)

MAX_ANSWER_BYTES = 3 * 2**20
"""gRPC's clients read messages of up to 4 MiB unless they are told otherwise."""

_USUAL_LEVEL = 0.95
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

    @needs("read")
    async def summarize_scores(self, request: pb.SummarizeScoresRequest, call: Call) -> pb.SummarizeScoresResponse:
        """What the scores of each metric come to."""
        return await asyncio.to_thread(
            self._stored.read, lambda connection: summarize(connection, request, call.tenant)
        )

    @needs("read")
    async def query_score_trend(self, request: pb.QueryScoreTrendRequest, call: Call) -> pb.QueryScoreTrendResponse:
        """The same for each hour, day or longer time."""
        return await asyncio.to_thread(self._stored.read, lambda connection: trend(connection, request, call.tenant))


def summarize(connection: Connection, request: pb.SummarizeScoresRequest, tenant: str) -> pb.SummarizeScoresResponse:
    """Answer SummarizeScores. Raises FieldError or InputError where the request cannot be met."""
    found = summary.summarize(connection, selection(request.selection, tenant), request.group_by, level(request))
    return _fitting(pb.SummarizeScoresResponse(summaries=map(encode.summary, found)))


def trend(connection: Connection, request: pb.QueryScoreTrendRequest, tenant: str) -> pb.QueryScoreTrendResponse:
    """Answer QueryScoreTrend. Raises as `summarize`."""
    unit = _UNITS.get(request.unit)
    if unit is None:
        raise FieldError("unit", f"{request.unit} is no unit of time")
    wanted, zone = selection(request.selection, tenant), calendar.zone(request.time_zone)
    found = summary.trend(connection, wanted, unit, zone, request.group_by, level(request))
    return _fitting(pb.QueryScoreTrendResponse(trends=map(encode.trend, found)))


def selection(request: pb.ScoreSelection, tenant: str) -> Selection:
    """Which scores are asked for. Raises FieldError."""
    return Selection(
        tenant=tenant,
        filter=request.filter,
        start_ns=_moment(request, "start_ns"),
        end_ns=_moment(request, "end_ns"),
        run=id_in(request.run, "runs", "selection.run") if request.run else "",
    )


def level(request: pb.SummarizeScoresRequest | pb.QueryScoreTrendRequest) -> float:
    """The level of the intervals. Raises FieldError."""
    if not request.HasField("level"):
        return _USUAL_LEVEL
    if not 0.5 <= request.level <= 0.9999:
        raise FieldError("level", f"{request.level:g}: give a share of intervals from 0.5 to 0.9999, such as 0.95")
    return request.level


def _moment(request: pb.ScoreSelection, field: Literal["start_ns", "end_ns"]) -> int | None:
    found: int = getattr(request, field)
    if found >= 2**63:
        raise FieldError(f"selection.{field}", f"{found}: give nanoseconds since the Unix epoch, before the year 2262")
    return found if request.HasField(field) else None


def _fitting(answer: MessageT) -> MessageT:
    if answer.ByteSize() > MAX_ANSWER_BYTES:
        raise InputError(
            f"the answer has {answer.ByteSize() // 2**20} MiB, more than a client reads: ask for fewer metrics or "
            "groups by a filter, or for longer times"
        )
    return answer
