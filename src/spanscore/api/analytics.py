"""AnalyticsService: figures over stored scores, as messages."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from google.protobuf.message import Message
from sqlalchemy.engine import Connection

from spanscore.analytics import distribution, summary, worst
from spanscore.analytics.distribution import Distribution
from spanscore.analytics.figures import Corrected, Figure
from spanscore.analytics.selection import Selection
from spanscore.analytics.summary import Comparison, Summary, Unit
from spanscore.analytics.worst import Ranked
from spanscore.api import requests
from spanscore.api.convert import encode_score
from spanscore.api.listing import cut
from spanscore.api.messages import encode, encoder, fill, words_by_number
from spanscore.api.requests import id_in, moment, name_of, shown, trace_id
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import analytics_service_pb2 as pb
from spanscore.errors import FieldError, InputError, NotFoundError
from spanscore.rpc import text_of
from spanscore.stats import Estimate
from spanscore.store import session_ranks
from spanscore.threads import in_thread

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
_UNITS: Mapping[int, Unit] = {
    pb.TIME_UNIT_UNSPECIFIED: "day",
    **words_by_number(pb.TimeUnit.DESCRIPTOR),
}


class Stored(Protocol):
    """A store that can be read."""

    def read(self, ask: Callable[[Connection], ItemT]) -> ItemT:
        """What `ask` gives of what is stored, as of one moment. Called in threads."""
        ...


def summarize(
    connection: Connection, request: pb.SummarizeScoresRequest, call: Call
) -> pb.SummarizeScoresResponse:
    """Answer SummarizeScores. Raises FieldError or InputError where the request cannot be met."""
    found = summary.summarize(
        connection, selection(request.selection, call.tenant), request.group_by, level(request)
    )
    return _fitting(pb.SummarizeScoresResponse(summaries=map(encode_summary, found)))


def trend(
    connection: Connection, request: pb.QueryScoreTrendRequest, call: Call
) -> pb.QueryScoreTrendResponse:
    """Answer QueryScoreTrend. Raises as `summarize`."""
    unit = _UNITS.get(request.unit)
    if unit is None:
        raise FieldError("unit", f"{request.unit} is no unit of time")
    wanted, zone = selection(request.selection, call.tenant), summary.zone(request.time_zone)
    found = summary.trend(connection, wanted, unit, zone, request.group_by, level(request))
    return _fitting(pb.QueryScoreTrendResponse(trends=map(partial(_encoded, pb.ScoreTrend), found)))


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
        pb.QueryScoreDistributionResponse(distributions=map(encode_distribution, found))
    )


def compare(
    connection: Connection, request: pb.CompareScoresRequest, call: Call
) -> pb.CompareScoresResponse:
    """Answer CompareScores. Raises as `summarize`."""
    before, after = selection(request.before, call.tenant), selection(request.after, call.tenant)
    found = summary.compare(connection, before, after, request.group_by, level(request))
    return _fitting(pb.CompareScoresResponse(comparisons=map(comparison, found)))


def rank(
    connection: Connection, request: pb.RankSessionsRequest, call: Call
) -> pb.RankSessionsResponse:
    """Answer RankSessions. Raises as `summarize`."""
    limit = requests.limit(request.page_size)
    offset, *_ = requests.place(request, call, 1) or (0,)
    found = worst.worst(
        connection, selection(request.selection, call.tenant), limit + 1, max(0, offset)
    )
    has_more = len(found.ranked) > limit
    return pb.RankSessionsResponse(
        sessions=map(session, found.ranked[:limit]),
        next_page_token=requests.token(request, call, (max(0, offset) + limit,))
        if has_more
        else "",
        total_size=found.total,
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
    found = session_ranks.history(connection, request.metric, call.tenant, **{named: subject_id})
    if not found:
        raise NotFoundError(
            f"{shown(request.metric)} has no score of {shown(subject_id)}:"
            " it may be past its retention"
        )
    newest = requests.fitting(map(encode_score, reversed(found)), len(found))
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


def _read(name: str) -> Any:
    """The method that answers by one of `ANSWERS`."""

    @needs("read")
    async def method(self: "AnalyticsService", request: Any, call: Call) -> Any:
        async with self.reading:
            return await in_thread(
                self.stored.read, lambda connection: ANSWERS[name](connection, request, call)
            )

    return method


class AnalyticsService(Servicer):
    """See analytics_service.proto."""

    service = pb.DESCRIPTOR.services_by_name["AnalyticsService"]

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.reading = asyncio.Semaphore(_AT_ONCE)

    summarize_scores = _read("SummarizeScores")
    query_score_trend = _read("QueryScoreTrend")
    query_score_distribution = _read("QueryScoreDistribution")
    compare_scores = _read("CompareScores")
    rank_sessions = _read("RankSessions")
    list_score_history = _read("ListScoreHistory")


@encoder(Summary)
def encode_summary(found: Summary) -> pb.ScoreSummary:
    """A summary as a message."""
    corrected = found.corrected
    return _encoded(
        pb.ScoreSummary,
        found,
        corrected_pass_rate=None if corrected is None else _corrected(corrected, found.pass_rate),
        least_sampling=found.least_chance,
    )


def _encoded(kind: type[MessageT], found: Any, **more: Any) -> MessageT:
    """A message about the scores of a metric."""
    low, high = getattr(found, "scale", None) or (None, None)
    of = groups(getattr(found, "groups", {}))
    known = {"low": low, "high": high, "groups": of}
    fields = kind.DESCRIPTOR.fields_by_name
    return encode(kind, found, **{name: x for name, x in known.items() if name in fields}, **more)


def encode_distribution(found: Distribution) -> pb.ScoreDistribution:
    """How the scores of a metric are spread, as a message."""
    quantiles = [pb.ScoreQuantile(share=x.share, value=figure(x.figure)) for x in found.quantiles]
    return _encoded(pb.ScoreDistribution, found, quantiles=quantiles)


def comparison(found: Comparison) -> pb.ScoreComparison:
    """Two sides and their difference as a message."""
    corrected, of = found.corrected_difference, found.pass_rate_difference
    return _encoded(
        pb.ScoreComparison,
        found,
        corrected_pass_rate_difference=None if corrected is None else _corrected(corrected, of),
    )


def session(found: Ranked) -> pb.RankedSession:
    """A session, or a trace that belongs to none, as a message."""
    message = encode(pb.RankedSession, found)
    of, first = found.stored.example, found.stored.first
    if of is not None:
        key = of.session_key or of.session_id
        message.name = name_of("traces", of.subject_id) if key is None else name_of("sessions", key)
        for field in ("service_name", "agent_name", "session_id"):
            if (text := getattr(of, field)) is not None:
                setattr(message, field, text_of(text))
    if first is not None:
        message.trace_count = found.stored.traces
        for field in ("user_input", "user_id"):
            if (text := getattr(first, field)) is not None:
                setattr(message, field, cut(text))
    return message


def groups(found: Mapping[str, str | None]) -> list[pb.ScoreGroup]:
    """The values of what was grouped by."""
    return [pb.ScoreGroup(name=name, value=text_of(value)) for name, value in found.items()]


@encoder(Figure)
def figure(found: Figure) -> pb.ScoreFigure:
    """A figure, or the reason why there is none."""
    return _estimate(found.estimate, found.units, found.clusters, found.why_not)


def _corrected(found: Corrected, of: Figure) -> pb.ScoreFigure:
    message = _estimate(found.estimate, of.units, of.clusters, found.note)
    message.note = found.note
    return message


def _estimate(found: Estimate | None, scores: int, sessions: int, why_not: str) -> pb.ScoreFigure:
    if found is None:
        return pb.ScoreFigure(scores=scores, sessions=sessions, note=why_not)
    n = found.n if found.effective_n is None else found.effective_n
    message = encode(pb.ScoreFigure, found, scores=scores, sessions=sessions, effective_n=n)
    fill(message, found.interval)
    return message
