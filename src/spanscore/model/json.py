"""The JSON value type, and the one way the project parses and prints JSON: fast, bounded and deterministic."""

import json as _json
from typing import Any, TypeAlias

import orjson

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"


_SORTED = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS


def loads(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError on text that is not JSON or is nested beyond what the parser bounds.

    Integers beyond 64 bits, NaN and Infinity, which orjson refuses, are read as Python's own parser reads them.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            return _json.loads(text)
        except RecursionError as error:
            raise ValueError("JSON is nested too deeply") from error


def dumps(value: object, *, sort_keys: bool = False) -> str:
    """Print `value` as compact JSON text; keys keep their order. Anything JSON does not know becomes its `str()`."""
    try:
        return orjson.dumps(value, default=str, option=_SORTED if sort_keys else orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # integers beyond 64 bits, lone surrogates
        return _json.dumps(value, default=str, separators=(",", ":"), sort_keys=sort_keys)
