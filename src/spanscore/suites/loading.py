"""A suite file read and checked: one line for each thing that is wrong, with the file, the line and
the key.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from spanscore.config_errors import explain
from spanscore.errors import InputError
from spanscore.suites.suite import Suite

_MAX_FILE_BYTES = 16 * 2**20
_MAX_VALUES = 2_000_000
_MAX_PROBLEMS = 20
_WHOLE = "the suite"


def load(path: Path) -> Suite:
    """Read a suite file. Raises InputError."""
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {_MAX_FILE_BYTES} bytes; this is no suite")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror or error}; name a suite file that can be read"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from error
    return parse(text, str(path))


def parse(text: str, name: str = "suite") -> Suite:
    """Read the text of a suite; `name` stands in front of error messages. Raises InputError."""
    root, data = _read(text, name)
    if data is None:
        raise InputError(f"{name}: empty; a suite has a name and cases")
    if not isinstance(data, dict):
        raise InputError(
            f"{name}: expected keys such as `cases:` at the top, found a {type(data).__name__}"
        )
    try:
        return Suite.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        lines = [
            f"{name}{_line(root, x['loc'])}: {explain(x, Suite, _WHOLE)}"
            for x in problems[:_MAX_PROBLEMS]
        ]
        if len(problems) > _MAX_PROBLEMS:
            lines.append(f"{name}: and {len(problems) - _MAX_PROBLEMS} more")
        raise InputError("\n".join(lines)) from error


def _read(text: str, name: str) -> tuple[yaml.Node | None, Any]:
    """The text as YAML's nodes, which know their lines, and as values. Raises InputError."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)
        if root is not None:
            _refuse_traps(root, name)
        return root, yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{name}{_line_of(error)}: not YAML: {_yaml_problem(error)}") from error
    except RecursionError as error:
        raise InputError(f"{name}: nested too deeply; this is no suite") from error
    except ValueError as error:  # such as a date that there is not
        raise InputError(f"{name}: not YAML: {error}") from error


def json_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a suite file, for editors and CI."""
    return {
        **Suite.model_json_schema(),
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "spanscore test suite",
    }


def _refuse_traps(root: yaml.Node, name: str) -> None:
    """Refuse what would fill the memory once read, and what YAML would read in silence as something
    else.
    """
    if _count(root, {}) > _MAX_VALUES:
        raise InputError(
            f"{name}: its anchors stand for more than {_MAX_VALUES:,} values; this is no suite"
        )
    for key in _repeated(root, set()):
        raise InputError(
            f"{name}:{key.start_mark.line + 1}: the key {key.value!r} is there twice; keep one"
        )


def _line_of(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f":{mark.line + 1}"


def _yaml_problem(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or str(error)
    context = getattr(error, "context", None)
    text = " ".join(f"{context + ', ' if context else ''}{problem}".split())
    return f"{text}; indent with spaces, not with tabs" if "'\\t'" in text else text


def _line(node: yaml.Node | None, location: Sequence[str | int]) -> str:
    """`:12` for what stands on line 12 at `location`, or for the nearest that holds it."""
    line = None
    for part in location:
        found = next(_children(node, part), None)
        if found is None:
            continue  # pydantic names more than the file has, such as the kind of a value
        line, node = found
    return "" if line is None else f":{line + 1}"


def _children(node: yaml.Node | None, part: str | int) -> Iterator[tuple[int, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                yield key.start_mark.line, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        yield node.value[part].start_mark.line, node.value[part]


def _count(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for once its aliases are written out; each node is looked at
    once.
    """
    if id(node) not in known:
        known[id(node)] = 1  # what holds itself is refused by the reader
        known[id(node)] += sum(_count(x, known) for x in _nested(node))
    return known[id(node)]


def _repeated(node: yaml.Node, seen: set[int]) -> Iterator[yaml.ScalarNode]:
    """The keys that stand in one mapping once more, of which YAML would silently take the last."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    yield key
                keys.add(key.value)
    for inner in _nested(node):
        yield from _repeated(inner, seen)


def _nested(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        yield from (x for pair in node.value for x in pair)
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
