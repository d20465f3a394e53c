"""Clients of a running spanscore, with retries and errors."""

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import MethodOptions

from spanscore import retry
from spanscore.api import keywords
from spanscore.api.v1 import clients, score_service_pb2
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
        self._channel = channel = _Channel(
            _opened(grpc, endpoint, ca_file), token, tenant, tenant_header, timeout_s, sleep
        )
        self.traces = Traces(channel)
        self.sessions = Sessions(channel)
        self.scores = Scores(channel)
        self.runs = Runs(channel)
        self.annotation = AnnotationServiceStub(channel)
        self.monitors = Monitors(channel)
        self.analytics = Analytics(channel)

    def pages(self, method: Callable[[RequestT], Any], request: RequestT) -> Iterator[Any]:
        """The items of a list, page after page: `client.pages(client.scores.ListScores,
        ListScoresRequest())`.
        """
        return keywords.pages(method, request)

    def close(self) -> None:
        """Close the connection. May be called again."""
        self._channel.is_closed = True
        self._channel.opened.close()

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
        opened = _opened(grpc.aio, endpoint, ca_file)
        self._channel = channel = _AsyncChannel(
            opened, token, tenant, tenant_header, timeout_s, sleep or asyncio.sleep
        )
        self.traces = AsyncTraces(channel)
        self.sessions = AsyncSessions(channel)
        self.scores = AsyncScores(channel)
        self.runs = AsyncRuns(channel)
        annotation: Any = AnnotationServiceStub(channel)
        self.annotation = annotation
        self.monitors = AsyncMonitors(channel)
        self.analytics = AsyncAnalytics(channel)

    def pages(self, method: Callable[[RequestT], Any], request: RequestT) -> AsyncIterator[Any]:
        """The items of a list, page after page."""
        return keywords.pages_async(method, request)

    async def close(self) -> None:
        """Close the connection. May be called again."""
        self._channel.is_closed = True
        await self._channel.opened.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()


def _opened(module: Any, endpoint: str, ca_file: str | Path | None) -> Any:
    if ca_file is None:
        return module.insecure_channel(endpoint, CHANNEL_OPTIONS)
    trusted = grpc.ssl_channel_credentials(Path(ca_file).read_bytes())
    return module.secure_channel(endpoint, trusted, CHANNEL_OPTIONS)


class _Channel:
    """Adds token, time-out and request id to calls, asks again what may pass, and raises what is
    wrong.
    """

    def __init__(
        self,
        opened: Any,
        token: str | None,
        tenant: str | None,
        tenant_header: str,
        timeout_s: float,
        sleep: Callable[[float], Any],
    ) -> None:
        """Raises InputError."""
        self.opened = opened
        self.is_closed = False
        self._metadata = (
            *([authorization(token, "token")] if token else ()),
            *([] if tenant is None else [tenant_named(tenant, "tenant", tenant_header)]),
        )
        self._timeout_s = timeout_s
        self.sleep = sleep

    def unary_unary(self, path: str, **kinds: Any) -> Any:
        """What calls a method, as a stub asks for it."""
        send = self.opened.unary_unary(path, **kinds)

        def call(request: Any, timeout: float | None = None, **how: Any) -> Any:
            request, breaks = _prepared(path, request)
            timeout_s = self._timeout_s if timeout is None else timeout
            while True:
                try:
                    return send(request, timeout=timeout_s, **self.given(how))
                except grpc.RpcError as error:
                    wait_s = breaks.wait_s(error)
                self.sleep(wait_s)

        return call

    def unary_stream(self, path: str, **kinds: Any) -> Any:
        """What calls a method that streams; its stream is asked for again where it breaks off."""
        send = self.opened.unary_stream(path, **kinds)

        def call(request: Any, timeout: float | None = None, **how: Any) -> Iterator[Any]:
            breaks = Breaks()
            while True:
                sent = send(request, timeout=timeout, **self.given(how))
                try:
                    yield from filter(breaks.is_new, sent)
                except grpc.RpcError as error:
                    wait_s = breaks.wait_s(error)
                else:
                    return
                finally:
                    sent.cancel()  # else the server goes on where the caller leaves the stream
                self.sleep(wait_s)

        return call

    def given(self, how: dict[str, Any]) -> dict[str, Any]:
        """How a call is made. Raises InputError where the client is closed."""
        if self.is_closed:
            raise InputError("this client is closed: make another one")
        return {**how, "metadata": (*(how.get("metadata") or ()), *self._metadata)}


class _AsyncChannel(_Channel):
    def unary_unary(self, path: str, **kinds: Any) -> Any:
        send = self.opened.unary_unary(path, **kinds)

        async def call(request: Any, *, timeout: float | None = None, **how: Any) -> Any:  # noqa: ASYNC109 - as gRPC has it
            request, breaks = _prepared(path, request)
            timeout_s = self._timeout_s if timeout is None else timeout
            while True:
                try:
                    return await send(request, timeout=timeout_s, **self.given(how))
                except grpc.RpcError as error:
                    wait_s = breaks.wait_s(error)
                await self.sleep(wait_s)

        return call

    def unary_stream(self, path: str, **kinds: Any) -> Any:
        send = self.opened.unary_stream(path, **kinds)

        async def call(request: Any, **how: Any) -> AsyncIterator[Any]:
            breaks = Breaks()
            while True:
                sent = send(request, **self.given(how))
                try:
                    async for response in sent:
                        if breaks.is_new(response):
                            yield response
                except grpc.RpcError as error:
                    wait_s = breaks.wait_s(error)
                else:
                    return
                finally:
                    sent.cancel()  # as above
                await self.sleep(wait_s)

        return call


def _prepared(path: str, request: Any) -> "tuple[Any, Breaks]":
    """A request, with a request id where it has the field for one, and how often it may be sent
    again.
    """
    has_id = "request_id" in request.DESCRIPTOR.fields_by_name
    if has_id and not request.request_id:
        request = keywords.copied(request)
        request.request_id = uuid.uuid4().hex
    name = path.lstrip("/").replace("/", ".")
    options = descriptor_pool.Default().FindMethodByName(name).GetOptions()
    is_safe = options.idempotency_level == MethodOptions.NO_SIDE_EFFECTS
    return request, Breaks(_TRIES - 1 if is_safe or has_id else 0)


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

    def wait_s(self, call: Any) -> float:
        """How long to wait before the server is asked again: as long as it says, else longer and
        longer.

        Raises SpanscoreError where that is of no use.
        """
        trailers = call.trailing_metadata() or ()
        found = next((value for key, value in trailers if key == STATUS_TRAILER), None)
        status = None if found is None else read_status(found)
        code = call.code()
        if code is not grpc.StatusCode.UNAVAILABLE or self._count >= self._most:
            raise _error_of(code, call.details(), status) from None
        self._count += 1
        asked_s = retry_after_s(status)
        usual_s = retry.backoff_s(self._count, _FIRST_WAIT_S, random.random())  # noqa: S311
        return min(usual_s if asked_s is None else asked_s, _LONGEST_WAIT_S)


def _error_of(code: grpc.StatusCode, message: str | None, status: Any | None) -> SpanscoreError:
    """What is raised of a call that ended so."""
    bad = detail_of(status, BadRequest)
    if bad is not None and bad.field_violations:
        first, *others = (FieldError(x.field, x.description) for x in bad.field_violations)
        return FieldError(first.field, first.problem, others)
    return _ERRORS.get(code, SpanscoreError)(message or code.name)
