"""Clients of a running spanscore: the stubs that are generated from proto/, with tokens, retries, pages and errors."""

import random
import time
import uuid
from collections import namedtuple
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from spanscore.api.v1 import (
    analytics_service_pb2,
    annotation_service_pb2,
    control_service_pb2,
    monitor_service_pb2,
    run_service_pb2,
    score_service_pb2,
    trace_service_pb2,
)
from spanscore.api.v1.analytics_service_pb2_grpc import AnalyticsServiceStub
from spanscore.api.v1.annotation_service_pb2_grpc import AnnotationServiceStub
from spanscore.api.v1.control_service_pb2_grpc import ControlServiceStub
from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceStub
from spanscore.api.v1.run_service_pb2_grpc import RunServiceStub
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub
from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceStub
from spanscore.errors import (
    ConflictError,
    ExistsError,
    FieldError,
    InputError,
    NotFoundError,
    RetryableError,
    SpanscoreError,
    StateError,
)
from spanscore.rpc.bearer import TENANT_HEADER, authorization, tenant_named
from spanscore.rpc.status import Status, read_status

if TYPE_CHECKING:
    from spanscore.api.v1.analytics_service_pb2_grpc import AnalyticsServiceAsyncStub
    from spanscore.api.v1.annotation_service_pb2_grpc import AnnotationServiceAsyncStub
    from spanscore.api.v1.control_service_pb2_grpc import ControlServiceAsyncStub
    from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceAsyncStub
    from spanscore.api.v1.run_service_pb2_grpc import RunServiceAsyncStub
    from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceAsyncStub
    from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceAsyncStub

