"""The page of the public API: every name with its signature, as it is written in the code, and its
docstring.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = {
    "spanscore": (
        "What an agent's author, a script and a notebook use. Each name is imported when it is"
        " first used."
    ),
    "spanscore.errors": "What is raised on purpose.",
    "spanscore.report": (
        "A run as one HTML file. `Report.to_html` and `spanscore report` are made of it."
    ),
    "spanscore.testing": (
        "What authors of metrics and dialects test theirs with. See"
        " [own-metrics.md](own-metrics.md)."
    ),
    "spanscore.dialects.reading": (
        "What a dialect is written with. See [add-a-dialect.md](add-a-dialect.md)."
    ),
}

_INTRODUCTION = """\
# The public API

<!-- written by `make docs` from the code: change the code, not this page -->

Every public name. What is not here may change at any time; what is here changes on purpose only, \
with a line in the
[changelog](../CHANGELOG.md). All of it is typed (`py.typed`).
"""

_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for path, about in MODULES.items():
        module = importlib.import_module(path)
        parts += [f"## {path}\n", f"{about}\n"]
        parts += [f"### {name}\n\n{_entry(module, name)}" for name in public_names(module)]
    return "\n".join(parts)


def signatures() -> str:
    """Every public name with its signature and nothing else, one after the other."""
    modules = map(importlib.import_module, MODULES)
    names = [(module, name) for module in modules for name in public_names(module)]
    blocks = [
        f"{module.__name__}.{name}\n{_indented(code(module, name))}" for module, name in names
    ]
    return "\n".join(blocks)


def public_names(module: ModuleType) -> list[str]:
    """The names that a module makes public: those in its `__all__`, else what it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [x for x in listed if not x.startswith("__")]
    own = (
        x for x in vars(module).values() if inspect.isclass(x) and x.__module__ == module.__name__
    )
    return [x.__name__ for x in own]


def _entry(module: ModuleType, name: str) -> str:
    return f"```py\n{code(module, name)}\n```\n\n{_prose(docstring(module, name))}\n"


def docstring(module: ModuleType, name: str) -> str:
    """What is said of a public name, "" where nothing is."""
    found = getattr(module, name)
    if inspect.isclass(found) or inspect.isroutine(found):
        return inspect.getdoc(found) or ""
    home, node = _home(module, name)
    body = home.body
    after = (
        body[body.index(node) + 1] if node in body and body.index(node) + 1 < len(body) else None
    )
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        return inspect.cleandoc(str(after.value.value))
    return ""


def _prose(docstring: str) -> str:
    """A docstring as Markdown: its examples in fences."""
    paragraphs = re.split(r"\n\s*\n", docstring)
    return "\n\n".join(f"```pycon\n{x}\n```" if x.startswith(">>>") else x for x in paragraphs)


def code(module: ModuleType, name: str) -> str:
    """A public name as it is written in the code, without what is not public."""
    home, node = _home(module, name)
    if isinstance(node, ast.ClassDef):
        return _class(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return "\n".join(_function(x) for x in _with_overloads(home.body, node))
    if isinstance(node, ast.Assign) and _text(node.value) == f"waiting({name}_async)":
        return code(module, f"{name}_async").replace(f"async def {name}_async", f"def {name}")
    return _text(node)


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text(encoding="utf-8"))


def _home(module: ModuleType, name: str) -> tuple[ast.Module, Any]:
    """The module that defines a name, and the definition there."""
    found = getattr(module, name)
    homes = getattr(module, "_HOMES", {})
    is_defined = inspect.isclass(found) or inspect.isfunction(found)
    # an error may say that it is of the package
    says_where = is_defined and found.__module__ != module.__name__
    home = importlib.import_module(
        found.__module__ if says_where else homes.get(name, module.__name__)
    )
    tree = _tree(str(home.__file__))
    defined = found.__name__ if is_defined else name
    node = next((x for x in reversed(tree.body) if defined in _names(x)), None)
    return (tree, node) if node is not None else _home(_imported_from(tree, name), name)


def _imported_from(tree: ast.Module, name: str) -> ModuleType:
    """The module from which another one has a name."""
    imports = (x for x in tree.body if isinstance(x, ast.ImportFrom))
    return importlib.import_module(
        next(str(x.module) for x in imports if name in {y.name for y in x.names})
    )


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, _Definition):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {x.id for x in node.targets if isinstance(x, ast.Name)}
    return (
        {node.target.id}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        else set()
    )


def _with_overloads(body: list[ast.stmt], node: Any) -> list[Any]:
    """The overloads of a function, which are what its callers see; the function itself where it has
    none.
    """
    same = [
        x
        for x in body
        if isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef) and x.name == node.name
    ]
    return [x for x in same if any(_last(y) == "overload" for y in x.decorator_list)] or [node]


def _last(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return _text(called).rpartition(".")[2]


def _function(node: Any) -> str:
    prefix = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returned = f" -> {_text(node.returns)}" if node.returns else ""
    line = f"{prefix} {node.name}({', '.join(_arguments(node.args))}){returned}: ..."
    return line if len(line) <= 100 else _broken(f"{prefix} {node.name}", node.args, returned)


def _broken(head: str, arguments: ast.arguments, returned: str) -> str:
    """A signature with an argument on each line."""
    one_each = _arguments(arguments)
    return "\n".join([f"{head}(", *(f"    {x}," for x in one_each), f"){returned}: ..."])


def _arguments(given: ast.arguments) -> Iterator[str]:
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    for number, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        yield _argument(argument, default)
        if given.posonlyargs and number == len(given.posonlyargs) - 1:
            yield "/"
    if given.vararg:
        yield f"*{_argument(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(argument, default)
    if given.kwarg:
        yield f"**{_argument(given.kwarg, None)}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    text = _text(argument)
    if default is None:
        return text
    return f"{text} = {_text(default)}" if argument.annotation else f"{text}={_text(default)}"


def _class(node: ast.ClassDef) -> str:
    """A class with its public fields, properties and methods."""
    decorators = [f"@{_text(x)}" for x in node.decorator_list]
    bases = ", ".join(_text(x) for x in node.bases)
    head = f"class {node.name}{f'({bases})' if bases else ''}:"
    is_made = any(x.startswith("@dataclass") for x in decorators)
    members = [y for x in node.body for y in _member(x, takes_init=not is_made)]
    return "\n".join([*decorators, head, *map(_indented, members or ["..."])])


def _member(node: ast.stmt, *, takes_init: bool) -> Iterator[str]:
    if isinstance(node, ast.AnnAssign) and not _text(node.target).startswith("_"):
        yield _text(node)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        is_public = not node.name.startswith("_") or node.name in {
            "__enter__",
            "__aenter__",
            "__call__",
        }
        if is_public or (takes_init and node.name == "__init__"):
            kinds = [
                f"@{_last(x)}\n"
                for x in node.decorator_list
                if _last(x) in {"classmethod", "property", "staticmethod"}
            ]
            yield "".join(kinds) + _function(node)


def _text(node: ast.AST) -> str:
    """The code of `node`, its strings in double quotes."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', ast.unparse(node))


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ")
