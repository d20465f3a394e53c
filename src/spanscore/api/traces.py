"""TraceService: stored agent traces and sessions."""

import asyncio

from spanscore.api import listing, paging
from spanscore.api.backend import Backend, evaluate, find_trace
from spanscore.api.convert import encode_score, encode_trace
from spanscore.api.requests import id_in, masked, name_of, not_found, overrides, trace_id
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.text import text_of
from spanscore.api.v1 import agent_trace_pb2 as agent_trace_pb
from spanscore.api.v1 import trace_service_pb2 as pb
from spanscore.errors import FieldError
from spanscore.filters import parse
from spanscore.store.listing import Place
from spanscore.store.reading import SessionRecord
from spanscore.store.session_listing import (
    SESSION_FIELDS,
    SessionQuery,
    ended_ns,
    newest,
    own_scores,
    started_ns,
)


class TraceService(Servicer):
    """See trace_service.proto."""

    service = pb.DESCRIPTOR.services_by_name["TraceService"]

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @needs("read")
    async def get_trace(self, request: pb.GetTraceRequest, _call: Call) -> agent_trace_pb.AgentTrace:
        """One agent trace as it was rebuilt."""
        trace = await find_trace(self._backend, _trace_named(request))
        return masked(encode_trace(trace), request.read_mask)

    @needs("read")
    async def list_traces(self, request: pb.ListTracesRequest, call: Call) -> pb.ListTracesResponse:
        """A page of agent traces with their scores."""
        return await asyncio.to_thread(listing.traces, self._backend, request, call)

    @needs("read")
    async def get_session(self, request: pb.GetSessionRequest, _call: Call) -> pb.Session:
        """One session with its scores and those of its traces."""
        session_id = id_in(request.name, "sessions")
        found = await asyncio.to_thread(self._backend.sessions, session_id)
        if not found:
            raise not_found(session_id)
        if len(found) > 1:
            keys = ", ".join(name_of("sessions", x.session.id) for x in found[:5])
            raise FieldError("name", f"{len(found)} sessions have this id; name one by its key: {keys}")
        scores = await asyncio.to_thread(self._backend.evaluations, session_id=found[0].session.id)
        session = encode_session(found[0])
        session.ClearField("scores")
        session.scores.extend(map(encode_score, scores))
        session.traces.extend(name_of("traces", x.id) for x in found[0].session.traces)
        return masked(session, request.read_mask)

    @needs("read")
    async def list_sessions(self, request: pb.ListSessionsRequest, call: Call) -> pb.ListSessionsResponse:
        """A page of sessions with their own scores."""
        query = SessionQuery(filter=parse(request.filter, SESSION_FIELDS))
        after = paging.place(request, call, 2)
        limit, place = paging.limit(request.page_size), Place(*after) if after else None
        page = await asyncio.to_thread(self._backend.list_sessions, query, limit, place)
        token = "" if page.next is None else paging.token(request, call, page.next)
        return pb.ListSessionsResponse(sessions=map(encode_session, page.items), next_page_token=token)

    @needs("write")
    async def evaluate_trace(self, request: pb.EvaluateTraceRequest, _call: Call) -> pb.EvaluateTraceResponse:
        """Evaluate a stored agent trace again, now."""
        wanted = trace_id(id_in(request.name, "traces"), "name")
        found = await evaluate(self._backend, overrides(request), trace_id=wanted)
        return pb.EvaluateTraceResponse(scores=map(encode_score, found))

    @needs("write")
    async def evaluate_session(self, request: pb.EvaluateSessionRequest, _call: Call) -> pb.EvaluateSessionResponse:
        """Evaluate a stored session again, now."""
        wanted = id_in(request.name, "sessions")
        found = await evaluate(self._backend, overrides(request, request.signal_weights), session_id=wanted)
        return pb.EvaluateSessionResponse(scores=map(encode_score, found))


def _trace_named(request: pb.GetTraceRequest) -> str:
    """The id of the trace that is asked for, by name or by id. Raises FieldError."""
    if not request.name:
        return trace_id(request.trace_id)
    if request.trace_id:
        raise FieldError("name", "give name or trace_id, not both")
    return trace_id(id_in(request.name, "traces"), "name")


def encode_session(record: SessionRecord) -> pb.Session:
    """A session in few words, with its own scores."""
    session = record.session
    return pb.Session(
        name=name_of("sessions", session.id),
        session_id=text_of(session.session_id),
        session_key=text_of(session.id),
        started_ns=started_ns(record),
        ended_ns=ended_ns(record),
        trace_count=len(session.traces),
        agent_name=text_of(newest(record, "agent_name")),
        service_name=text_of(newest(record, "service_name")),
        user_id=text_of(newest(record, "user_id")),
        scores=map(encode_score, own_scores(record)),
        failing=any(x.is_failing for x in record.scores),
    )
