"""TraceService and ViewService."""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import takewhile
from typing import Any, Final, TypeAlias, TypeVar

from google.protobuf.message import Message

from spanscore.api import listing
from spanscore.api.backend import Backend, find_trace, require_subject
from spanscore.api.convert import decode_trace, encode_score, encode_trace
from spanscore.api.requests import (
    TRACE_ID,
    id_in,
    json_object,
    masked,
    name_of,
    not_found,
    overrides,
    request_id_in,
    shown,
    trace_id,
)
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import (
    agent_trace_pb2 as agent_trace_pb,
    trace_service_pb2 as pb,
    view_service_pb2 as view_pb,
)
from spanscore.errors import ExistsError, FieldError
from spanscore.evaluation.config import Overrides
from spanscore.model.json import dumps
from spanscore.model.trace import AgentTrace
from spanscore.receive.auth import SCOPES
from spanscore.rpc import text_of
from spanscore.store.lookup import SessionRecord
from spanscore.threads import in_thread

ResponseT = TypeVar("ResponseT", bound=Message)

KEPT_S: Final = 3600.0
MOST_OF_TENANT: Final = 500
_MAX_BYTES: Final = 32 * 2**20
_BYTES_BESIDE: Final = 2**10  # about what is kept of an answer beside its response

_Key: TypeAlias = tuple[str, str, str]
"""Tenant, kind of request, request id."""


@dataclass(slots=True)
class _Answer:
    digest: bytes
    """Of the request."""
    response: "asyncio.Task[Any]"
    received_s: float


class Answered:
    """The answers of the last hour: at most 500 of a tenant, and `max_bytes` of all tenants.

    What exceeds the bytes is taken from the tenant whose answers take most. Belongs to one event
    loop.
    """

    def __init__(
        self, clock_s: Callable[[], float] = time.monotonic, max_bytes: int = _MAX_BYTES
    ) -> None:
        self._clock_s = clock_s
        self._max_bytes = max_bytes
        self._answers: dict[_Key, _Answer] = {}  # the oldest first
        self._sizes_bytes: dict[str, dict[_Key, int]] = {}

    async def once(
        self,
        tenant: str,
        request: Message,
        request_id: str,
        answer: Callable[[], Coroutine[Any, Any, ResponseT]],
    ) -> ResponseT:
        """What `answer` gives, or has given for the same request of the same tenant; it is waited
        for meanwhile.

        `answer` goes on where the caller is cancelled, as when its connection breaks. What failed
        is tried again. Raises ExistsError where something else was asked for under the request id.
        """
        key = (tenant, request.DESCRIPTOR.full_name, request_id)
        digest = hashlib.sha256(request.SerializeToString(deterministic=True)).digest()
        self._forget_old()
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = _Answer(
                digest, asyncio.create_task(answer()), self._clock_s()
            )
            known.response.add_done_callback(partial(self._settle, key))
        elif known.digest != digest:
            raise ExistsError(
                f"request_id {shown(request_id)}: something else was asked for under it before"
            )
        response: ResponseT = await asyncio.shield(known.response)
        return response

    def _settle(self, key: _Key, response: "asyncio.Task[Any]") -> None:
        """Keep an answer within the bounds; forget what failed."""
        if response.cancelled() or response.exception() is not None:
            del self._answers[key]
            return
        own = self._sizes_bytes.setdefault(key[0], {})
        own[key] = response.result().ByteSize() + _BYTES_BESIDE
        if len(own) > MOST_OF_TENANT:
            self._forget(next(iter(own)))
        sums_bytes = {x: sum(sizes.values()) for x, sizes in self._sizes_bytes.items()}
        while sum(sums_bytes.values()) > self._max_bytes:
            largest = max(sums_bytes, key=sums_bytes.__getitem__)
            sums_bytes[largest] -= self._forget(next(iter(self._sizes_bytes[largest])))

    def _forget_old(self) -> None:
        """Forget the answers past their time, but for those that are still made."""
        before_s = self._clock_s() - KEPT_S
        old = list(takewhile(lambda x: x[1].received_s <= before_s, self._answers.items()))
        for key, _ in old:
            if key in self._sizes_bytes.get(key[0], ()):
                self._forget(key)

    def _forget(self, key: _Key) -> int:
        """Forget an answer. Returns the bytes that it took."""
        del self._answers[key]
        own = self._sizes_bytes[key[0]]
        forgotten_bytes = own.pop(key)
        if not own:
            del self._sizes_bytes[key[0]]
        return forgotten_bytes


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
        subject = {"trace_id": trace_id(id_in(request.name, "traces"), "name")}
        return await self._evaluated(
            pb.EvaluateTraceResponse, request, call, overrides(request), subject
        )

    @needs("write")
    async def evaluate_session(
        self, request: pb.EvaluateSessionRequest, call: Call
    ) -> pb.EvaluateSessionResponse:
        """Evaluate a stored session again, now."""
        subject = {"session_id": id_in(request.name, "sessions")}
        changed = overrides(request, request.signal_weights)
        return await self._evaluated(pb.EvaluateSessionResponse, request, call, changed, subject)

    async def _evaluated(
        self,
        kind: type[ResponseT],
        request: Any,
        call: Call,
        changed: Overrides,
        subject: Mapping[str, str],
    ) -> ResponseT:
        async def answer() -> ResponseT:
            found = await self._backend.evaluate(tenant=call.tenant, overrides=changed, **subject)
            if not found:
                await require_subject(self._backend, tenant=call.tenant, **subject)
            return kind(scores=map(encode_score, found))

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


