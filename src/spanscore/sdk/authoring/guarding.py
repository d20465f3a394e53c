"""Keeps what goes wrong while recording away from the agent: it is logged once for each place, and
work goes on.
"""

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_logger = logging.getLogger("spanscore.sdk")
_reported: set[str] = set()


def report_once(place: str, message: str, *, error: bool = False) -> None:
    """Log a warning the first time that it is given for `place`, with the exception being handled
    where `error`.
    """
    if place not in _reported:
        _reported.add(place)
        _logger.warning("%s; this is logged once", message, exc_info=error)


def guarded(function: Callable[P, R]) -> Callable[P, R | None]:
    """The function, which returns None where it would raise an exception."""

    @functools.wraps(function)
    def calling(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return function(*args, **kwargs)
        except Exception:  # noqa: BLE001 - whatever it is, the agent must not notice
            report_once(
                function.__qualname__,
                f"spanscore could not record {_subject(function)}",
                error=True,
            )
            return None

    return calling


def _subject(function: Callable[..., object]) -> str:
    return function.__qualname__.strip("_").replace("_", " ")
