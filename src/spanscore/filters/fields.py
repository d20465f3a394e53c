"""The fields that a filter may name, each with its type, and the values that comparisons have for
them.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from spanscore.errors import nearest
from spanscore.filters.syntax import Comparison, FilterError

ItemT = TypeVar("ItemT")

Kind: TypeAlias = Literal["text", "word", "number", "bool", "time", "duration", "texts"]
"""What a field contains. `word`: one of few, written in any case. `time`: ns since the Unix epoch,
written so or as in RFC 3339. `duration`: seconds, written so or as `1.5s`, `20ms`, `2m`, `1h`.
`texts`: a list of texts.
"""

Value: TypeAlias = str | float | bool


@dataclass(frozen=True, slots=True)
class Field(Generic[ItemT]):
    """A field of what is listed: `read` gives its value, None where there is none.

    `words` are the values that a `word` can have. A field with `is_map` has a value for each name
    after a dot, which `read` gets beside the item.
    """

    kind: Kind
    read: Callable[..., Any]
    words: tuple[str, ...] = ()
    is_map: bool = False


Fields: TypeAlias = Mapping[str, Field[ItemT]]

_ORDERED: Final = frozenset({"number", "time", "duration"})
_UNITS_S: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_DURATION: Final = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h|d)?")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d:\d\d(\.(?P<part>\d{1,9}))?([Zz]|[+-]\d\d:\d\d))?"
)
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MAX_NS: Final = 2**63 - 1


def field_of(fields: Fields[ItemT], comparison: Comparison) -> tuple[Field[ItemT], str | None]:
    """The field that a comparison names, and the name after its dot where the field is a map.

    Raises FieldError.
    """
    if comparison.field in fields and not fields[comparison.field].is_map:
        return fields[comparison.field], None
    name, _, key = comparison.field.partition(".")
    if key and name in fields and fields[name].is_map:
        return fields[name], key
    written = [f"{known}.NAME" if x.is_map else known for known, x in fields.items()]
    hint = nearest(comparison.field[:80], written)
    raise FilterError(f"there is no field {comparison.field[:80]}; {hint}", comparison.at)


def value_of(field: Field[ItemT], comparison: Comparison) -> Value:
    """What a comparison compares with, as the field's type has it. Raises FieldError."""
    if field.kind not in _ORDERED and comparison.operator in {"<", "<=", ">", ">="}:
        raise FilterError(
            f"{comparison.field} has no order: compare it with =, != or :", comparison.at
        )
    if field.kind == "texts" and comparison.operator != ":":
        raise FilterError(f"{comparison.field} is a list: ask with : for an element", comparison.at)
    try:
        return _READERS[field.kind](comparison.value, field.words)
    except (ValueError, OverflowError) as error:
        raise FilterError(
            f"{comparison.field}: {comparison.value[:80]!r} is {error}", comparison.at
        ) from None


def _word(text: str, words: Sequence[str]) -> str:
    given = f"_{text.lower()}"  # STATUS_SCORED, as messages have it, is scored
    found = next((x for x in words if given.endswith(f"_{x.lower()}")), None)
    if found is None:
        raise ValueError(f"none of {', '.join(words)}")
    return found


def _number(text: str, _words: Sequence[str]) -> float:
    if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise ValueError("no number")
    return float(text) if re.search(r"[.eE]", text) else int(text)


def _bool(text: str, _words: Sequence[str]) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("neither true nor false")
    return text.lower() == "true"


def _time(text: str, _words: Sequence[str]) -> int:
    if text.isascii() and text.isdigit() and int(text) <= _MAX_NS:
        return int(text)
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(
            'no time: write one such as "2026-11-01T00:00:00Z", or ns since the Unix epoch'
        )
    whole = (
        text
        if found["part"] is None
        else text[: found.start("part") - 1] + text[found.end("part") :]
    )
    try:
        moment = datetime.fromisoformat(
            whole.upper() if len(whole) > 10 else f"{whole}T00:00:00+00:00"
        )
    except ValueError:
        raise ValueError("no time that there is") from None
    since = moment - _EPOCH
    return (since.days * 86400 + since.seconds) * 10**9 + int((found["part"] or "0").ljust(9, "0"))


def _duration(text: str, _words: Sequence[str]) -> float:
    found = _DURATION.fullmatch(text)
    if not found:
        raise ValueError("no duration: write seconds, or such as 20ms, 1.5s, 2m, 1h")
    return float(found[1]) * _UNITS_S[found[2] or "s"]


_READERS: Final[Mapping[Kind, Callable[[str, Sequence[str]], Value]]] = {
    "text": lambda text, _words: text,
    "texts": lambda text, _words: text,
    "word": _word,
    "number": _number,
    "bool": _bool,
    "time": _time,
    "duration": _duration,
}
