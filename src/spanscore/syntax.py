"""Python's syntax trees, parsed in one thread."""

import ast
import inspect
import os
import textwrap
import threading
from typing import Literal, overload

_parsing = threading.RLock()


@overload
def syntax_tree(source: str) -> ast.Module: ...


@overload
def syntax_tree(source: str, mode: Literal["eval"]) -> ast.Expression: ...


def syntax_tree(source: str, mode: str = "exec") -> ast.AST:
    """`ast.parse(source, mode=mode)`, for processes with threads.

    Before Python 3.11.8 its depth is counted for the whole process: where a collection of garbage
    lets another thread parse meanwhile, it raises a SystemError for sound source
    (https://github.com/python/cpython/issues/106905).

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: As `ast.parse` does.
    """
    with _parsing:
        return ast.parse(source, mode=mode)


def tree_of(kind: type) -> ast.Module:
    """The syntax tree of a class; `inspect.getsource`, too, parses, the whole file.

    Raises:
        OSError, TypeError: The source is not there.
        SyntaxError: It is not Python on its own.
    """
    with _parsing:
        return ast.parse(textwrap.dedent(inspect.getsource(kind)))


if hasattr(os, "register_at_fork"):  # a lock that is held while a process forks is never let go
    os.register_at_fork(
        before=_parsing.acquire, after_in_parent=_parsing.release, after_in_child=_parsing.release
    )
