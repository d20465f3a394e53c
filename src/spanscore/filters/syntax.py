"""A filter's text as a tree of comparisons."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from spanscore.errors import FieldError

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
        text = self.text if len(self.text) <= _SHOWN_CHARS else f"{self.text[:_SHOWN_CHARS]}…"
        return "the end" if self.kind == "end" else repr(text)


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
