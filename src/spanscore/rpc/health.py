"""grpc.health.v1: whether a service takes requests, asked once or watched."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc

from spanscore.rpc.messages import add_service, message_class, new_file, register

SERVICE: Final = "grpc.health.v1.Health"
_UNKNOWN, _SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = range(4)
_STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")

_file = new_file(
    "grpc/health/v1/health.proto",
    "grpc.health.v1",
    {"HealthCheckRequest": ((1, "string", "service"),), "HealthCheckResponse": ()},
)
_response = _file.message_type[1]
_enum = _response.enum_type.add(name="ServingStatus")
for _number, _name in enumerate(_STATUSES):
    _enum.value.add(name=_name, number=_number)
_status = _response.field.add(
    name="status", number=1, type_name=".grpc.health.v1.HealthCheckResponse.ServingStatus"
)
_status.type, _status.label = _status.TYPE_ENUM, _status.LABEL_OPTIONAL
_names = ("grpc.health.v1.HealthCheckRequest", "grpc.health.v1.HealthCheckResponse")
add_service(_file, "Health", {"Check": _names, "Watch": (_names[0], f"stream {_names[1]}")})
register(_file)

_Request, _Response = map(message_class, _names)


class Health:
    """The status of each service of one server. Belongs to one event loop."""

    def __init__(self) -> None:
        self._statuses: dict[str, int] = {}
        self._changed = asyncio.Condition()
        self._ends = False

    async def show(self, service: str, *, serving: bool) -> None:
        """Have checks and watches say whether `service` takes requests; "" stands for the whole
        server.
        """
        if not self._ends:
            await self._set({service: _SERVING if serving else _NOT_SERVING})

    async def end(self) -> None:
        """Have all say, from now on, that nothing takes requests any more."""
        self._ends = True
        await self._set(dict.fromkeys(self._statuses, _NOT_SERVING))

    async def _set(self, statuses: dict[str, int]) -> None:
        if statuses.items() <= self._statuses.items():
            return
        async with self._changed:
            self._statuses |= statuses
            self._changed.notify_all()

    def handlers(self) -> Any:
        """What a gRPC server is given, so that it answers checks."""
        as_message = {
            "request_deserializer": _Request.FromString,
            "response_serializer": _Response.SerializeToString,
        }
        methods = {
            "Check": grpc.unary_unary_rpc_method_handler(self._check, **as_message),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch, **as_message),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def _check(self, request: Any, context: Any) -> Any:
        status = self._statuses.get(request.service)
        if status is None:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"there is no service {request.service[:200]!r} here"
            )
        return _Response(status=status)

    async def _watch(self, request: Any, _context: Any) -> AsyncIterator[Any]:
        shown = None
        while True:
            async with self._changed:
                while self._status(request.service) == shown:
                    await self._changed.wait()
                shown = self._status(request.service)
            yield _Response(status=shown)

    def _status(self, service: str) -> int:
        return self._statuses.get(service, _SERVICE_UNKNOWN)


async def check(channel: Any, service: str, timeout_s: float) -> str:
    """What a server says of `service`: SERVING or another status. Raises grpc.RpcError."""
    ask = channel.unary_unary(
        f"/{SERVICE}/Check",
        request_serializer=_Request.SerializeToString,
        response_deserializer=_Response.FromString,
    )
    answer = await ask(_Request(service=service), timeout=timeout_s)
    return _STATUSES[answer.status] if answer.status < len(_STATUSES) else _STATUSES[_UNKNOWN]
