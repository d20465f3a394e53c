"""An ASGI application that speaks the Connect protocol.

connectrpc takes longer to import than the rest of the API, so this is imported when the first
method is called.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

from connectrpc.code import Code
from connectrpc.compat import google_protobuf_binary_codec, google_protobuf_json_codec
from connectrpc.errors import ConnectError, ErrorDetail
from connectrpc.method import IdempotencyLevel, MethodInfo, StreamType
from connectrpc.server import ConnectASGIApplication, Endpoint
from google.protobuf.message import Message
from protobuf.wkt import Any as AnyMessage, Struct

from spanscore.api.caller import Caller, Refusal, refusal_of
from spanscore.api.json_shapes import check_shape
from spanscore.api.servicer import Method
from spanscore.errors import InputError
from spanscore.rpc import as_json

_SMALL_BYTES: Final = 64 * 2**10
"""A body of JSON up to this size is read within a few milliseconds."""

_reading: Final = ThreadPoolExecutor(1, thread_name_prefix="large-request")


class ConnectServices(ConnectASGIApplication[None]):
    """The methods of all services, by path."""

    def __init__(self, found: Sequence[Method], caller: Caller, max_bytes: int) -> None:
        endpoints = {x.path: _endpoint(x, caller) for x in found}
        super().__init__(
            service=None,
            endpoints=lambda _service: endpoints,
            read_max_bytes=max_bytes,
            codecs=[google_protobuf_binary_codec(), _JsonCodec()],
        )

    @property
    def path(self) -> str:
        """Where the services are: their paths begin here."""
        return "/"


class _JsonCodec:
    """Takes what the OpenAPI document describes alone, and names what is wrong by its field."""

    def __init__(self) -> None:
        self._codec = google_protobuf_json_codec(ignore_unknown_fields=False)

    def name(self) -> str:
        """What content types call it."""
        return self._codec.name()

    def encode(self, message: Any) -> bytes:
        """The JSON of a message."""
        return self._codec.encode(message)

    def decode(self, data: Any, message_class: Any) -> Any:
        """The message that a request's body contains; of a large body, a `_LargeBody`.

        Raises ConnectError.
        """
        read = partial(self._message, bytes(data), message_class)
        return read() if len(data) <= _SMALL_BYTES else _LargeBody(read)

    def _message(self, data: bytes, message_class: Any) -> Any:
        try:
            check_shape(data, message_class.DESCRIPTOR)
            return self._codec.decode(data, message_class)
        except InputError as error:
            raise _connect_error(refusal_of("", error)) from error
        except Exception as error:
            wrong = InputError(f"the request cannot be read: {error}")
            raise _connect_error(refusal_of("", wrong)) from error


class _LargeBody(NamedTuple):
    """A body whose message takes long to read."""

    read: Callable[[], Any]


async def _whole(request: Any) -> Any:
    """The message of a request, of a large body read in a thread. Raises ConnectError.

    The thread is one for all, so that their memory is that of one.
    """
    if not isinstance(request, _LargeBody):
        return request
    return await asyncio.get_running_loop().run_in_executor(_reading, request.read)


def _endpoint(method: Method, caller: Caller) -> Any:
    service, _, name = method.path.lstrip("/").rpartition("/")
    info: MethodInfo[Any, Any] = MethodInfo(
        name=name,
        service_name=service,
        input=method.request_class,
        output=method.response_class,
        idempotency_level=IdempotencyLevel.UNKNOWN,  # else it could be a GET too
        stream_type=StreamType.SERVER_STREAM if method.is_stream else StreamType.UNARY,
    )

    async def answer(request: Any, context: Any) -> Message:
        try:
            whole = await _whole(request)
            return await caller.call(method, whole, context.request_headers.getall)
        except Refusal as refusal:
            raise _connect_error(refusal) from refusal

    async def stream(request: Any, context: Any) -> AsyncIterator[Message]:
        try:
            whole = await _whole(request)
            async for response in caller.stream(method, whole, context.request_headers.getall):
                yield response
        except Refusal as refusal:
            raise _connect_error(refusal) from refusal

    return (
        Endpoint.server_stream(info, stream) if method.is_stream else Endpoint.unary(info, answer)
    )


def _connect_error(refusal: Refusal) -> ConnectError:
    code = refusal.code.name.lower()
    return ConnectError(
        Code("canceled" if code == "cancelled" else code),
        refusal.status.message,
        [_Detail(x) for x in refusal.status.details],
    )


class _Detail(ErrorDetail):
    """A detail that people can read too: its fields stand as JSON beside the message, under
    `debug`.
    """

    def __init__(self, detail: Any) -> None:
        super().__init__(AnyMessage(type_url=detail.type_url, value=detail.value))
        self._described = as_json(detail)
        del self._described["@type"]  # it stands beside them

    def value(self, *_types: Any) -> Any:
        return Struct.from_python(self._described)
