"""What is being worked on at the moment, so that every line that is logged meanwhile says so."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_ABOUT: ContextVar[Mapping[str, str | None]] = ContextVar("about", default={})  # noqa: B039 - it is never changed


@contextmanager
def about(
    *,
    trace_id: str | None = None,
    span_id: str | None = None,
    session_id: str | None = None,
    tenant: str = "",
) -> Iterator[None]:
    """Lines logged within the block, also by tasks and threads begun in it, have these ids as
    fields.
    """
    token = _ABOUT.set(
        {
            "trace_id": trace_id,
            "span_id": span_id,
            "session_id": session_id,
            "tenant": tenant or None,
        }
    )
    try:
        yield
    finally:
        _ABOUT.reset(token)


def current() -> Mapping[str, str | None]:
    """What the innermost block is about."""
    return _ABOUT.get()
