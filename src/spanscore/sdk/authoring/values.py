"""Python values as bounded JSON text."""

import dataclasses
import functools
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from spanscore.errors import shortened
from spanscore.model.json import Json

TRUNCATED = "… [truncated by spanscore]"
"""Stands where the rest of a value was; what reads a trace knows it as damaged."""

MAX_CHARS = 100_000
"""Of one attribute. What is longer is cut, and says so in a form that spanscore reads as cut."""

_MAX_DEPTH = 32
_MAX_REPR_CHARS = 1_000
_MAX_DIGITS = 4_000  # more digits of an integer than Python prints by default
_PRINTED = (date, datetime, time, timedelta, Decimal, UUID, PurePath)
_SEQUENCES = (list, tuple, set, frozenset)
_NESTED = (Mapping, *_SEQUENCES)


def text_of(value: object) -> str:
    """Text as it is, any other value as JSON; bounded.

    >>> text_of("Hello"), text_of({"flight": ("LH", 1)})
    ('Hello', '{"flight":["LH",1]}')
    """
    return bounded(value) if isinstance(value, str) else json_of(value)


def result_of(value: object) -> str:
    """What a tool returned: as `text_of`, but text that would be read as another JSON value is
    written as a JSON text.

    >>> result_of("42"), result_of("It rains."), result_of('{"a": 1}')
    ('"42"', 'It rains.', '{"a": 1}')
    """
    if isinstance(value, str) and len(value) <= _MAX_REPR_CHARS:
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            return bounded(value)
        if not isinstance(read, dict | list):
            return json_of(value)
    return text_of(value)


def json_of(value: object, max_chars: int = MAX_CHARS) -> str:
    """`value` as JSON text of about `max_chars` characters at most.

    >>> json_of({"when": date(2026, 1, 2), "nothing": None, 1: {2}})
    '{"when":"2026-01-02","nothing":null,"1":[2]}'
    """
    plain = Plain(max_chars)
    written = json.dumps(plain.value(value), ensure_ascii=False, separators=(",", ":"))
    if plain.is_cut or len(written) > max_chars:
        return _cut(written, max_chars)
    return well_formed(written)


def bounded(text: str) -> str:
    """The text, without what no encoding can carry; where it is longer than MAX_CHARS, it ends by
    saying so.
    """
    return well_formed(text) if len(text) <= MAX_CHARS else _cut(text, MAX_CHARS)


def _cut(text: str, max_chars: int) -> str:
    return f"{well_formed(text[:max_chars])}{TRUNCATED}"


def well_formed(text: str) -> str:
    """The text with `?` for each lone surrogate, which OTLP has no encoding for."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class Plain:
    """Makes plain JSON values of any others until `max_chars` are used; `is_cut`: something was
    left out.
    """

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self.is_cut = False
        self._left = max_chars
        self._inside: set[int] = set()

    def value(self, value: Any) -> Json:
        """A JSON value that stands for `value`."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value.value if isinstance(value, Enum) else value)
        if isinstance(value, int | float):
            return self._number(value)
        opened = _opened_safely(value)
        if not isinstance(opened, _NESTED):
            is_plain = isinstance(opened, _PLAIN)
            return self.value(opened) if is_plain else self._text(_printed(opened))
        return self._nested(value, opened)

    def _nested(self, value: object, opened: Any) -> Json:
        if id(value) in self._inside or len(self._inside) >= _MAX_DEPTH:
            self.is_cut = self.is_cut or id(value) not in self._inside
            return self._text(f"<{type(value).__name__}>")
        self._inside.add(id(value))
        try:
            if isinstance(opened, Mapping):
                pairs = self._while_room(opened.items())
                return {self._text(_key(key)): self.value(item) for key, item in pairs}
            return [self.value(item) for item in self._while_room(opened)]
        finally:
            self._inside.discard(id(value))

    def _while_room(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if self._left <= 0:
                self.is_cut = True
                return
            self._left -= 1
            yield item

    def _text(self, text: str) -> str:
        if len(text) > self._left:
            self.is_cut = True
            text = text[: max(self._left, 0)]
        self._left -= len(text)
        return text

    def _number(self, number: float) -> Json:
        self._left -= 8
        if isinstance(number, float):
            return float(number) if math.isfinite(number) else str(number)
        if number.bit_length() > 3 * _MAX_DIGITS:
            return self._text(f"<int of {number.bit_length()} bits>")
        return int(number)


_METHODS = ("model_dump", "to_dict", "tolist")
_PLAIN = (str, int, float, bool, type(None))


def _opened_safely(value: Any) -> Any:
    """As `_opened`; an object that raises an exception when it is asked for what it holds stays as
    it is.
    """
    try:
        return _opened(value)
    except Exception:  # noqa: BLE001 - then it is printed
        return value


def _opened(value: Any) -> Any:
    """What an object holds, as a mapping, a sequence or a plain value; the object itself where that
    is not known.
    """
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    for kind, opening in _OPENINGS:
        if isinstance(value, kind):
            return opening(value)
    if dataclasses.is_dataclass(value):
        return {x.name: getattr(value, x.name) for x in dataclasses.fields(value)}
    return _by_method(value)


_OPENINGS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (_NESTED, lambda value: value),
    (Enum, lambda value: value.value),
    (type, lambda value: f"<class {value.__qualname__}>"),
    ((bytes, bytearray, memoryview), lambda value: f"<{len(value)} bytes>"),
    (BaseException, lambda value: f"{type(value).__name__}: {value}"),
)


def _by_method(value: Any) -> Any:
    """What an object gives of itself by a method for it: pydantic's, numpy's and pandas'."""
    size = getattr(value, "size", 0)
    if isinstance(value, Iterator) or (isinstance(size, int) and size > MAX_CHARS):
        return value
    methods = (getattr(value, name, None) for name in _METHODS)
    found = next(filter(callable, methods), None)
    given = None if found is None else found()
    return given if found is not None and isinstance(given, (*_NESTED, *_PLAIN)) else value


def _printed(value: object) -> str:
    """What Python prints for an object: the whole of a date, a number or a path, the beginning of
    anything else.
    """
    try:
        printed = str(value) if isinstance(value, _PRINTED) else repr(value)
    except Exception:  # noqa: BLE001 - an object may fail to print itself
        return f"<{type(value).__name__}>"
    return shortened(printed, _MAX_REPR_CHARS)


def _key(key: object) -> str:
    return key if isinstance(key, str) else _printed(key)


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
            what = function.__qualname__.strip("_").replace("_", " ")
            report_once(function.__qualname__, f"spanscore could not record {what}", error=True)
            return None

    return calling
