"""Read objects that Python printed, as instrumentations record what does not serialize: by syntax,
never by eval.
"""

import ast
import re
from typing import Any

from spanscore.dialects.forms.structure import MAX_DEPTH, literal, opened
from spanscore.model.json import Json
from spanscore.syntax import syntax_tree

_MAX_CHARS = 64 * 1024
REPR_CONTAINERS = ("{", "[", "(")
"""How containers begin that Python printed."""

_WORDS = frozenset({"True", "False", "None"})
# Possessive, and up to the end where the closing quote is missing: so no text is scanned from each
# of its quotes.
STRING = r"""'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)"""
WHOLE_STRING = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\""""
_INNER = r"<[^<>'\"]*+>"
_OBJECT = rf"<(?:[^<>'\"]|{STRING}|<(?:[^<>'\"]|{STRING}|{_INNER})*+>)*+>"
"""What Python prints of an object by `<…>`: three deep, as a method of an object of a class inside
of a function is.
"""

_TOKEN = re.compile(rf"({STRING})|<[\w.]+: ({STRING}|-?\d+)>|{_OBJECT}", re.DOTALL)
_ADDRESS = re.compile(r"<[\w.]+(?: object)?(?: [\w.<>]+)? at 0x[0-9a-fA-F]+>")
_MAX_ADDRESS_CHARS = 500
_QUOTED = re.compile(STRING, re.DOTALL)


def opened_repr(text: object) -> Any:
    """The value that `text` prints; None for what is no value that Python prints.

    An object becomes a dict of its named fields, a member of an enumeration its value, and an
    object that prints as nothing but its address None.

    >>> opened_repr(
    ...     "Part(role=<Role.USER: 'user'>, sizes=[Size(a='<hi>', b=-1)], at=<object at 0x7f>)"
    ... )
    {'role': 'user', 'sizes': [{'a': '<hi>', 'b': -1}], 'at': None}
    """
    if not isinstance(text, str) or len(text) > _MAX_CHARS:
        return None
    try:
        return _value(syntax_tree(_TOKEN.sub(_plain, text.strip()), mode="eval").body, 0)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def is_address(text: str) -> bool:
    """Whether it is an object as Python prints it by its address alone, and no text of a message.

    >>> (
    ...     is_address("<groq.Stream object at 0x7fa7cd29e810>"),
    ...     is_address("<coroutine object answer at 0x7fa7>"),
    ... )
    (True, True)
    >>> is_address("<b>at 0x7fa7</b>")
    False
    """
    return (
        text[:1] == "<" and len(text) <= _MAX_ADDRESS_CHARS and _ADDRESS.fullmatch(text) is not None
    )


def unprinted(value: Any) -> Json:
    """What a tool returned, where its framework makes text of it by str().

    >>> (
    ...     unprinted("{'result': None}"),
    ...     unprinted("False"),
    ...     unprinted("00042"),
    ...     unprinted("None left"),
    ... )
    ({'result': None}, False, '00042', 'None left')
    """
    return evaluated(opened(value))


def evaluated(value: Json) -> Json:
    """`value`, or where it is text that str() made of a container or a word such as True, what that
    was.
    """
    if isinstance(value, str) and (value in _WORDS or value.startswith(REPR_CONTAINERS)):
        return literal(value)
    return value


def quoted(text: str, start: int) -> tuple[str, int] | None:
    """The string literal at `start` of a printed object, as its value, and where it ends; None
    where there is none.
    """
    found = _QUOTED.match(text, start)
    value = opened_repr(found[0]) if found else None
    return (value, found.end()) if found and isinstance(value, str) else None


def _plain(found: re.Match[str]) -> str:
    return found[1] or found[2] or "None"


def _value(node: ast.expr, depth: int) -> Any:
    """The value of a node; raises ValueError for syntax that no printed value has."""
    if depth > MAX_DEPTH:
        raise ValueError
    if isinstance(node, ast.Constant):
        return (
            node.value
            if isinstance(node.value, (str, bool, int, float, type(None)))
            else repr(node.value)
        )
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [_value(x, depth + 1) for x in node.elts]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {str(_value(k, depth + 1)): _value(v, depth + 1) for k, v in pairs if k is not None}
    if isinstance(node, ast.Call):
        return {x.arg: _value(x.value, depth + 1) for x in node.keywords if x.arg}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value(node.operand, depth + 1)
        return -number if isinstance(number, (int, float)) else None
    if isinstance(node, ast.Name):  # nan, inf
        return node.id
    raise ValueError
