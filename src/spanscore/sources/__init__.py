"""Stored traces of other backends, by URL."""

import os
import time
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from spanscore.errors import InputError
from spanscore.sources.location import Location, is_url, parse_location, since_default
from spanscore.sources.port import DEFAULT_SINCE_NS, Query, Source

__all__ = ["Location", "Query", "is_backend", "is_url", "opened", "parse", "place"]


_BACKENDS: Final[Mapping[str, tuple[int, Collection[str]]]] = {
    "clickhouse": (8123, ("database", "table", "logs_table")),
    "jaeger": (16686, ()),
    "mlflow": (5000, ("experiment",)),
    "phoenix": (6006, ("project",)),
    "tempo": (3200, ()),
}
"""By the name of its module the port that a backend listens on, and the parameters that only it
has.
"""


def place(text: str) -> Path | Location:
    """What somebody gave: a path, or the URL of stored traces, with environment variables filled
    in.

    Raises InputError where it is a URL that cannot be used.
    """
    return parse(text, environ=os.environ) if is_url(text) else Path(text)


def parse(
    text: str, *, environ: Mapping[str, str] | None = None, now_ns: Callable[[], int] = time.time_ns
) -> Location:
    """The location that a URL names; see `parse_location`. Raises InputError."""
    scheme = text.partition("://")[0].lower()
    backend = _BACKENDS.get(scheme.partition("+")[0])
    now = now_ns()
    if backend is None:
        return parse_location(text, options=(), port=None, now_ns=now, environ=environ)
    port, options = backend
    found = parse_location(text, options=options, port=port, now_ns=now, environ=environ)
    return since_default(found, now - DEFAULT_SINCE_NS)


def is_backend(location: Location) -> bool:
    """Whether a location is that of a backend with a query API, and not one of files."""
    return location.scheme in _BACKENDS


def opened(location: Location) -> Source:
    """The backend at a location, not connected yet. Raises InputError where it cannot be used."""
    if not is_backend(location):
        raise InputError(
            f"{location}: there are {', '.join(sorted(_BACKENDS))}, and protocols of files"
        )
    module = import_module(f"{__name__}.{location.scheme}")
    made: Source = module.Source(location)
    return made
