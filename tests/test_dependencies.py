"""What is imported is declared: a tool of the development must not lend the package a library that
users lack.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BORROWED = {
    "opentelemetry-api",  # a process that is instrumented has it
    "opentelemetry-exporter-otlp-proto-grpc",  # the demo sends with it where it is there
    "opentelemetry-exporter-otlp-proto-http",  # likewise
    "opentelemetry-sdk",  # likewise
    "pytest",  # it loads the plugin, and nothing else does
    "protobuf-py-pure",  # what connectrpc's errors are made of, and comes with it
    "pydantic-core",  # one version of pydantic has one of it
}

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that a file imports, or names in them, but for those that it can do without."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Try) and any(
            "ImportError" in ast.unparse(x.type) for x in node.handlers if x.type
        ):
            continue
        if isinstance(node, ast.Import):
            yield from (x.name for x in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{x.name}" for x in node.names)
        else:
            yield from imported(node)


def declared():
    """What pyproject.toml says is needed, extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [
        *project["dependencies"],
        *(y for x in project["optional-dependencies"].values() for y in x),
    ]
    return {normal(_NAME.match(x)[0]) for x in listed}


def normal(distribution):
    return re.sub(r"[-_.]+", "-", distribution).lower()


def modules_of(distribution):
    """The modules that a distribution has installed; none where it is not there."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:  # of an extra that is not installed
        return
    for path in files:
        if path.suffix in (".py", ".so"):
            parts = [*path.parts[:-1], path.name.partition(".")[0]]
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.slow
def test_what_is_imported_is_declared():
    names = {
        x for path in (ROOT / "src").rglob("*.py") for x in imported(ast.parse(path.read_text()))
    }
    others = {
        x for x in names if x.partition(".")[0] not in (*sys.stdlib_module_names, "spanscore")
    }
    there = {
        module for distribution in declared() | BORROWED for module in modules_of(distribution)
    }
    assert {x for x in others if not {x, x.rpartition(".")[0]} & there} == set()
