"""A span that the SDK writes: begun, made current while the agent's own code runs, and ended."""

import os
from collections.abc import Mapping
from contextvars import Token
from types import TracebackType
from typing import TypeAlias

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode

from spanscore import __version__
from spanscore.sdk.authoring import attributes as names
from spanscore.sdk.authoring.current import detach, is_suppressed
from spanscore.sdk.authoring.guarding import guarded
from spanscore.sdk.authoring.values import bounded

Attribute: TypeAlias = str | bool | int | float | list[str] | list[float]

_MAX_STATUS_CHARS = 1_000
_CONTENT_OFF = {"false", "no_content"}


def captures_content() -> bool:
    """Whether texts, arguments and results are recorded, as they are unless the environment says
    otherwise.
    """
    return os.environ.get(names.CAPTURE_CONTENT, "").strip().lower() not in _CONTENT_OFF


class OpenSpan:
    """A span that is being recorded. Nothing that goes wrong with it reaches the agent."""

    __slots__ = ("_is_ended", "context", "span")

    def __init__(self, span: Span, around: Context) -> None:
        """`around` is the context of the agent's code that runs inside of it."""
        self.span = span
        self.context = around
        self._is_ended = False

    @property
    def is_recording(self) -> bool:
        """Whether anything that is set still counts: it was sampled, and has not ended."""
        return not self._is_ended and self.span.is_recording()

    @property
    def has_ended(self) -> bool:
        """Whether nothing can be set any more."""
        return self._is_ended

    @guarded
    def set(self, attributes: Mapping[str, Attribute | None]) -> None:
        """Set those attributes that are not None."""
        if self.is_recording:
            self.span.set_attributes(
                {key: value for key, value in attributes.items() if value is not None}
            )

    @guarded
    def fail(self, error: BaseException) -> None:
        """Record the exception that ended the work, and end the span."""
        if self.is_recording:
            if isinstance(error, Exception):
                self.span.record_exception(error)
            self.span.set_attribute(names.ERROR_TYPE, _qualified(type(error)))
            described = bounded(str(error))[:_MAX_STATUS_CHARS]
            self.span.set_status(Status(StatusCode.ERROR, described or type(error).__name__))
        self.end()

    @guarded
    def end(self) -> None:
        """End the span; a second time nothing happens."""
        if not self._is_ended:
            self._is_ended = True
            self.span.end()


def open_span(
    name: str, attributes: Mapping[str, Attribute | None], *, kind: SpanKind = SpanKind.INTERNAL
) -> OpenSpan:
    """Begin a span inside of the current one; one that records nothing, where nothing is to be
    traced.
    """
    if is_suppressed():
        return OpenSpan(INVALID_SPAN, context.get_current())
    tracer = trace.get_tracer(names.SCOPE, __version__)
    given = {key: value for key, value in attributes.items() if value is not None}
    span = tracer.start_span(well_named(name), kind=kind, attributes=given)
    return OpenSpan(span, trace.set_span_in_context(span))


def well_named(name: str) -> str:
    """A span's name that can be sent."""
    return bounded(name)[:256]


class Active:
    """Makes a context current in a block of the agent's code; None: leaves the current one."""

    __slots__ = ("_context", "_token")

    def __init__(self, within: Context | None) -> None:
        self._context = within
        self._token: Token[Context] | None = None

    def __enter__(self) -> None:
        if self._context is not None:
            self._token = context.attach(self._context)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._token is not None:
            detach(self._token)


def _qualified(kind: type[BaseException]) -> str:
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
