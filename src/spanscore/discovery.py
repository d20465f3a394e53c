"""Find the components of a collection: the modules of a package, and what other distributions register for it."""

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import ModuleType


def modules(package: str) -> Iterator[ModuleType]:
    """Import and yield the public modules directly inside `package`, by name; a module `_x` is not a component."""
    found = importlib.import_module(package)
    for info in sorted(pkgutil.iter_modules(found.__path__), key=lambda x: x.name):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{package}.{info.name}")


def registered(group: str) -> Iterator[tuple[str, object]]:
    """Yield (name, object) of every entry point that installed distributions declare in `group`, by name."""
    for point in sorted(entry_points(group=group), key=lambda x: x.name):
        yield point.name, point.load()