MAX_TRACES: Final = 1000
MAX_TRACE_IDS: Final = 10_000  # as many as `assemble.max_parts` lets one turn have, unless set
_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}|")
_MAX_NS: Final = 2**63 - 1


def imported(messages: Sequence[agent_trace_pb.AgentTrace]) -> list[AgentTrace]:
    """The traces of a request.

    Raises FieldError that names the field of the first that cannot be stored.
    """
    if len(messages) > MAX_TRACES:
        raise FieldError(
            "traces", f"has {len(messages)} traces; at most {MAX_TRACES} are taken at once"
        )
    return [_imported(message, f"traces[{number}]") for number, message in enumerate(messages)]


def _imported(message: agent_trace_pb.AgentTrace, where: str) -> AgentTrace:
    for field, problem in _problems(message):
        raise FieldError(f"{where}.{field}", problem)
    message.ClearField("session_key")  # which sessions are one is for the server to say
    try:
        return decode_trace(message)
    except (ValueError, RecursionError) as error:
        raise FieldError(where, f"a field that is to contain JSON contains none: {error}") from None


def _problems(message: agent_trace_pb.AgentTrace) -> Iterator[tuple[str, str]]:
    """What is wrong with a trace, by field."""
    yield from _wrong_ids(message)
    if not message.started_ns <= message.ended_ns <= _MAX_NS:
        yield "ended_ns", "is before started_ns, or past the year 2262"
    if max(message.target.start_ns, message.target.end_ns) > _MAX_NS:
        yield "target.end_ns", "is past the year 2262"
    if json_object(message.target.resource_json) is None:
        yield "target.resource_json", "is no JSON object"


def _wrong_ids(message: agent_trace_pb.AgentTrace) -> Iterator[tuple[str, str]]:
    if not 1 <= len(message.trace_ids) <= MAX_TRACE_IDS:
        count = len(message.trace_ids)
        yield (
            "trace_ids",
            f"has {count} ids; give the 1 to {MAX_TRACE_IDS} traces that the turn is in",
        )
    for id_ in (*message.trace_ids, message.target.trace_id):
        if not TRACE_ID.fullmatch(id_):
            give = "give 32 lower-case hex digits, in target.trace_id too"
            yield "trace_ids", f"{shown(id_)} is no id of a trace: {give}"
    for id_ in (message.opening_span_id, message.target.span_id, message.root_span_id):
        if not _SPAN_ID.fullmatch(id_):
            give = "give 16 lower-case hex digits, in target.span_id too"
            yield "opening_span_id", f"{shown(id_)} is no id of a span: {give}"


class ViewService(Servicer):
    """See view_service.proto."""

    service = view_pb.DESCRIPTOR.services_by_name["ViewService"]

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @needs("read")
    async def get_viewer(self, _request: view_pb.GetViewerRequest, call: Call) -> view_pb.Viewer:
        """Who asks, and what the server is set up for."""
        return view_pb.Viewer(
            version=version("spanscore"),
            scopes=sorted(SCOPES if "admin" in call.scopes else call.scopes),
            tenant=call.tenant,
            has_judge=self._backend.has_judge,
            trace_url=self._backend.trace_url,
        )

    @needs("read")
    async def get_trace_view(
        self, request: view_pb.GetTraceViewRequest, call: Call
    ) -> view_pb.TraceView:
        """One agent trace with what its scores rest on."""
        wanted = trace_id(id_in(request.name, "traces"), "name")
        run = id_in(request.run, "runs", "run") if request.run else ""
        trace = await find_trace(self._backend, wanted, tenant=call.tenant)

        def view() -> view_pb.TraceView:
            from spanscore.report.details import trace_view  # noqa: PLC0415 - a server without viewers needs none of it

            scores = self._backend.evaluations(trace_id=trace.id, run=run, tenant=call.tenant)
            shown = trace_view(trace, scores)
            if not run:
                shown["unscored"] = self._backend.why_unscored(trace, scores)
            return view_pb.TraceView(
                name=name_of("traces", trace.id), view_json=text_of(dumps(shown))
            )

        return await in_thread(view)

    @needs("read")
    async def get_session_view(
        self, request: view_pb.GetSessionViewRequest, call: Call
    ) -> view_pb.SessionView:
        """One session with a row for each of its traces."""
        record = await find_session(
            self._backend, id_in(request.name, "sessions"), tenant=call.tenant
        )

        def view() -> view_pb.SessionView:
            from spanscore.report.details import session_view  # noqa: PLC0415 - as above

            session = record.session
            scores = self._backend.evaluations(session_id=session.id, tenant=call.tenant)
            found = session_view(session.id, session.traces, scores)
            return view_pb.SessionView(
                name=name_of("sessions", session.id), view_json=text_of(dumps(found))
            )

        return await in_thread(view)
