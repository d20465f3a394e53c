"""JSON values, parsed and printed in one way, and masks of values hidden in them."""

import json as _json
import re
from typing import Any, TypeAlias

import orjson

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"


_SORTED = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS
_DIGITS_AS_0 = bytes.maketrans(b"123456789", b"000000000")
_LONG, _LONG_BELOW_0 = b"0" * 20, b"-" + b"0" * 19  # as long as 2^64 and -2^63 - 1
_LONG_INTEGER = re.compile(rb"(?<![\w.])(?:-[0-9]{19}|[0-9]{20})")


def loads(text: str | bytes) -> Any:
    """Parse JSON.

    Raises ValueError on text that is not JSON or is nested beyond what the parser bounds.

    Integers beyond 64 bits, which orjson rounds, and NaN and Infinity, which it refuses, are as
    Python's parser reads them.
    """
    try:
        return exact(text, orjson.loads(text))
    except orjson.JSONDecodeError:
        try:
            return _json.loads(text)
        except RecursionError as error:
            raise ValueError("JSON is nested too deeply") from error


def exact(text: str | bytes, parsed: Any) -> Any:
    """What orjson `parsed` from `text`, with its integers beyond 64 bits, which orjson makes
    floats, as integers.

    Only text with a number so long is parsed again. One of more digits than Python reads (4,300)
    stays a float.

    >>> exact("[1180591620717411303424]", [1.1805916207174113e21])
    [1180591620717411303424]
    """
    if len(text) < len(_LONG_BELOW_0):
        return parsed
    # where nineteen digits in a row are three in a row, which most texts do not have
    sample = text[::6]
    if isinstance(sample, str):
        sample = sample.encode("utf-8", "surrogatepass")
    if not sample.translate(_DIGITS_AS_0).count(b"000"):  # `in` takes three times as long
        return parsed
    if not _has_long_integer(
        text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    ):
        return parsed
    try:
        return _json.loads(text)
    except (ValueError, RecursionError):
        return parsed


def _has_long_integer(text: bytes) -> bool:
    """Whether an integer beyond 64 bits may be there.

    The pattern alone would take longer than the parser.
    """
    digits = text.translate(_DIGITS_AS_0)
    return (_LONG in digits or _LONG_BELOW_0 in digits) and _LONG_INTEGER.search(text) is not None


def dumps(value: object, *, sort_keys: bool = False) -> str:
    """Print `value` as compact JSON text; keys keep their order.

    Anything JSON does not know becomes its `str()`.
    """
    try:
        return orjson.dumps(
            value, default=str, option=_SORTED if sort_keys else orjson.OPT_NON_STR_KEYS
        ).decode()
    except TypeError:  # integers beyond 64 bits, lone surrogates
        return _json.dumps(value, default=str, separators=(",", ":"), sort_keys=sort_keys)


def printed(value: object) -> str:
    """Text as it is, any other value as JSON.

    >>> printed("22C"), printed({"c": 22})
    ('22C', '{"c":22}')
    """
    return value if isinstance(value, str) else dumps(value)


_IN_BRACKETS = re.compile(
    r"""
    [\[<](?:REDACTED|FILTERED|MASKED|ELIDED)(?:[\s:_-][^\]>]{0,60})?[\]>]
    # of a kind, as Presidio and LLM Guard write them
    | [\[<](?P<kind>
        (?:[A-Z]+_)*(?:PERSON|EMAIL|PHONE|LOCATION|IBAN|SSN|PASSPORT)(?:_[A-Z]+)*
        | [A-Z]+_(?:ID|NUMBER|ADDRESS|NAME|CARD|CODE|KEY|DATE)
        | [A-Z]+(?:_[A-Z]+)*_(?=\d)
    )(?:_?\d+)?[\]>]
    """,
    re.VERBOSE,
)
_ASTERISKS = re.compile(
    r"""
    (?<=\w)\*{3,}\w?@(?=\w) # of an address, whose domain was left
    | (?<=\S[ ])\*{4,}(?!\*) | (?<!\*)\*{4,}(?=\d) # of a number, whole or but for its end
    """,
    re.VERBOSE,
)
_BEGINNING = re.compile(r"[\[<][A-Z]")


def is_masked(text: str) -> bool:
    """Whether a mark stands for hidden content inside of a text.

    >>> is_masked("Cancel order [ORDER_ID_1]."), is_masked("Cancel ****."), is_masked("See [1].")
    (True, True, False)
    """
    if "***" in text and _ASTERISKS.search(text) is not None:
        return True
    if _BEGINNING.search(text) is None:
        return False
    return any(
        x["kind"] is None or f"</{x['kind']}" not in text for x in _IN_BRACKETS.finditer(text)
    )


_HIDDEN_STRING = re.compile(r'"\*{3,}"')


def hides_values(value: Json) -> bool:
    """Whether a mask stands for a hidden value in what a tool was given or returned.

    >>> (
    ...     hides_values({"email": "<EMAIL_ADDRESS>"}),
    ...     hides_values(["***"]),
    ...     hides_values("***bold***"),
    ... )
    (True, True, False)
    """
    text = dumps(value)
    return is_masked(text) or _HIDDEN_STRING.search(text) is not None
