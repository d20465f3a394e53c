"""Calls of a method over any protocol."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, cast

import grpc
from google.protobuf.message import Message

from spanscore.api.servicer import Call, Method
from spanscore.errors import (
    ConflictError,
    ExistsError,
    FieldError,
    InputError,
    NotFoundError,
    PermanentError,
    RetryableError,
    StateError,
)
from spanscore.receive.auth import (
    BearerTokens,
    ForbiddenError,
    NoTenantError,
    OtherTenantError,
    Scope,
    Tenancy,
    Token,
    UnauthenticatedError,
)
from spanscore.rpc import BadRequest, ErrorInfo, new_status, text_of
from spanscore.threads import answered_tenant

Headers: TypeAlias = Callable[[str], Sequence[str]]
"""Gives the values that a request has for a header, by its name in lower case."""

DOMAIN: Final = "spanscore"
"""The `domain` of each ErrorInfo."""

_log = logging.getLogger(__name__)

# Over gRPC all of an error travels in headers, which a client may refuse from 8192 bytes on. The
# message is there as it is, and once more with its details as base64.
_MAX_MESSAGE_BYTES: Final = 2000
_MAX_DETAILS_BYTES: Final = 2000
_MAX_FIELD_BYTES: Final = 500
_BYTES_OF_VIOLATION: Final = 8  # beside its texts
_ESCAPED_BYTES: Final = 3  # of each byte of a message that a header does not have as it is

_FAULTS: Final[dict[type[Exception], tuple[grpc.StatusCode, str]]] = {
    NotFoundError: (grpc.StatusCode.NOT_FOUND, "NOT_FOUND"),
    ExistsError: (grpc.StatusCode.ALREADY_EXISTS, "ALREADY_EXISTS"),
    ConflictError: (grpc.StatusCode.ABORTED, "CHANGED_MEANWHILE"),
    StateError: (grpc.StatusCode.FAILED_PRECONDITION, "WRONG_STATE"),
    InputError: (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    PermanentError: (grpc.StatusCode.INVALID_ARGUMENT, "REFUSED_BY_STORE"),
    OtherTenantError: (grpc.StatusCode.PERMISSION_DENIED, "OTHER_TENANT"),
    NoTenantError: (grpc.StatusCode.UNAUTHENTICATED, "TENANT_MISSING"),
    ForbiddenError: (grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING"),
    UnauthenticatedError: (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID"),
    RetryableError: (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
}
"""Code and reason of each error; of a subclass that is not here, those of the first that it is a
kind of.
"""


class Refusal(Exception):  # noqa: N818 - it is what the caller gets, whatever went wrong
    """A call ends with this google.rpc.Status, which has its details."""

    def __init__(self, status: Any) -> None:
        super().__init__(status.message)
        self.status = status

    @property
    def code(self) -> grpc.StatusCode:
        """The status's code, by name."""
        return next(x for x in grpc.StatusCode if x.value[0] == self.status.code)


