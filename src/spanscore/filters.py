"""The filter language of lists, after AIP-160.

::

    status = SCORED AND (value < 0.5 OR NOT label = "pass")
        AND evaluated_at_ns > "2026-11-01T00:00:00Z"

A comparison has a field on its left, `=`, `!=`, `<`, `<=`, `>`, `>=` or `:`, and a value. A value
is a word, or text in single or double quotes. `AND`, `OR` and `NOT` (or `-`) are in capitals; as in
AIP-160 `OR` binds more strongly than `AND`, and two conditions without a word between them must
both hold. `field:*` asks whether there is a value at all, `field:text` whether a text contains
another, in any case, or a list has an element. With `=` and `!=` a `*` at the beginning or end of a
text stands for anything. A comparison with a field that has no value does not hold, whatever it is;
`NOT` turns that round.
"""

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from spanscore.errors import FieldError, nearest, shortened

MAX_CHARS: Final = 4096
_MAX_DEPTH: Final = 24
_MAX_COMPARISONS: Final = 200
_SHOWN_CHARS: Final = 40


@dataclass(frozen=True, slots=True)
class Comparison:
    """`field operator value`; `quoted`: the value stood in quotes; `at`: the character of its
    beginning, from 1.
    """

    field: str
    operator: str
    value: str
    quoted: bool
    at: int


@dataclass(frozen=True, slots=True)
class And:
    """All of them hold."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of them holds, or more."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """It does not hold."""

    part: "Node"


Node: TypeAlias = Comparison | And | Or | Not


class FilterError(FieldError):
    """A filter is wrong at a place."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__("filter", f"at character {at}: {problem}")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # "text", "word", "sign" or "end"
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(shortened(self.text, _SHOWN_CHARS))


_TOKENS: Final = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<time>\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d))
    |(?P<sign><=|>=|!=|[<>=:()]|-(?=[^\s\d.]))
    |(?P<word>[^\s"'<>=!:()\\,]+)""",
    re.VERBOSE | re.DOTALL,
)
_COMPARING: Final = ("=", "!=", "<", "<=", ">", ">=", ":")
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_-]+)*")
_KEYWORDS: Final = ("AND", "OR", "NOT")


def read(text: str) -> Node | None:
    """The tree of a filter; None for an empty one, which wants everything.

    Raises FieldError with the place.

    >>> read('NOT b:"x y"')
    Not(part=Comparison(field='b', operator=':', value='x y', quoted=True, at=7))
    """
    if len(text) > MAX_CHARS:
        raise FieldError("filter", f"has {len(text)} characters; at most {MAX_CHARS} are taken")
    tokens = list(_split(text))
    if tokens[0].kind == "end":
        return None
    return _Reader(tokens).read()


def _split(text: str) -> Iterator[_Token]:
    place = 0
    while place < len(text):
        found = _TOKENS.match(text, place)
        if found is None:
            quote = text[place] in "\"'"
            raise FilterError(
                "this quote is never closed" if quote else f"{text[place]!r} is not understood",
                place + 1,
            )
        if found.lastgroup == "text":
            yield _Token(
                "text", re.sub(r"\\(.)", r"\1", found[0][1:-1], flags=re.DOTALL), place + 1
            )
        elif found.lastgroup != "space":
            yield _Token("sign" if found.lastgroup == "sign" else "word", found[0], place + 1)
        place = found.end()
    yield _Token("end", "", len(text) + 1)


