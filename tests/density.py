"""Count the branch points of each function, and refuse a function that has more than a reader can
follow.

A branch point is an `if`, a loop, an `and` or `or`, a conditional expression, a comprehension and
each of its conditions, an `except`, and a `case`. A function inside another one is counted by
itself, a lambda with what is around it. Run it as `python tests/density.py`; `make lint` does.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

CAP = 15
"""Branch points of one function, at most."""

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/spanscore"
GENERATED = SOURCE / "api/v1"

_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.IfExp, ast.ExceptHandler, ast.match_case)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def branch_points(function: ast.AST) -> int:
    """The branch points of a function, without those of functions and classes that are defined
    inside it.
    """
    return sum(_own(node) + branch_points(node) for node in _inner(function))


def _inner(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            yield child


def _own(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    return int(isinstance(node, _BRANCHES))


def functions(node: ast.AST, path: str) -> Iterator[tuple[str, int]]:
    """The name and the branch points of each function below `node`; a name is
    `module.py::Class.method`.
    """
    for child in ast.iter_child_nodes(node):
        inner = path
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            inner = f"{path}.{child.name}" if "::" in path else f"{path}::{child.name}"
        if isinstance(child, _FUNCTIONS):
            yield inner, branch_points(child)
        yield from functions(child, inner)


def measured(source: Path = SOURCE) -> dict[str, int]:
    """The branch points of each hand-written function below a folder, by its name."""
    found: dict[str, int] = {}
    for path in sorted(source.rglob("*.py")):
        if GENERATED not in path.parents:
            found |= dict(
                functions(
                    ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(source))
                )
            )
    return found


def problems(counts: Mapping[str, int]) -> Iterator[str]:
    """The functions that are too dense."""
    for name, count in counts.items():
        if count > CAP:
            yield (
                f"{name} has {count} branch points, {CAP} are allowed: split it, or say it in"
                " plainer steps"
            )


def main() -> int:
    found = list(problems(measured()))
    sys.stderr.writelines(f"{problem}\n" for problem in found)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
