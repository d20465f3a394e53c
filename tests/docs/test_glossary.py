"""The glossary and the code use the same words."""

import ast
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs/glossary.md").read_text()
USED, UNUSED = GLOSSARY.split("## Words that are not used")
TERMS = [x for x in re.findall(r"^\| ([^|]+) \|", USED, re.MULTILINE) if x != "term"]
NAMES_IN_CODE = sorted(set(re.findall(r"`(spanscore(?:\.\w+)+)`", USED)))
OLD_WORDS = {
    word.strip()
    for cell in re.findall(r"^\| ([^|-]+) \|", UNUSED, re.MULTILINE)[1:]
    for word in cell.split(",")
}
GENERATED = ROOT / "src/spanscore/api/v1"


@pytest.mark.parametrize("name", NAMES_IN_CODE)
def test_what_the_glossary_names_is_in_the_code(name):
    assert pkgutil.resolve_name(name) is not None


def test_each_term_is_defined_once():
    words = [word.strip() for term in TERMS for word in term.split(",")]
    assert [x for x in words if words.count(x) > 1] == []


def test_no_name_in_the_code_has_a_word_that_is_not_used():
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "src").rglob("*.py")
        if GENERATED not in path.parents
        for name in names_in(path)
        if words_of(name) & OLD_WORDS
    }
    assert not found, "docs/glossary.md has the words to use"


def names_in(path):
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def words_of(name):
    """The words of a name, with and without the s of a plural."""
    words = {x.lower() for x in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    return words | {x.removesuffix("s") for x in words}
