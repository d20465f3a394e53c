"""Clients of a running spanscore, with retries and errors."""

import random
import time
import uuid
from collections import namedtuple
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import grpc
from google.protobuf.descriptor_pb2 import MethodOptions

from spanscore import retry
from spanscore.api import keywords
from spanscore.api.v1 import (
    analytics_service_pb2,
    annotation_service_pb2,
    clients,
    monitor_service_pb2,
    run_service_pb2,
    score_service_pb2,
    trace_service_pb2,
)
from spanscore.api.v1.annotation_service_pb2_grpc import AnnotationServiceStub
from spanscore.api.v1.clients import (
    Analytics,
    AsyncAnalytics,
    AsyncMonitors,
    AsyncRuns,
    AsyncSessions,
    AsyncTraces,
    Monitors,
    Runs,
    Sessions,
    Traces,
)
from spanscore.api.v1.score_pb2 import Score
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
from spanscore.rpc import (
    CHANNEL_OPTIONS,
    STATUS_TRAILER,
    TENANT_HEADER,
    BadRequest,
    authorization,
    detail_of,
    read_status,
    retry_after_s,
    tenant_named,
)

if TYPE_CHECKING:
    from spanscore.api.v1.annotation_service_pb2_grpc import AnnotationServiceAsyncStub

