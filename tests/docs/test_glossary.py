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
# what any program has, the names of metrics, and parts of other projects' names
GENERAL = frozenset(
    {
        *("action", "analytic", "api", "attribute", "backend", "cache", "change", "config"),
        *("connection", "document", "error", "event", "file", "given", "http", "index", "key"),
        *("limit", "lock", "loop", "name", "notice", "option", "page", "port", "proces", "query"),
        *("queue", "reader", "recorded", "report", "response", "result", "scheduler"),
        *("selection", "server", "service", "statu", "summary", "table", "text", "thread"),
        *("token", "version"),
        *("completion", "correctnes", "openinference", "openllmetry"),
    }
)
GENERATED = ROOT / "src/spanscore/api/v1"


@pytest.mark.parametrize("name", NAMES_IN_CODE)
def test_what_the_glossary_names_is_in_the_code(name):
    assert pkgutil.resolve_name(name) is not None


def test_each_term_is_defined_once():
    words = [word.strip() for term in TERMS for word in term.split(",")]
    assert [x for x in words if words.count(x) > 1] == []


@pytest.mark.slow
def test_no_name_in_the_code_has_a_word_that_is_not_used():
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "src").rglob("*.py")
        if GENERATED not in path.parents
        for name in names_in(path)
        if words_of(name) & OLD_WORDS
    }
    assert not found, "docs/glossary.md has the words to use"


@pytest.mark.slow
def test_the_nouns_of_modules_and_classes_are_in_the_glossary():
    known = {word for term in TERMS for word in words_of(term)} | GENERAL
    named = {}
    for path in (ROOT / "src").rglob("*.py"):
        if GENERATED not in path.parents:
            for name in public_things_in(path):
                named.setdefault(noun_of(name), set()).add(name)
    missing = {
        noun: sorted(names)
        for noun, names in named.items()
        if len(names) >= 4 and noun not in known and not noun.endswith("ing")
    }
    assert missing == {}, "docs/glossary.md defines the nouns of the domain"


def public_things_in(path):
    """The module, but for a private one, and its classes, each with what tells it from others."""
    place = path.relative_to(ROOT / "src")
    if not path.stem.startswith("_"):
        yield f"{place.parent}/{path.stem}"
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def noun_of(name):
    """The last word of a name, without the s of a plural."""
    last = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name.rpartition("/")[2])[-1].lower()
    return last.removesuffix("s")


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
