"""TraceService: stored agent traces and sessions."""

from collections.abc import Callable, Coroutine
from typing import Any

from spanscore.api import listing
from spanscore.api.answered import Answered, ResponseT
from spanscore.api.backend import Backend, evaluate, find_trace
from spanscore.api.convert import encode_score, encode_trace
from spanscore.api.imported import imported
from spanscore.api.requests import (
    id_in,
    masked,
    name_of,
    not_found,
    overrides,
    request_id_in,
    trace_id,
)
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import agent_trace_pb2 as agent_trace_pb
from spanscore.api.v1 import trace_service_pb2 as pb
from spanscore.control.request_threads import in_thread
from spanscore.errors import FieldError
from spanscore.store.reading import SessionRecord


class TraceService(Servicer):
    """See trace_service.proto."""

    service = pb.DESCRIPTOR.services_by_name["TraceService"]

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._answered = Answered()

    @needs("read")
    async def get_trace(self, request: pb.GetTraceRequest, call: Call) -> agent_trace_pb.AgentTrace:
        """One agent trace as it was rebuilt."""
        trace = await find_trace(self._backend, _trace_named(request), tenant=call.tenant)
        return await in_thread(lambda: masked(encode_trace(trace), request.read_mask))

    @needs("read")
    async def list_traces(self, request: pb.ListTracesRequest, call: Call) -> pb.ListTracesResponse:
        """A page of agent traces with their scores."""
        return await in_thread(listing.traces, self._backend, request, call)

    @needs("read")
    async def get_session(self, request: pb.GetSessionRequest, call: Call) -> pb.Session:
        """One session with its scores and those of its traces."""
        found = await find_session(
            self._backend, id_in(request.name, "sessions"), tenant=call.tenant
        )
        return await in_thread(self._whole, found, request, call)

    @needs("read")
    async def list_sessions(
        self, request: pb.ListSessionsRequest, call: Call
    ) -> pb.ListSessionsResponse:
        """A page of sessions with their own scores."""
        return await in_thread(listing.sessions, self._backend, request, call)

    @needs("write")
    async def import_traces(
        self, request: pb.ImportTracesRequest, call: Call
    ) -> pb.ImportTracesResponse:
        """Store agent traces for runs to evaluate."""
        traces = await in_thread(imported, request.traces)
        kept = await self._backend.runs.import_traces(call.tenant, traces)
        keys = dict.fromkeys(x.session_key for x in kept if x.session_key is not None)
        return pb.ImportTracesResponse(
            traces=[name_of("traces", x.id) for x in kept],
            sessions=[name_of("sessions", x) for x in keys],
        )

    @needs("write")
    async def evaluate_trace(
        self, request: pb.EvaluateTraceRequest, call: Call
    ) -> pb.EvaluateTraceResponse:
        """Evaluate a stored agent trace again, now."""
        wanted = trace_id(id_in(request.name, "traces"), "name")
        changed = overrides(request)

        async def answer() -> pb.EvaluateTraceResponse:
            found = await evaluate(self._backend, changed, tenant=call.tenant, trace_id=wanted)
            return pb.EvaluateTraceResponse(scores=map(encode_score, found))

        return await self._once(request, call, answer)

    @needs("write")
    async def evaluate_session(
        self, request: pb.EvaluateSessionRequest, call: Call
    ) -> pb.EvaluateSessionResponse:
        """Evaluate a stored session again, now."""
        wanted = id_in(request.name, "sessions")
        changed = overrides(request, request.signal_weights)

        async def answer() -> pb.EvaluateSessionResponse:
            found = await evaluate(self._backend, changed, tenant=call.tenant, session_id=wanted)
            return pb.EvaluateSessionResponse(scores=map(encode_score, found))

        return await self._once(request, call, answer)

    async def _once(
        self,
        request: pb.EvaluateTraceRequest | pb.EvaluateSessionRequest,
        call: Call,
        answer: Callable[[], Coroutine[Any, Any, ResponseT]],
    ) -> ResponseT:
        request_id = request_id_in(request.request_id)
        if request_id is None:
            return await answer()
        return await self._answered.once(call.tenant, request, request_id, answer)

    def _whole(
        self, record: SessionRecord, request: pb.GetSessionRequest, call: Call
    ) -> pb.Session:
        scores = self._backend.evaluations(tenant=call.tenant, session_id=record.session.id)
        return masked(listing.whole_session(record, scores), request.read_mask)


async def find_session(backend: Backend, session_id: str, *, tenant: str) -> SessionRecord:
    """The one session with this key or id.

    Raises NotFoundError, or FieldError where several have it.
    """
    found = await in_thread(backend.sessions, session_id, tenant=tenant)
    if not found:
        raise not_found(session_id)
    if len(found) > 1:
        keys = ", ".join(name_of("sessions", x.session.id) for x in found[:5])
        raise FieldError("name", f"{len(found)} sessions have this id; name one by its key: {keys}")
    return found[0]


def _trace_named(request: pb.GetTraceRequest) -> str:
    """The id of the trace that is asked for, by name or by id. Raises FieldError."""
    if not request.name:
        return trace_id(request.trace_id)
    if request.trace_id:
        raise FieldError("name", "give name or trace_id, not both")
    return trace_id(id_in(request.name, "traces"), "name")