class _Reader:
    """Reads tokens from left to right; each method one rule of the grammar."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._comparisons = 0

    def read(self) -> Node:
        node = self._expression(depth=0)
        if self._token.kind != "end":
            raise FilterError(f"{self._token} is not expected here", self._token.at)
        return node

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _is(self, kind: str, *texts: str) -> bool:
        return self._token.kind == kind and self._token.text in texts

    def _expression(self, depth: int) -> Node:
        """Conditions that must all hold, with AND between them or nothing."""
        parts = [self._factor(depth)]
        while not (self._token.kind == "end" or self._is("sign", ")")):
            if self._is("word", "AND"):
                self._take()
            parts.append(self._factor(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _factor(self, depth: int) -> Node:
        """Conditions of which one must hold."""
        parts = [self._term(depth)]
        while self._is("word", "OR"):
            self._take()
            parts.append(self._term(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _term(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise FilterError(f"nested more than {_MAX_DEPTH} deep", self._token.at)
        if self._is("word", "NOT") or self._is("sign", "-"):
            self._take()
            return Not(self._term(depth + 1))
        if self._is("sign", "("):
            return self._group(depth + 1)
        return self._comparison()

    def _group(self, depth: int) -> Node:
        opened = self._take()
        node = self._expression(depth)
        if not self._is("sign", ")"):
            raise FilterError("this ( is never closed", opened.at)
        self._take()
        return node

    def _comparison(self) -> Comparison:
        field = self._take()
        if field.kind != "word" or field.text in _KEYWORDS or not _FIELD.fullmatch(field.text):
            raise FilterError(f"the name of a field is expected, not {field}", field.at)
        operator = self._take()
        if operator.kind != "sign" or operator.text not in _COMPARING:
            signs = " ".join(_COMPARING)
            raise FilterError(
                f"after {field} one of {signs} is expected, not {operator}", operator.at
            )
        value = self._take()
        if value.kind not in {"word", "text"} or (value.kind == "word" and value.text in _KEYWORDS):
            raise FilterError(f"after {operator} a value is expected, not {value}", value.at)
        self._comparisons += 1
        if self._comparisons > _MAX_COMPARISONS:
            raise FilterError(f"more than {_MAX_COMPARISONS} comparisons", field.at)
        return Comparison(field.text, operator.text, value.text, value.kind == "text", value.at)


__all__ = [
    "MAX_CHARS",
    "And",
    "Comparison",
    "Field",
    "Fields",
    "Filter",
    "Node",
    "Not",
    "Or",
    "Value",
    "parse",
    "test_of",
]


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


_Test: TypeAlias = Callable[[Any], bool]

_ORDERING: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Filter(Generic[ItemT]):
    """A checked filter: its tree, and whether an item meets it."""

    node: Node
    matches: Callable[[ItemT], bool]


def parse(text: str, fields: Fields[ItemT]) -> Filter[ItemT] | None:
    """The filter that `text` is, of items with these fields; None for an empty one, which all items
    meet.

    Raises FieldError, with the place that is wrong.

    >>> fields = {"value": Field("number", lambda item: item["value"])}
    >>> parse("value < 0.5", fields).matches({"value": 0.2})
    True
    """
    node = read(text)
    return None if node is None else Filter(node, test_of(node, fields))


def test_of(node: Node, fields: Fields[ItemT]) -> Callable[[ItemT], bool]:
    """Whether an item meets a filter, or a part of one.

    Raises FieldError where it cannot be right.
    """
    match node:
        case And(parts):
            tests = [test_of(part, fields) for part in parts]
            return lambda item: all(test(item) for test in tests)
        case Or(parts):
            tests = [test_of(part, fields) for part in parts]
            return lambda item: any(test(item) for test in tests)
        case Not(part):
            test = test_of(part, fields)
            return lambda item: not test(item)
        case Comparison():
            return _comparison_test(node, fields)


def _comparison_test(comparison: Comparison, fields: Fields[ItemT]) -> _Test:
    field, key = field_of(fields, comparison)
    get: Callable[[Any], Any] = field.read if key is None else lambda item: field.read(item, key)
    if comparison.operator == ":" and comparison.value == "*" and not comparison.quoted:
        return lambda item: _is_there(get(item))
    holds = _holds(field, comparison)
    return lambda item: _is_there(value := get(item)) and holds(value)


def _is_there(value: Any) -> bool:
    return value is not None and value != ()


def _holds(field: Field[Any], comparison: Comparison) -> _Test:
    """Whether a value that is there meets a comparison."""
    wanted = value_of(field, comparison)
    if comparison.operator in _ORDERING:
        compare = _ORDERING[comparison.operator]
        return lambda value: bool(compare(value, wanted))
    if comparison.operator == ":" and field.kind in {"text", "texts"}:
        return _contains(field, str(wanted))
    is_equal = _equals(field, wanted)
    return (lambda value: not is_equal(value)) if comparison.operator == "!=" else is_equal


def _contains(field: Field[Any], wanted: str) -> _Test:
    if field.kind == "texts":
        return lambda values: wanted in values
    part = wanted.casefold()
    return lambda value: part in str(value).casefold()


def _equals(field: Field[Any], wanted: Value) -> _Test:
    if (
        field.kind != "text"
        or not isinstance(wanted, str)
        or "*" not in (wanted[:1], wanted[-1:])
        or wanted == "*"
    ):
        return lambda value: bool(value == wanted)
    ends_open, begins_open = wanted.endswith("*"), wanted.startswith("*")
    part = wanted.strip("*")
    if ends_open and begins_open:
        return lambda value: part in value
    return (
        (lambda value: value.startswith(part))
        if ends_open
        else (lambda value: value.endswith(part))
    )
