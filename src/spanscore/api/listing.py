"""Requests for lists of scores and traces: their conditions checked, their pages and page tokens."""

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Protocol, TypeVar

from spanscore.api.convert import encode_score
from spanscore.api.text import text_of
from spanscore.api.v1 import control_service_pb2 as pb
from spanscore.errors import InputError
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.store.listing import MAX_PAGE, Page, Place, ScoreQuery, TraceQuery, TraceScores

_USUAL_PAGE = 50
_MAX_CHARS = 2000

RequestT = TypeVar("RequestT", pb.ListScoresRequest, pb.ListTracesRequest)


class Lists(Protocol):
    """What lists are made of. Both are called in threads."""

    def list_scores(self, query: ScoreQuery, limit: int, after: Place | None = None) -> Page[Evaluation]:
        """A page of scores, newest first."""
        ...

    def list_traces(self, query: TraceQuery, limit: int, after: Place | None = None) -> Page[TraceScores]:
        """A page of agent traces, newest first."""
        ...


def scores(lists: Lists, request: pb.ListScoresRequest) -> pb.ListScoresResponse:
    """A page of the scores of all subjects. Raises InputError where the request cannot be right."""
    limit = _limit(request.page_size) or _USUAL_PAGE
    page = lists.list_scores(_score_query(request), limit, _place(request))
    token = "" if page.next is None else _token(request, page.next)
    return pb.ListScoresResponse(scores=map(encode_score, page.items), next_page_token=token)


def scores_of_subject(found: Sequence[Evaluation], request: pb.ListScoresRequest) -> pb.ListScoresResponse:
    """A page of one subject's scores, which are `found`. Raises as `scores`."""
    query = _score_query(request)
    wanted = [x for x in found if query.wants(x) and x.evaluated_at_ns >= (query.since_ns or 0)]
    place = _place(request)
    start = place.row if place else 0
    end = start + (_limit(request.page_size) or len(wanted))
    token = _token(request, Place(end)) if end < len(wanted) else ""
    return pb.ListScoresResponse(scores=map(encode_score, wanted[start:end]), next_page_token=token)


def traces(lists: Lists, request: pb.ListTracesRequest) -> pb.ListTracesResponse:
    """A page of agent traces. Raises as `scores`."""
    query = TraceQuery(
        failing=request.failing,
        since_ns=request.since_ns if request.HasField("since_ns") else None,
        service=request.service_name if request.HasField("service_name") else None,
        session_id=request.session_id if request.HasField("session_id") else None,
    )
    page = lists.list_traces(query, _limit(request.page_size) or _USUAL_PAGE, _place(request))
    token = "" if page.next is None else _token(request, page.next)
    return pb.ListTracesResponse(traces=map(summary, page.items), next_page_token=token)


def _score_query(request: pb.ListScoresRequest) -> ScoreQuery:
    return ScoreQuery(
        failing=request.failing,
        skipped=request.skipped or request.WhichOneof("subject") is not None,
        since_ns=request.since_ns if request.HasField("since_ns") else None,
        service=request.service_name if request.HasField("service_name") else None,
        metric=request.metric if request.HasField("metric") else None,
        source=request.source if request.HasField("source") else None,
    )


def summary(found: TraceScores) -> pb.TraceSummary:
    """An agent trace in few words, with its scores."""
    trace = found.trace
    return pb.TraceSummary(
        id=trace.id,
        trace_ids=trace.trace_ids,
        started_ns=trace.started_ns,
        ended_ns=trace.ended_ns,
        session_id=text_of(trace.session_id),
        agent_name=text_of(trace.agent_name),
        service_name=text_of(trace.service_name),
        user_input=_cut(trace.user_input),
        final_output=_cut(trace.final_output),
        tool_calls=_count(trace),
        model_calls=len(trace.model_calls),
        scores=map(encode_score, found.scores),
    )


def _count(trace: AgentTrace) -> int | None:
    return None if trace.tool_calls is None else len(trace.tool_calls)


def _cut(text: str | None) -> str | None:
    return None if text is None else text_of(text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…")


def _limit(page_size: int) -> int:
    """How many items a page has at most; 0: the usual number."""
    if page_size < 0:
        raise InputError(f"page_size {page_size}: give a number of at least 0")
    return min(page_size, MAX_PAGE)


def _token(request: RequestT, place: Place) -> str:
    content = json.dumps([_conditions(request), *place]).encode()
    return base64.urlsafe_b64encode(content).decode()


def _place(request: RequestT) -> Place | None:
    """Where the page that is asked for begins; None: at the beginning."""
    if not request.page_token:
        return None
    try:
        conditions, row, external_row = json.loads(base64.urlsafe_b64decode(request.page_token))
        place = Place(int(row), int(external_row))
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise InputError("page_token: is no next_page_token; leave it out for the first page") from None
    if conditions != _conditions(request):
        raise InputError("page_token: is of another request; give the conditions of the page before, or no token")
    if not all(0 <= x < 2**63 for x in place):
        raise InputError("page_token: is no next_page_token; leave it out for the first page")
    return place


def _conditions(request: RequestT) -> str:
    """The same for requests that differ in their page alone."""
    same = type(request)()
    same.CopyFrom(request)
    same.ClearField("page_token")
    same.ClearField("page_size")
    return hashlib.sha256(same.SerializeToString(deterministic=True)).hexdigest()[:16]
