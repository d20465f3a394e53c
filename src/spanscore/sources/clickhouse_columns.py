"""The attributes in a table of ClickHouse's exporter: a map of texts, or JSON where the exporter
writes such columns (`json: true`).

A column of JSON keeps numbers and truth values as such. A dot in a name is the same to ClickHouse
as a level of nesting, so that `{"a": {"b": 1}}` comes back as `a.b`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from spanscore.model.span import Value

_OF_ID: Final = re.compile(r"(?:^|[._-])(?:id|ids|uuid|key|hash|version|name)$", re.IGNORECASE)
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_FLOAT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+(?:e[+-]?[0-9]+)?")
_TRUTHS: Final = {"true": True, "false": False}
_INTEGER_TYPES: Final = ("Int", "UInt")


def is_json(type_name: str) -> bool:
    """Whether a column of this type has JSON, and not a map.

    >>> is_json("JSON(max_dynamic_paths=256)"), is_json("Map(LowCardinality(String), String)")
    (True, False)
    """
    return type_name.startswith("JSON")


def from_map(column: Mapping[str, str]) -> dict[str, Value]:
    """A map of texts with the numbers and truth values that its texts are; what is an id stays
    text.
    """
    return {name: text if _OF_ID.search(name) else _scalar(text) for name, text in column.items()}


def from_json(
    column: Mapping[str, Any], types: Mapping[str, str] | None = None
) -> dict[str, Value]:
    """The attributes in a column of JSON, by their whole names.

    `types` has ClickHouse's types by name: some versions write integers in quotes for a user who
    must not send settings.
    """
    known = types or {}
    return {
        name: int(value)
        if isinstance(value, str) and known.get(name, "").startswith(_INTEGER_TYPES)
        else value
        for name, value in _leaves(column)
    }


def _leaves(column: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in column.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value


def _scalar(text: str) -> Value:
    if text in _TRUTHS:
        return _TRUTHS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
