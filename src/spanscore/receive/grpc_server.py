"""OTLP over gRPC, with health and reflection."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from spanscore.errors import ConfigError, PermanentError, RetryableError
from spanscore.model.span import TENANT, Headers, chosen_headers
from spanscore.otlp.signal import SIGNALS, WIRE, Signal
from spanscore.receive import status
from spanscore.receive.auth import BearerTokens, Tenancy, UnauthenticatedError
from spanscore.receive.config import Grpc
from spanscore.receive.exports import Arrival, Exports, Seldom
from spanscore.receive.tls import grpc_credentials
from spanscore.rpc import STATUS_TRAILER

_log = logging.getLogger(__name__)

_NS_PER_MS: Final = 10**6
_NS_PER_S: Final = 10**9
_QUICK_S: Final = 0.1
"""A message that takes longer is counted with all the bytes that it may have: gRPC does not say how
many have come.
"""

_HANDSHAKE_MS: Final = 10_000
_NOT_READ: Final = (
    "%s: gRPC has refused a message, which a collector drops for good: it is compressed with zstd"
    " or snappy (set the sender's `compression` to gzip or none), or larger than %s MiB"
    " (max_recv_msg_size_mib); else its sender gave up"
)


class _UnreadError(Exception):
    """gRPC has ended a call with an answer of its own, or its sender has, before there was a
    message.
    """


def channel_options(config: Grpc) -> list[tuple[str, int]]:
    """`config` as gRPC's own settings; sizes in bytes, times in milliseconds."""
    parameters, policy = config.keepalive.server_parameters, config.keepalive.enforcement_policy
    max_bytes = config.max_recv_msg_size_mib * 2**20
    optional = {
        "grpc.max_connection_idle_ms": parameters.max_connection_idle,
        "grpc.max_connection_age_ms": parameters.max_connection_age,
        "grpc.max_connection_age_grace_ms": parameters.max_connection_age_grace,
    }
    return [
        # else a second server on the same port starts, and takes half of the requests
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", max_bytes),
        ("grpc.max_allowed_incoming_connections", config.max_connections),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
        # else it takes six megabytes of a message before that is asked for
        ("grpc.http2.bdp_probe", 0),
        ("grpc.max_concurrent_streams", config.max_concurrent_streams),
        ("grpc.keepalive_time_ms", parameters.time // _NS_PER_MS),
        ("grpc.keepalive_timeout_ms", parameters.timeout // _NS_PER_MS),
        ("grpc.http2.min_ping_interval_without_data_ms", policy.min_time // _NS_PER_MS),
        ("grpc.keepalive_permit_without_calls", int(policy.permit_without_stream)),
        *(
            (name, duration_ns // _NS_PER_MS)
            for name, duration_ns in optional.items()
            if duration_ns is not None
        ),
    ]


class GrpcServer:
    """Serves the export services until it is stopped; `port` is the one it is bound to.

    Requests must show one of `tokens`, where there are any, and `tenancy` decides whose they are;
    health and reflection ask for neither. Of their `headers`, named in lower case, those are kept,
    if metadata are included.
    """

    def __init__(
        self,
        config: Grpc,
        exports: Exports,
        tenancy: Tenancy,
        tokens: BearerTokens | None = None,
        headers: frozenset[str] = frozenset(),
    ) -> None:
        self.port = 0
        self._config = config
        self._exports = exports
        self._tenancy = tenancy
        self._tokens = tokens
        self._included_headers = headers if config.include_metadata else frozenset()
        self._health = health.aio.HealthServicer()
        self._telling_unread = Seldom()
        self._begun: set[asyncio.Task[Any] | None] = set()
        # made in `start`, since it takes the loop that runs
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Bind and serve.

        Raises ConfigError where the endpoint cannot be bound or a certificate not be used.
        """
        server = grpc.aio.server(options=channel_options(self._config))
        names = [WIRE[signal].service for signal in SIGNALS]
        # Without a deserializer the handlers get the bytes as received, which is what the journal
        # keeps. As handlers of streams they ask for the message themselves; until then gRPC has
        # taken no more than 64 KiB of it.
        methods = {
            f"/{WIRE[signal].service}/Export": (
                signal,
                grpc.stream_unary_rpc_method_handler(self._handler(signal)),
            )
            for signal in SIGNALS
        }
        server.add_generic_rpc_handlers((_Begun(methods, self._begun, self._unread),))
        server.add_generic_rpc_handlers(reflection_handlers(names))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        try:
            self.port = self._bind(server)
        except RuntimeError:
            raise ConfigError(
                f"receive.grpc.endpoint: cannot listen on {self._config.endpoint}: is something"
                " else listening there, or is it no address of this machine? give one that is free"
            ) from None
        await self.show(serving=True)
        await server.start()
        self._server = server

    async def show(self, *, serving: bool) -> None:
        """Have health checks say, overall and for each service, whether requests are taken."""
        shown = health_pb2.HealthCheckResponse
        for name in ("", *(WIRE[signal].service for signal in SIGNALS)):
            await self._health.set(name, shown.SERVING if serving else shown.NOT_SERVING)

    async def refuse(self) -> None:
        """Tell health checks that nothing is taken any more."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace_s: float) -> None:
        """Close all connections, those with a request or a health watch under way after `grace_s`
        seconds.
        """
        if self._server is not None:
            await self._server.stop(grace_s)

    def _unread(self, signal: Signal) -> None:
        """Tell of a call that gRPC has ended before its message was handed over, with an answer of
        its own.
        """
        if self._telling_unread.is_due():
            _log.warning(_NOT_READ, signal, self._config.max_recv_msg_size_mib)
        self._exports.refused("grpc", signal, ValueError(), "unread")

    def _bind(self, server: grpc.aio.Server) -> int:
        endpoint, tls = self._config.endpoint, self._config.tls
        if tls is None:
            return int(server.add_insecure_port(endpoint))
        return int(server.add_secure_port(endpoint, grpc_credentials(tls, "receive.grpc.tls")))

    def _headers(self, context: Any) -> Headers:
        """The headers that are kept with a request, and whose it is.

        Raises UnauthenticatedError, RetryableError.
        """
        received = context.invocation_metadata() or ()
        token = (
            None if self._tokens is None else self._tokens.check(_values(received, "authorization"))
        )
        tenant = self._tenancy.of(token, _values(received, self._tenancy.header))
        included = (
            chosen_headers(received, self._included_headers) if self._included_headers else ()
        )
        return ((TENANT, tenant), *included) if tenant else included

    async def _export(self, signal: Signal, context: Any, headers: Headers) -> Message:
        deadline = asyncio.timeout(self._config.read_timeout / _NS_PER_S)
        with self._exports.arriving(deadline) as arrival:
            body = await self._message(signal, context, deadline, arrival)
            arrival.complete(len(body))
            with self._exports.working():
                return await self._exports.export(signal, body, transport="grpc", headers=headers)

    async def _message(
        self, signal: Signal, context: Any, deadline: asyncio.Timeout, arrival: Arrival
    ) -> bytes:
        max_bytes = self._config.max_recv_msg_size_mib * 2**20
        counting = asyncio.get_running_loop().call_later(_QUICK_S, _count_slow, arrival, max_bytes)
        try:
            async with deadline:
                body = await context.read()
        # also where gRPC itself refuses how the message is compressed
        except asyncio.CancelledError:
            self._unread(signal)
            raise
        finally:
            counting.cancel()
        if body is grpc.aio.EOF:
            self._unread(signal)
            raise _UnreadError("the call has no message that could be read")
        return bytes(body)

    def _handler(self, signal: Signal) -> Callable[[Any, Any], Awaitable[bytes]]:
        async def export(_messages: Any, context: Any) -> bytes:
            self._begun.discard(asyncio.current_task())
            try:
                answered = await self._export(signal, context, self._headers(context))
                return answered.SerializeToString()
            except UnauthenticatedError as error:
                self._exports.refused("grpc", signal, error)
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
                raise AssertionError("abort raises") from error
            except _UnreadError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
                raise AssertionError("abort raises") from error
            except (RetryableError, PermanentError) as error:
                fault: Exception = error
            except Exception as error:  # noqa: BLE001 - an escaped exception is UNKNOWN, on which collectors drop data
                _log.exception("%s: a gRPC request failed", signal)
                fault = error
            self._exports.refused("grpc", signal, fault)
            answer = status.answer(fault)
            details = ((STATUS_TRAILER, answer.status()),)
            await context.abort(answer.grpc_code, answer.message, trailing_metadata=details)
            raise AssertionError("abort raises")

        return export


def reflection_handlers(
    services: Iterable[str], *, load: Callable[[], object] = lambda: None
) -> list[Any]:
    """What a gRPC server is given, so that it answers reflection for health, itself and `services`,
    by full name.

    `load` is called first: the protos of the services must be imported by then.
    """
    servicer = reflection.aio.ReflectionServicer(
        (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    )

    async def info(requests: Any, context: Any) -> AsyncIterator[Any]:
        load()
        async for answer in servicer.ServerReflectionInfo(requests, context):
            yield answer

    handler = grpc.stream_stream_rpc_method_handler(
        info,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    # v1 has the messages of v1alpha, which alone is published for Python
    return [
        grpc.method_handlers_generic_handler(
            f"grpc.reflection.{version}.ServerReflection", {"ServerReflectionInfo": handler}
        )
        for version in ("v1", "v1alpha")
    ]


class _Begun(grpc.GenericRpcHandler):  # type: ignore[misc] # gRPC has no types
    """Finds the handler of an export, and notices where gRPC ends the call before the handler gets
    to see it.

    Each call is a task of its own, in which its handler is looked up first, then its message is
    read.
    """

    def __init__(
        self,
        methods: Mapping[str, tuple[Signal, Any]],
        begun: set[asyncio.Task[Any] | None],
        unread: Callable[[Signal], None],
    ) -> None:
        """A handler takes its task out of `begun` as soon as it runs; `unread` is called for calls
        where none did.
        """
        self._methods = methods
        self._begun = begun
        self._unread = unread

    def service(self, handler_call_details: Any) -> Any:
        """See `grpc.GenericRpcHandler`."""
        found = self._methods.get(handler_call_details.method)
        task = asyncio.current_task()
        if found is None or task is None:
            return None
        signal, handler = found
        self._begun.add(task)
        task.add_done_callback(lambda _: self._ended(task, signal))
        return handler

    def _ended(self, task: asyncio.Task[Any], signal: Signal) -> None:
        if task in self._begun:
            self._begun.discard(task)
            self._unread(signal)


def _count_slow(arrival: Arrival, max_bytes: int) -> None:
    """Count a message that is slow to arrive in full; where there is no room for that, it must come
    back later.
    """
    try:
        arrival.grow(max_bytes)
    except RetryableError:
        arrival.make_way()


def _values(received: Iterable[tuple[str, str]], name: str) -> list[str]:
    return [value for key, value in received if key == name]
