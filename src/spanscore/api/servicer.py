"""Base classes of the services: one coroutine a method.

It knows neither gRPC nor HTTP. A method gets the request and the `Call`, and returns the response;
a method that streams is an asynchronous generator of responses. What is wrong it raises, as one of
`spanscore.errors`::

    class RunService(Servicer):
        service = run_service_pb2.DESCRIPTOR.services_by_name["RunService"]

        @needs("read")
        async def get_run(self, request: pb.GetRunRequest, call: Call) -> pb.Run: ...

        @needs("read")
        async def watch_run(
            self, request: pb.WatchRunRequest, call: Call
        ) -> AsyncIterator[pb.WatchRunResponse]: ...
"""

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeVar

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from spanscore.receive.auth import SCOPES, ForbiddenError, Scope

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_SCOPE: Final = "_needed_scope"


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls: the tenant that all is about, "" without tenancy, and what the caller may do.

    A method that streams calls `admit` again and again: it raises where the caller's token has been
    revoked meanwhile. Page tokens are sealed with `page_key`.
    """

    tenant: str = ""
    scopes: frozenset[Scope] = SCOPES
    page_key: bytes = field(default=b"", repr=False, compare=False)
    admit: Callable[[], object] = field(default=lambda: None, compare=False)

    def require(self, scope: Scope, why: str) -> None:
        """Raise ForbiddenError where the caller may not do what needs this scope beside the
        method's own.
        """
        if not self.scopes & {scope, "admin"}:
            raise ForbiddenError(
                f"this token has not the scope {scope}, which is needed {why}: show one that has it"
            )


def needs(scope: Scope) -> Callable[[FunctionT], FunctionT]:
    """Declare the scope that a caller's token must have for a method."""

    def declare(function: FunctionT) -> FunctionT:
        setattr(function, _SCOPE, scope)
        return function

    return declare


class Servicer:
    """The methods of `service`, each under its name in snake_case, each with its scope declared by
    `needs`.
    """

    service: ClassVar[ServiceDescriptor]

    def stop(self) -> None:
        """End the streams that would go on while the server stops. May be called again."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method as servers call it.

    `path` is `/package.Service/Method`; `answer` gives an awaitable, or a stream.
    """

    path: str
    scope: Scope
    request_class: type[Message]
    response_class: type[Message]
    is_stream: bool
    has_side_effects: bool
    answer: Callable[[Any, Call], Awaitable[Message] | AsyncIterator[Message]]


def methods(servicer: Servicer) -> list[Method]:
    """All methods of a service.

    Raises TypeError where one is not implemented as the proto has it.
    """
    return [_method(servicer, descriptor) for descriptor in servicer.service.methods]


def _method(servicer: Servicer, descriptor: MethodDescriptor) -> Method:
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", descriptor.name).lower()
    answer = getattr(servicer, name, None)
    scope = getattr(answer, _SCOPE, None)
    path = f"/{servicer.service.full_name}/{descriptor.name}"
    if answer is None or scope is None:
        raise TypeError(
            f"{path}: {type(servicer).__name__} needs a method {name} with @needs(SCOPE)"
        )
    if (
        descriptor.client_streaming
        or inspect.isasyncgenfunction(answer) != descriptor.server_streaming
    ):
        raise TypeError(
            f"{path}: {name} must stream its responses where the proto does, and never its requests"
        )
    return Method(
        path=path,
        scope=scope,
        request_class=GetMessageClass(descriptor.input_type),
        response_class=GetMessageClass(descriptor.output_type),
        is_stream=descriptor.server_streaming,
        has_side_effects=descriptor.GetOptions().idempotency_level != MethodOptions.NO_SIDE_EFFECTS,
        answer=answer,
    )
