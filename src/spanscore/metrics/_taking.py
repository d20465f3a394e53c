"""Which values frameworks take for the same: what they convert an argument to before the tool gets
it.
"""

from spanscore.model.json import Json, loads

_MAX_CHARS = 100_000
_PARSED: dict[str, tuple[type, ...]] = {
    "integer": (int, float),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
}


def as_type(value: Json, kind: str) -> Json:
    """`value` in the JSON type `kind`, where frameworks convert it; None where they do not.

    Text becomes the number, boolean, object or list that it is in JSON, and a number text.

    >>> as_type("5", "integer"), as_type("True", "boolean"), as_type(5, "string")
    (5, True, '5')
    >>> as_type("five", "integer"), as_type(5, "array")
    (None, None)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value) if kind == "string" else None
    if not isinstance(value, str):
        return None
    if kind == "boolean":
        return {"true": True, "false": False}.get(value[:10].casefold())
    if kind not in _PARSED or len(value) > _MAX_CHARS:
        return None
    return _parsed(value, kind)


def _parsed(text: str, kind: str) -> Json:
    try:
        value = loads(text)
    except ValueError:
        return None
    is_whole = kind != "integer" or not isinstance(value, float) or value.is_integer()
    fits = isinstance(value, _PARSED[kind]) and not isinstance(value, bool) and is_whole
    return value if fits else None