class Caller:
    """Calls methods for those who may call them, as the tenants that they are."""

    def __init__(
        self,
        tokens: BearerTokens | None = None,
        tenancy: Tenancy | None = None,
        page_key: bytes = b"",
    ) -> None:
        """Without `tokens` everybody may; without `tenancy` there are no tenants.

        `page_key` seals page tokens.
        """
        self._tokens = tokens
        self._tenancy = tenancy
        self._page_key = page_key

    @property
    def tenant_header(self) -> str | None:
        """The header in which a caller may name its tenant; None without tenants."""
        return (
            self._tenancy.header if self._tenancy is not None and self._tenancy.is_enabled else None
        )

    async def call(self, method: Method, request: Message, headers: Headers) -> Message:
        """The one response of a method. Raises Refusal."""
        try:
            return await cast(
                "Awaitable[Message]", method.answer(request, self._admit(headers, method.scope))
            )
        except Exception as error:
            raise refusal_of(method.path, error) from error

    async def stream(
        self, method: Method, request: Message, headers: Headers
    ) -> AsyncIterator[Message]:
        """The responses of a method that streams. Raises Refusal."""
        try:
            responses: Any = method.answer(request, self._admit(headers, method.scope))
            async for response in responses:
                yield response
        except Exception as error:
            raise refusal_of(method.path, error) from error

    def admit(self, headers: Headers, scope: Scope, *, needs_tenant: bool = True) -> None:
        """Raise Refusal where these headers do not permit what needs `scope`, and is about what a
        tenant has.
        """
        try:
            if needs_tenant:
                self._admit(headers, scope)
            else:
                self._token(headers, scope)
        except Exception as error:
            raise refusal_of("", error) from error

    def _admit(self, headers: Headers, scope: Scope) -> Call:
        """Who calls. Raises UnauthenticatedError, ForbiddenError or RetryableError."""
        token = self._token(headers, scope)
        tenant = (
            "" if self._tenancy is None else self._tenancy.of(token, headers(self._tenancy.header))
        )
        answered_tenant.set(tenant)
        if token is None:
            return Call(tenant, page_key=self._page_key)
        return Call(tenant, token.scopes, self._page_key, admit=lambda: self._admit(headers, scope))

    def _token(self, headers: Headers, scope: Scope) -> Token | None:
        """The token that is shown; None where none is needed. Raises as `_admit`."""
        if self._tokens is None:
            return None
        return self._tokens.check(headers("authorization"), scope)


def refusal_of(path: str, error: Exception) -> Refusal:
    """What a caller of the method at `path` ("": it is not known) gets for an error."""
    fault = next((_FAULTS[kind] for kind in type(error).__mro__ if kind in _FAULTS), None)
    if fault is None:
        _log.error("%s failed", path, exc_info=error)
        message = "it failed for a reason that spanscore did not foresee; its log has the error"
        info = ErrorInfo(reason="INTERNAL", domain=DOMAIN)
        return Refusal(new_status(grpc.StatusCode.INTERNAL.value[0], message, info))
    code, reason = fault
    message, retry_after_s = _cut(str(error), _MAX_MESSAGE_BYTES, escaped=_ESCAPED_BYTES), None
    if isinstance(error, RetryableError):
        retry_after_s = error.retry_after_s
        message = f"{message}; try again in {retry_after_s:g} s"
    details = []
    if isinstance(error, FieldError):
        reason = "INVALID_FIELD"
        details.append(BadRequest(field_violations=_violations(error)))
    info = ErrorInfo(
        reason=reason, domain=DOMAIN, metadata={"method": path.lstrip("/")} if path else {}
    )
    return Refusal(new_status(code.value[0], message, info, *details, retry_after_s=retry_after_s))


def _violations(error: FieldError) -> list[dict[str, str]]:
    """All fields that are wrong, as far as they fit into the header in which details travel over
    gRPC.
    """
    found: list[dict[str, str]] = []
    left_bytes = _MAX_DETAILS_BYTES
    for one in (error, *error.others):
        field = _cut(one.field, _MAX_FIELD_BYTES)
        problem = _cut(one.problem, _MAX_DETAILS_BYTES - _MAX_FIELD_BYTES)
        left_bytes -= _bytes_of(field) + _bytes_of(problem) + _BYTES_OF_VIOLATION
        if found and left_bytes < 0:
            break
        found.append({"field": field, "description": problem})
    return found


def _cut(text: str, max_bytes: int, *, escaped: int = 1) -> str:
    """As much of the beginning of a text as takes so many bytes, with "…" where that is not all.

    `escaped`: how many bytes each byte takes that is no printable character of ASCII.
    """
    text = text_of(text[: max_bytes + 1])
    left_bytes = max_bytes
    for place, character in enumerate(text):
        is_plain = " " <= character <= "~" and character != "%"
        left_bytes -= 1 if is_plain else escaped * _bytes_of(character)
        if left_bytes < 0:
            return f"{text[:place]}…"
    return text


def _bytes_of(text: str) -> int:
    return len(text.encode())
