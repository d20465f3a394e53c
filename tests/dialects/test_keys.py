"""The keys of the conventions are constants in one place."""

import ast
from pathlib import Path

import pytest

from spanscore import dialects
from spanscore.dialects import keys

FOLDER = Path(dialects.__file__).parent
KEYS = {value: f"{keys.__name__}.{name}" for name, value in vars(keys).items() if name.isupper()}
FILES = sorted(x for x in FOLDER.rglob("*.py") if x != FOLDER / "keys.py")


def texts(tree):
    """The strings of a module, without docstrings and other strings that stand alone."""
    alone = {id(x.value) for x in ast.walk(tree) if isinstance(x, ast.Expr)}
    return [
        x
        for x in ast.walk(tree)
        if isinstance(x, ast.Constant) and isinstance(x.value, str) and id(x) not in alone
    ]


@pytest.mark.slow
def test_no_module_has_a_literal_of_a_key():
    found = [
        f"{path.relative_to(FOLDER)}:{x.lineno}: use {KEYS[x.value]}"
        for path in FILES
        for x in texts(ast.parse(path.read_text()))
        if x.value in KEYS
    ]
    assert found == []


def test_a_key_is_one_constant():
    values = [value for name, value in vars(keys).items() if name.isupper()]
    assert len(values) == len(set(values))


def test_a_constant_is_named_after_its_key():
    def named(key):
        return key.rstrip(".").upper().replace(".", "_") + ("_PREFIX" if key.endswith(".") else "")

    assert {x: name.rpartition(".")[2] for x, name in KEYS.items()} == {x: named(x) for x in KEYS}
