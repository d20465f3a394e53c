"""Attributes as a score needs them: what is of another type, or no finite number, is not there."""

import math
from collections.abc import Mapping
from typing import Any

from spanscore.model.json import loads
from spanscore.model.span import Attributes

MAX_TEXT_CHARS = 32_768
"""Of a name, a label or a reason; what is longer is cut."""

_MAX_METADATA_CHARS = 2**20
_MAX_NUMBER_CHARS = 64


def text(attributes: Mapping[str, Any], *keys: str) -> str | None:
    """The first of these attributes that is a text and not empty."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value[:MAX_TEXT_CHARS]
    return None


def number(attributes: Attributes, key: str) -> float | None:
    """The attribute, where it is a finite number."""
    return finite(attributes.get(key))


def finite(value: object) -> float | None:
    """`value`, where it is a finite number; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def count(attributes: Attributes, key: str) -> int | None:
    """The attribute, where it is an integer from 0 on."""
    value = attributes.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def json_object(attributes: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The attribute, where it is a JSON object; else an empty one."""
    return mapping(_json(attributes, key))


def json_list(attributes: Mapping[str, Any], key: str) -> list[Any] | None:
    """The attribute, where it is a JSON array; else None."""
    found = _json(attributes, key)
    return found if isinstance(found, list) else None


def _json(attributes: Mapping[str, Any], key: str) -> object:
    """What the attribute contains as JSON; None where it is none."""
    value = attributes.get(key)
    if not isinstance(value, str) or len(value) > _MAX_METADATA_CHARS:
        return None
    try:
        return loads(value)
    except ValueError:
        return None


def mapping(value: object) -> dict[str, Any]:
    """`value`, where it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def numeric(value: object) -> float | bool | None:
    """`value` as a score: a truth value, a finite number, or a text that is one."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= _MAX_NUMBER_CHARS:
        try:
            return finite(float(value))
        except ValueError:
            return None
    return finite(value)


def flag(attributes: Mapping[str, Any], *keys: str) -> bool | None:
    """The first of these attributes that is a truth value, or a text that is one."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in {"true", "false"}:
            return value.lower() == "true"
    return None