_PROTOS: Final = (
    analytics_service_pb2,
    annotation_service_pb2,
    control_service_pb2,
    monitor_service_pb2,
    run_service_pb2,
    score_service_pb2,
    trace_service_pb2,
)
_METHODS: Final = {
    f"/{service.full_name}/{method.name}": method
    for proto in _PROTOS
    for service in proto.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
_TRIES: Final = 5
_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 30.0
_MAX_ANSWER_BYTES: Final = 256 * 2**20
_OPTIONS: Final = (("grpc.max_receive_message_length", _MAX_ANSWER_BYTES),)
_ERRORS: Final[dict[grpc.StatusCode, type[SpanscoreError]]] = {
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: ExistsError,
    grpc.StatusCode.FAILED_PRECONDITION: StateError,
    grpc.StatusCode.ABORTED: ConflictError,
    grpc.StatusCode.INVALID_ARGUMENT: InputError,
    grpc.StatusCode.UNAUTHENTICATED: InputError,
    grpc.StatusCode.PERMISSION_DENIED: InputError,
    grpc.StatusCode.UNAVAILABLE: RetryableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: RetryableError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: RetryableError,
}

RequestT = TypeVar("RequestT")


class Client:
    """Asks a running spanscore, over gRPC. A context manager; any thread may use it.

    Each service is the stub that is generated from its proto: `client.traces.GetTrace(GetTraceRequest(name=…))`; the
    messages are in `spanscore.api.v1`. What is UNAVAILABLE is asked again, in five tries, where that does no harm: a
    method that changes nothing, or one whose request has a `request_id`, which is set where it is empty.

    What is wrong is raised as `spanscore.errors`: NotFoundError, FieldError and InputError (also for a token that is
    refused), ExistsError, StateError, ConflictError, RetryableError, else SpanscoreError. A stream raises
    `grpc.RpcError`.
    """

    traces: TraceServiceStub
    """Stored agent traces and sessions."""
    scores: ScoreServiceStub
    """What was measured, and what others gave."""
    runs: RunServiceStub
    """Evaluation runs."""
    annotation: AnnotationServiceStub
    """What people should label next."""
    monitors: MonitorServiceStub
    """Monitors and their ticks."""
    analytics: AnalyticsServiceStub
    """Figures over the stored scores."""
    control: ControlServiceStub
    """The control service's five methods."""

    def __init__(
        self,
        endpoint: str = "127.0.0.1:4329",
        *,
        token: str | None = None,
        tenant: str | None = None,
        tenant_header: str = TENANT_HEADER,
        ca_file: str | Path | None = None,
        timeout_s: float = 300.0,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        """`endpoint` is the server's `api.endpoint`; `ca_file`, in PEM, asks for TLS and says whom it trusts.

        `timeout_s` bounds each call. Nothing is connected before the first one. Raises OSError where `ca_file` cannot
        be read, InputError where `token` is more than one word of ASCII, or there can be no such `tenant`.

        `tenant` is sent in the header that the server's `tenancy.header` names; a tenant's own token needs none.
        """
        channel = grpc.insecure_channel(endpoint, _OPTIONS) if ca_file is None else _secure(grpc, endpoint, ca_file)
        self._channel = channel
        self._asking = _Asking(_metadata(token, tenant, tenant_header), timeout_s, sleep)
        asked = grpc.intercept_channel(channel, self._asking, _Streaming(self._asking))
        self.traces, self.scores = TraceServiceStub(asked), ScoreServiceStub(asked)
        self.runs, self.control = RunServiceStub(asked), ControlServiceStub(asked)
        self.monitors, self.annotation = MonitorServiceStub(asked), AnnotationServiceStub(asked)
        self.analytics = AnalyticsServiceStub(asked)

    def pages(self, method: Callable[[RequestT], Any], request: RequestT) -> Iterator[Any]:
        """The items of a list, page after page: `client.pages(client.scores.ListScores, ListScoresRequest())`."""
        asked = _copied(request)
        while True:
            answer = method(asked)
            yield from getattr(answer, _items_of(answer))
            if not answer.next_page_token:
                return
            asked.page_token = answer.next_page_token

    def close(self) -> None:
        """Close the connection. May be called again."""
        self._asking.is_closed = True
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


class AsyncClient:
    """`Client` for asyncio: the same services, whose methods are awaited. An asynchronous context manager."""

    traces: "TraceServiceAsyncStub"
    """Stored agent traces and sessions."""
    scores: "ScoreServiceAsyncStub"
    """What was measured, and what others gave."""
    runs: "RunServiceAsyncStub"
    """Evaluation runs."""
    annotation: "AnnotationServiceAsyncStub"
    """What people should label next."""
    monitors: "MonitorServiceAsyncStub"
    """Monitors and their ticks."""
    analytics: "AnalyticsServiceAsyncStub"
    """Figures over the stored scores."""
    control: "ControlServiceAsyncStub"
    """The control service's five methods."""

    def __init__(
        self,
        endpoint: str = "127.0.0.1:4329",
        *,
        token: str | None = None,
        tenant: str | None = None,
        tenant_header: str = TENANT_HEADER,
        ca_file: str | Path | None = None,
        timeout_s: float = 300.0,
        sleep: Callable[[float], Awaitable[Any]] | None = None,
    ) -> None:
        """As of `Client`; in a running event loop."""
        import asyncio  # noqa: PLC0415 - the other client needs none

        self._asking = asking = _Asking(_metadata(token, tenant, tenant_header), timeout_s, sleep or asyncio.sleep)
        how = {"options": _OPTIONS, "interceptors": [_AsyncAsking(asking), _AsyncStreaming(asking)]}
        if ca_file is None:
            self._channel = grpc.aio.insecure_channel(endpoint, **how)
        else:
            trusted = grpc.ssl_channel_credentials(Path(ca_file).read_bytes())
            self._channel = grpc.aio.secure_channel(endpoint, trusted, **how)
        channel: Any = self._channel
        stubs: Any = (TraceServiceStub(channel), ScoreServiceStub(channel))
        self.traces, self.scores = stubs
        more: Any = (RunServiceStub(channel), ControlServiceStub(channel), MonitorServiceStub(channel))
        self.runs, self.control, self.monitors = more
        labelling: Any = AnnotationServiceStub(channel)
        self.annotation = labelling
        analytics: Any = AnalyticsServiceStub(channel)
        self.analytics = analytics

    async def pages(self, method: Callable[[RequestT], Any], request: RequestT) -> AsyncIterator[Any]:
        """The items of a list, page after page."""
        asked = _copied(request)
        while True:
            answer = await method(asked)
            for item in getattr(answer, _items_of(answer)):
                yield item
            if not answer.next_page_token:
                return
            asked.page_token = answer.next_page_token

    async def close(self) -> None:
        """Close the connection. May be called again."""
        self._asking.is_closed = True
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()


def _metadata(token: str | None, tenant: str | None, header: str) -> list[tuple[str, str]]:
    """Who asks, as each call says it. Raises InputError."""
    found = [authorization(token, "token")] if token else []
    return found if tenant is None else [*found, tenant_named(tenant, "tenant", header)]


def _secure(module: Any, endpoint: str, ca_file: str | Path) -> Any:
    return module.secure_channel(endpoint, grpc.ssl_channel_credentials(Path(ca_file).read_bytes()), _OPTIONS)


def _copied(request: Any) -> Any:
    copied = type(request)()
    copied.CopyFrom(request)
    return copied


def _items_of(answer: Any) -> str:
    """The name of the one field of messages that the answer of a list has."""
    return str(next(x.name for x in answer.DESCRIPTOR.fields if x.type == FieldDescriptor.TYPE_MESSAGE))


class _Details(
    namedtuple("_Details", ("method", "timeout", "metadata", "credentials", "wait_for_ready", "compression")),  # noqa: PYI024
    grpc.ClientCallDetails,  # type: ignore[misc]  # grpc has no types
):
    """How a call is made, as grpc's interceptors pass it on."""


class _Asking(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """Adds token, time-out and request id to a call, asks again what may pass, and raises what is wrong."""

    def __init__(self, metadata: Sequence[tuple[str, str]], timeout_s: float, sleep: Callable[[float], Any]) -> None:
        self._metadata = metadata
        self.is_closed = False
        self._timeout_s = timeout_s
        self.sleep = sleep

    def details(self, given: Any, *, is_stream: bool = False) -> Any:
        """How a call is made. Raises InputError where the client is closed."""
        if self.is_closed:
            raise InputError("this client is closed: make another one")
        timeout_s = given.timeout if given.timeout is not None or is_stream else self._timeout_s
        metadata = (*(given.metadata or ()), *self._metadata)
        return _Details(given.method, timeout_s, metadata, given.credentials, given.wait_for_ready, None)

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        method, asked = _prepared(details.method, request)
        for wait_s in _waits(method, asked):
            call = continuation(self.details(details), asked)
            if call.code() is grpc.StatusCode.OK:
                return call
            status = _status(call.trailing_metadata())
            if wait_s is None or call.code() is not grpc.StatusCode.UNAVAILABLE:
                raise _error(call.code(), call.details(), status)
            self.sleep(_wait_s(wait_s, status))
        raise AssertionError("the last try has no wait after it")


class _Streaming(grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]  # grpc has no types
    def __init__(self, asking: _Asking) -> None:
        self._asking = asking

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._asking.details(details, is_stream=True), request)


class _AsyncAsking(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    def __init__(self, asking: _Asking) -> None:
        self._asking = asking

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        method, asked = _prepared(_text(details.method), request)
        for wait_s in _waits(method, asked):
            call = await continuation(_aio_details(self._asking.details(details)), asked)
            code = await call.code()
            if code is grpc.StatusCode.OK:
                return call
            status = _status(await call.trailing_metadata())
            if wait_s is None or code is not grpc.StatusCode.UNAVAILABLE:
                raise _error(code, await call.details(), status)
            await self._asking.sleep(_wait_s(wait_s, status))
        raise AssertionError("the last try has no wait after it")


class _AsyncStreaming(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]  # grpc has no types
    def __init__(self, asking: _Asking) -> None:
        self._asking = asking

    async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(_aio_details(self._asking.details(details, is_stream=True)), request)


def _aio_details(given: Any) -> Any:
    metadata = grpc.aio.Metadata(*given.metadata)
    return grpc.aio.ClientCallDetails(given.method, given.timeout, metadata, given.credentials, given.wait_for_ready)


def _text(method: str | bytes) -> str:
    return method.decode() if isinstance(method, bytes) else method


def _prepared(path: str, request: Any) -> tuple[Any, Any]:
    """The method's descriptor, and the request with a request id where it has the field for one."""
    field = request.DESCRIPTOR.fields_by_name.get("request_id")
    if field is None or request.request_id:
        return _METHODS[path], request
    asked = _copied(request)
    asked.request_id = uuid.uuid4().hex
    return _METHODS[path], asked


def _waits(method: Any, request: Any) -> Iterator[float | None]:
    """How long to wait after each try before the next; None after the last."""
    is_safe = method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS
    if is_safe or "request_id" in request.DESCRIPTOR.fields_by_name:
        for number in range(_TRIES - 1):
            yield _FIRST_WAIT_S * 2**number
    yield None


def _wait_s(usual_s: float, status: Status | None) -> float:
    """As long as the server asks for, else the usual time, a little more or less."""
    asked_s = status.retry_after_s if status is not None else None
    return min(asked_s if asked_s is not None else usual_s * random.uniform(0.5, 1.5), _LONGEST_WAIT_S)  # noqa: S311


def _status(trailers: Any) -> Status | None:
    found = next((value for key, value in trailers or () if key == "grpc-status-details-bin"), None)
    return None if found is None else read_status(found)


def _error(code: grpc.StatusCode, message: str | None, status: Status | None) -> SpanscoreError:
    text = message or code.name
    if status is not None and status.violations:
        first, *others = (FieldError(x.field, x.description) for x in status.violations)
        return FieldError(first.field, first.problem, others)
    return _ERRORS.get(code, SpanscoreError)(text)
