"""Gather attributes whose keys contain indices (`prefix.0.role`, `prefix.0.tool_calls.1.name`) into
nested objects.
"""

from typing import Any

from spanscore.model.span import Attributes

_MAX_PATH = 12  # the deepest key of any dialect has seven parts


def indexed(attributes: Attributes, prefix: str) -> list[dict[str, Any]]:
    """The objects `prefix.0`, `prefix.1`, … by index.

    An index is only sorted by, so a huge one costs nothing.

    >>> indexed({"p.1.a.x": 2, "p.0.a": 1, "p.999999999.a": 3, "p.z": 4}, "p.")
    [{'a': 1}, {'a': {'x': 2}}, {'a': 3}]
    """
    root: dict[str, Any] = {}
    start = len(prefix)
    for key, value in attributes.items():
        if key.startswith(prefix):
            path = key[start:].split(".", _MAX_PATH)
            if len(path) > 1 and path[0].isdigit():
                _put(root, path, value)
    return elements(root)


def elements(node: object) -> list[Any]:
    """The values of an object whose keys are indices, by index; empty for anything else."""
    if not isinstance(node, dict):
        return []
    numbered = [(key, value) for key, value in node.items() if key.isascii() and key.isdigit()]
    return [
        value
        for _, value in sorted(numbered, key=lambda x: (len(x[0].lstrip("0")), x[0].lstrip("0")))
    ]


def _put(node: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        child = node.get(part)
        if not isinstance(child, dict):
            # a value and objects below the same key: hostile or broken, the first one stays
            if part in node:
                return
            child = node[part] = {}
        node = child
    node.setdefault(path[-1], value)