_PROTOS: Final = (
    analytics_service_pb2,
    annotation_service_pb2,
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


RequestT = TypeVar("RequestT")


_BATCH: Final = 1000
"""BatchCreateScores takes no more."""


def _batches(scores: Iterable[clients.CreateScoreFields]) -> Iterator[Any]:
    rest = iter(scores)
    while some := list(islice(rest, _BATCH)):
        created = (keywords.request(score_service_pb2.CreateScoreRequest, x) for x in some)
        yield score_service_pb2.BatchCreateScoresRequest(requests=created)


class Scores(clients.Scores):
    """Scores that were measured, and that others gave."""

    def create_many(self, scores: Iterable[clients.CreateScoreFields]) -> Sequence[Score]:
        """Keep many scores, of each thousand all or none, in their order."""
        return [x for some in _batches(scores) for x in self.BatchCreateScores(some).scores]


class AsyncScores(clients.AsyncScores):
    """`Scores` for asyncio."""

    async def create_many(self, scores: Iterable[clients.CreateScoreFields]) -> Sequence[Score]:
        """As `Scores.create_many`."""
        return [x for some in _batches(scores) for x in (await self.BatchCreateScores(some)).scores]


class Client:
    """Asks a running spanscore, over gRPC. A context manager; any thread may use it.

    Each service is the stub that is generated from its proto:
    `client.traces.GetTrace(GetTraceRequest(name=…))`; the messages are in `spanscore.api.v1`. What
    is UNAVAILABLE is asked again, in five tries, where that does no harm: a method that changes
    nothing, or one whose request has a `request_id`, which is set where it is empty.

    What is wrong is raised as `spanscore.errors`: NotFoundError, FieldError and InputError (also
    for a token that is refused), ExistsError, StateError, ConflictError, RetryableError, else
    SpanscoreError.

    Runs, scores, traces, sessions, monitors and analytics have methods with keywords too:
    `client.runs.create(where="label.faithfulness = fail", max_usd=5)`,
    `client.scores.list(filter="value < 0.5")`. A stream that breaks off since the server restarts
    goes on by itself for about a minute.
    """

    traces: Traces
    """Stored agent traces."""
    sessions: Sessions
    """Stored sessions."""
    scores: Scores
    """What was measured, and what others gave."""
    runs: Runs
    """Evaluation runs."""
    annotation: AnnotationServiceStub
    """What people should label next."""
    monitors: Monitors
    """Monitors and their ticks."""
    analytics: Analytics
    """Figures over the stored scores."""

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
        """`endpoint` is the server's `api.endpoint`; `ca_file`, in PEM, asks for TLS and says whom
        it trusts.

        `timeout_s` bounds each call. Nothing is connected before the first one. Raises OSError
        where `ca_file` cannot be read, InputError where `token` is more than one word of ASCII, or
        there can be no such `tenant`.

        `tenant` is sent in the header that the server's `tenancy.header` names; a tenant's own
        token needs none.
        """
        channel = (
            grpc.insecure_channel(endpoint, CHANNEL_OPTIONS)
            if ca_file is None
            else _secure(grpc, endpoint, ca_file)
        )
        self._channel = channel
        self._asking = _Asking(_metadata(token, tenant, tenant_header), timeout_s, sleep)
        asked = grpc.intercept_channel(channel, self._asking, _Streaming(self._asking))
        self.traces, self.sessions, self.scores = Traces(asked), Sessions(asked), Scores(asked)
        self.runs, self.monitors, self.analytics = Runs(asked), Monitors(asked), Analytics(asked)
        self.annotation = AnnotationServiceStub(asked)

    def pages(self, method: Callable[[RequestT], Any], request: RequestT) -> Iterator[Any]:
        """The items of a list, page after page: `client.pages(client.scores.ListScores,
        ListScoresRequest())`.
        """
        return keywords.pages(method, request)

    def close(self) -> None:
        """Close the connection. May be called again."""
        self._asking.is_closed = True
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


class AsyncClient:
    """`Client` for asyncio: the same services, whose methods are awaited.

    An asynchronous context manager.
    """

    traces: AsyncTraces
    """Stored agent traces."""
    sessions: AsyncSessions
    """Stored sessions."""
    scores: AsyncScores
    """What was measured, and what others gave."""
    runs: AsyncRuns
    """Evaluation runs."""
    annotation: "AnnotationServiceAsyncStub"
    """What people should label next."""
    monitors: AsyncMonitors
    """Monitors and their ticks."""
    analytics: AsyncAnalytics
    """Figures over the stored scores."""

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

        self._asking = asking = _Asking(
            _metadata(token, tenant, tenant_header), timeout_s, sleep or asyncio.sleep
        )
        how = {
            "options": CHANNEL_OPTIONS,
            "interceptors": [_AsyncAsking(asking), _AsyncStreaming(asking)],
        }
        if ca_file is None:
            self._channel = grpc.aio.insecure_channel(endpoint, **how)
        else:
            trusted = grpc.ssl_channel_credentials(Path(ca_file).read_bytes())
            self._channel = grpc.aio.secure_channel(endpoint, trusted, **how)
        channel: Any = self._channel
        self.traces, self.sessions, self.scores = (
            AsyncTraces(channel),
            AsyncSessions(channel),
            AsyncScores(channel),
        )
        self.runs, self.monitors, self.analytics = (
            AsyncRuns(channel),
            AsyncMonitors(channel),
            AsyncAnalytics(channel),
        )
        labelling: Any = AnnotationServiceStub(channel)
        self.annotation = labelling

    def pages(self, method: Callable[[RequestT], Any], request: RequestT) -> AsyncIterator[Any]:
        """The items of a list, page after page."""
        return keywords.pages_async(method, request)

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
    return module.secure_channel(
        endpoint, grpc.ssl_channel_credentials(Path(ca_file).read_bytes()), CHANNEL_OPTIONS
    )


class _Details(
    namedtuple(  # noqa: PYI024
        "_Details",
        ("method", "timeout", "metadata", "credentials", "wait_for_ready", "compression"),
    ),
    grpc.ClientCallDetails,  # type: ignore[misc]  # grpc has no types
):
    """How a call is made, as grpc's interceptors pass it on."""


class _Asking(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """Adds token, time-out and request id to a call, asks again what may pass, and raises what is
    wrong.
    """

    def __init__(
        self, metadata: Sequence[tuple[str, str]], timeout_s: float, sleep: Callable[[float], Any]
    ) -> None:
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
        return _Details(
            given.method, timeout_s, metadata, given.credentials, given.wait_for_ready, None
        )

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        method, asked = _prepared(details.method, request)
        breaks = Breaks(retries_of(method, asked))
        while True:
            call = continuation(self.details(details), asked)
            if call.code() is grpc.StatusCode.OK:
                return call
            self.sleep(breaks.wait_s(call.code(), call.details(), call.trailing_metadata()))


class _Streaming(grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]  # grpc has no types
    def __init__(self, asking: _Asking) -> None:
        self._asking = asking

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return _Stream(
            lambda: continuation(self._asking.details(details, is_stream=True), request),
            self._asking,
        )


class _Stream:
    """The responses of a stream, which is asked for again where it breaks off and that may pass."""

    def __init__(self, ask: Callable[[], Any], asking: _Asking) -> None:
        self._ask, self._asking = ask, asking
        self._call = ask()
        self._breaks = Breaks()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        while True:
            try:
                response = next(self._call)
            except grpc.RpcError as error:
                call: Any = error
                self._asking.sleep(
                    self._breaks.wait_s(call.code(), call.details(), call.trailing_metadata())
                )
                self._call = self._ask()
            else:
                if self._breaks.is_new(response):
                    return response

    def cancel(self) -> None:
        """End the stream."""
        self._call.cancel()


class _AsyncAsking(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    def __init__(self, asking: _Asking) -> None:
        self._asking = asking

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        method, asked = _prepared(_text(details.method), request)
        breaks = Breaks(retries_of(method, asked))
        while True:
            call = await continuation(_aio_details(self._asking.details(details)), asked)
            code = await call.code()
            if code is grpc.StatusCode.OK:
                return call
            trailers = await call.trailing_metadata()
            await self._asking.sleep(breaks.wait_s(code, await call.details(), trailers))


class _AsyncStreaming(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]  # grpc has no types
    def __init__(self, asking: _Asking) -> None:
        self._asking = asking

    async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        async def ask() -> Any:
            return await continuation(
                _aio_details(self._asking.details(details, is_stream=True)), request
            )

        return self._responses(await ask(), ask)

    async def _responses(self, call: Any, ask: Callable[[], Awaitable[Any]]) -> AsyncIterator[Any]:
        """As `_Stream`."""
        breaks = Breaks()
        while True:
            try:
                async for response in call:
                    if breaks.is_new(response):
                        yield response
            except grpc.aio.AioRpcError as error:
                await self._asking.sleep(
                    breaks.wait_s(error.code(), error.details(), error.trailing_metadata())
                )
                call = await ask()
            else:
                return


def _aio_details(given: Any) -> Any:
    metadata = grpc.aio.Metadata(*given.metadata)
    return grpc.aio.ClientCallDetails(
        given.method, given.timeout, metadata, given.credentials, given.wait_for_ready
    )


def _text(method: str | bytes) -> str:
    return method.decode() if isinstance(method, bytes) else method


def _prepared(path: str, request: Any) -> tuple[Any, Any]:
    """The method's descriptor, and the request with a request id where it has the field for one."""
    field = request.DESCRIPTOR.fields_by_name.get("request_id")
    if field is None or request.request_id:
        return _METHODS[path], request
    prepared = keywords.copied(request)
    prepared.request_id = uuid.uuid4().hex
    return _METHODS[path], prepared


_TRIES: Final = 5
_STREAM_TRIES: Final = 9
_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 30.0
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


def retries_of(method: Any, request: Any) -> int:
    """How often a request may be sent again."""
    is_safe = method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS
    return _TRIES - 1 if is_safe or "request_id" in request.DESCRIPTOR.fields_by_name else 0


class Breaks:
    """How often a call has failed, of a stream since it gave something, and what it gave last."""

    def __init__(self, most: int = _TRIES - 1) -> None:
        """A server that has never answered is asked at most `most` times again."""
        self._count = 0
        self._most = most
        self._last: Any = None

    def is_new(self, response: Any) -> bool:
        """Whether a response is not only what a stream that was asked for again begins with."""
        is_again, self._count, self._most = self._count > 0, 0, _STREAM_TRIES
        is_new, self._last = not is_again or response != self._last, response
        return is_new

    def wait_s(self, code: grpc.StatusCode, message: str | None, trailers: Any) -> float:
        """How long to wait before the server is asked again: as long as it says, else longer and
        longer.

        Raises SpanscoreError where that is of no use.
        """
        status = status_of(trailers)
        if code is not grpc.StatusCode.UNAVAILABLE or self._count >= self._most:
            raise error_of(code, message, status)
        self._count += 1
        asked_s = retry_after_s(status)
        usual_s = retry.backoff_s(self._count, _FIRST_WAIT_S, random.random())  # noqa: S311
        return min(usual_s if asked_s is None else asked_s, _LONGEST_WAIT_S)


def status_of(trailers: Any) -> Any | None:
    """The status, with its details, that the trailers of a call contain."""
    found = next((value for key, value in trailers or () if key == STATUS_TRAILER), None)
    return None if found is None else read_status(found)


def error_of(code: grpc.StatusCode, message: str | None, status: Any | None) -> SpanscoreError:
    """What is raised of a call that ended so."""
    text = message or code.name
    bad = detail_of(status, BadRequest)
    if bad is not None and bad.field_violations:
        first, *others = (FieldError(x.field, x.description) for x in bad.field_violations)
        return FieldError(first.field, first.problem, others)
    return _ERRORS.get(code, SpanscoreError)(text)
