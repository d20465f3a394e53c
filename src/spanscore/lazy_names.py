"""Packages whose public names are imported when they are first used, so that nobody waits for, or
has in memory, what is not used.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


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
