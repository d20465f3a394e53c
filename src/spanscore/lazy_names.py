"""Packages whose names are imported when they are first used.

Which names there are, and where each is from, the package's stub says, `__init__.pyi`: type
checkers read that too.
"""

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

_IMPORT = re.compile(r"^from (\S+) import ([^(\n]+|\([^)]*\))", re.MULTILINE)
_NAME = re.compile(r"(\w+) as \1")


def homes_of(file: str) -> dict[str, str]:
    """The module of each name of the package with this `__init__.py`."""
    with open(f"{file.rpartition('.')[0]}.pyi", encoding="utf-8") as stub:  # noqa: PTH123 - pathlib takes longer than all else
        found = _IMPORT.findall(stub.read())
    homes = {name: module for module, names in found for name in _NAME.findall(names)}
    return dict(sorted(homes.items()))


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names are in the modules of `homes`.

    A module is imported when the first of its names is used, in whichever thread that is.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        item = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, item)  # found directly from now on
        return item

    return find
