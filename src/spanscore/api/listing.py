"""Lists of scores and traces: requests to queries, and back."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from spanscore.api import requests
from spanscore.api.convert import encode_score
from spanscore.api.messages import encode
from spanscore.api.requests import id_in, moment, name_of, sought, sought_name
from spanscore.api.servicer import Call
from spanscore.api.v1 import score_service_pb2 as score_pb, trace_service_pb2 as trace_pb
from spanscore.errors import shortened
from spanscore.filters import parse
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.rpc import text_of
from spanscore.store import ordering
from spanscore.store.listing import (
    NEWEST_FIRST,
    OLDEST_FIRST,
    SCORE_FIELDS,
    SCORE_ORDERS,
    STORED,
    TRACE_FIELDS,
    TRACE_ORDERS,
    Page,
    ScoreQuery,
    TraceQuery,
    TraceScores,
)
from spanscore.store.lookup import SessionRecord
from spanscore.store.ordering import Order, Place
from spanscore.store.session_lists import (
    ORDERS as SESSION_ORDERS,
    SESSION_FIELDS,
    SessionQuery,
    ended_ns,
    first_input,
    newest,
    own_scores,
    started_ns,
    tokens,
)

ItemT = TypeVar("ItemT")
ResponseT = TypeVar(
    "ResponseT",
    score_pb.ListScoresResponse,
    trace_pb.ListTracesResponse,
    trace_pb.ListSessionsResponse,
)

_MAX_CHARS = 2000
_MAX_NAMES = 10_000


class Lists(Protocol):
    """What lists are made of. All are called in threads."""

    def list_scores(
        self, query: ScoreQuery, limit: int, after: Place | None = None
    ) -> Page[Evaluation]:
        """A page of scores in the order of the query."""
        ...

    def list_traces(
        self, query: TraceQuery, limit: int, after: Place | None = None
    ) -> Page[TraceScores]:
        """A page of agent traces in the order of the query."""
        ...

    def why_unscored(self, trace: AgentTrace, scores: Sequence[Evaluation]) -> str:
        """Why a stored trace with these scores has none; else ""."""
        ...

    def list_sessions(
        self, query: SessionQuery, limit: int, after: Place | None = None
    ) -> Page[SessionRecord]:
        """A page of sessions in the order of the query."""
        ...

    def sessions(self, session_id: str, *, tenant: str) -> Sequence[SessionRecord]:
        """The sessions of a tenant with this key or id, one for each namespace."""
        ...


def scores(
    lists: Lists, request: score_pb.ListScoresRequest, call: Call
) -> score_pb.ListScoresResponse:
    """A page of the scores of all subjects. Raises FieldError where the request cannot be right."""

    def encoded(page: Page[Evaluation]) -> score_pb.ListScoresResponse:
        return score_pb.ListScoresResponse(scores=map(encode_score, page.items))

    return _fitting(lists.list_scores, _score_query(request, call), encoded, request, call)


def _trace_order(request: trace_pb.ListTracesRequest) -> Order:
    found = ordering.parse(request.order_by, TRACE_ORDERS, alone=TRACE_ORDERS)
    return found[0] if found else NEWEST_FIRST


def scores_of_subject(
    found: Sequence[Evaluation], request: score_pb.ListScoresRequest, call: Call, unscored: str = ""
) -> score_pb.ListScoresResponse:
    """A page of one subject's scores, which are `found`; `unscored`: why there are none. Raises as
    `scores`.
    """
    query = _score_query(request, call)
    wanted = [x for x in found if query.wants(x) and x.evaluated_at_ns >= (query.since_ns or 0)]
    if query.order == (NEWEST_FIRST,):
        wanted.reverse()
    elif query.order != (OLDEST_FIRST,):
        wanted = ordering.arranged(wanted, query.order, SCORE_ORDERS)
    start = int((requests.place(request, call) or (0,))[0])
    shown = requests.fitting(
        map(encode_score, wanted[start:]), requests.limit(request.page_size, requests.MAX_PAGE)
    )
    end = start + len(shown)
    token = requests.token(request, call, (end,)) if end < len(wanted) else ""
    return score_pb.ListScoresResponse(
        scores=shown, next_page_token=token, unscored=text_of(unscored)
    )


def traces(
    lists: Lists, request: trace_pb.ListTracesRequest, call: Call
) -> trace_pb.ListTracesResponse:
    """A page of agent traces. Raises as `scores`."""
    query = TraceQuery(
        failing=request.failing,
        since_ns=moment(request.since_ns, "since_ns") if request.HasField("since_ns") else None,
        service=request.service_name if request.HasField("service_name") else None,
        session_id=request.session_id if request.HasField("session_id") else None,
        filter=parse(request.filter, TRACE_FIELDS),
        order=_trace_order(request),
        tenant=call.tenant,
    )

    def encoded(page: Page[TraceScores]) -> trace_pb.ListTracesResponse:
        found = (summary(x, lists.why_unscored(*x)) for x in page.items)
        return trace_pb.ListTracesResponse(traces=found, total_size=page.total)

    return _fitting(lists.list_traces, query, encoded, request, call)


def sessions(
    lists: Lists, request: trace_pb.ListSessionsRequest, call: Call
) -> trace_pb.ListSessionsResponse:
    """A page of sessions with their own scores. Raises as `scores`."""
    query = SessionQuery(
        filter=parse(request.filter, SESSION_FIELDS),
        order=ordering.parse(request.order_by, SESSION_ORDERS, alone=SESSION_ORDERS),
        tenant=call.tenant,
    )

    def encoded(page: Page[SessionRecord]) -> trace_pb.ListSessionsResponse:
        found = map(encode_session, page.items)
        return trace_pb.ListSessionsResponse(sessions=found, total_size=page.total)

    return _fitting(lists.list_sessions, query, encoded, request, call)


def _fitting(
    read: Callable[[Any, int, Place | None], Page[ItemT]],
    query: Any,
    encoded: Callable[[Page[ItemT]], ResponseT],
    request: Any,
    call: Call,
) -> ResponseT:
    """The page that is asked for; where it has too many bytes for one message, with fewer items."""
    place, limit = requests.place(request, call), requests.limit(request.page_size)
    response = encoded(page := read(query, limit, place))
    while limit > 1 and response.ByteSize() > requests.MAX_PAGE_BYTES:
        limit //= 2
        response = encoded(page := read(query, limit, place))
    if page.next is not None:
        response.next_page_token = requests.token(request, call, page.next)
    return response


def _score_query(request: score_pb.ListScoresRequest, call: Call) -> ScoreQuery:
    is_of_subject = request.WhichOneof("subject") is not None
    order = ordering.parse(request.order_by, (STORED, *SCORE_ORDERS), alone=[STORED])
    return ScoreQuery(
        failing=request.failing,
        skipped=request.skipped or is_of_subject,
        since_ns=moment(request.since_ns, "since_ns") if request.HasField("since_ns") else None,
        service=sought(request.service_name, "service_name")
        if request.HasField("service_name")
        else None,
        metric=sought_name(request.metric, "metric") if request.HasField("metric") else None,
        source=sought_name(request.source, "source") if request.HasField("source") else None,
        run=sought_name(id_in(request.run, "runs", "run"), "run") if request.run else "",
        filter=parse(request.filter, SCORE_FIELDS),
        order=order or (OLDEST_FIRST if is_of_subject else NEWEST_FIRST,),
        tenant=call.tenant,
    )


def summary(found: TraceScores, unscored: str) -> trace_pb.TraceSummary:
    """An agent trace in few words, with its scores, or `unscored`: why it has none."""
    trace = found.trace
    return encode(
        trace_pb.TraceSummary,
        trace,
        name=name_of("traces", trace.id),
        user_input=cut(trace.user_input),
        final_output=cut(trace.final_output),
        tool_calls=None if trace.tool_calls is None else len(trace.tool_calls),
        model_calls=len(trace.model_calls),
        scores=found.scores,
        unscored=unscored,
        input_tokens=trace.usage.input_tokens,
        output_tokens=trace.usage.output_tokens,
    )


def cut(text: str | None) -> str | None:
    """A text as lists have it."""
    return None if text is None else text_of(shortened(text, _MAX_CHARS))


def whole_session(record: SessionRecord, found: Sequence[Evaluation]) -> trace_pb.Session:
    """A session with all its scores, which are `found`, and its traces' names: so many as one
    message has room for.
    """
    session = encode_session(record)
    session.ClearField("scores")
    session.scores.extend(requests.fitting(map(encode_score, found), requests.MAX_PAGE))
    session.traces.extend(name_of("traces", x.id) for x in record.session.traces[:_MAX_NAMES])
    return session


def encode_session(record: SessionRecord) -> trace_pb.Session:
    """A session in few words, with its own scores."""
    session = record.session
    return encode(
        trace_pb.Session,
        session,
        name=name_of("sessions", session.id),
        session_key=session.id,
        traces=(),
        started_ns=started_ns(record),
        ended_ns=ended_ns(record),
        trace_count=len(session.traces),
        agent_name=newest(record, "agent_name"),
        service_name=newest(record, "service_name"),
        user_id=newest(record, "user_id"),
        scores=own_scores(record),
        failing=any(x.is_failing for x in record.scores),
        user_input=cut(first_input(record)),
        input_tokens=tokens(record, "input_tokens"),
        output_tokens=tokens(record, "output_tokens"),
    )
