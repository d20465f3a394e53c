"""Find the components of a collection: the modules of a package, and what other distributions register for it."""

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import ModuleType

from spanscore.errors import ConfigError


def modules(package: str) -> Iterator[ModuleType]:
    """Import and yield the public modules directly inside `package`, by name; a module `_x` is not a component."""
    found = importlib.import_module(package)
    for info in sorted(pkgutil.iter_modules(found.__path__), key=lambda x: x.name):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{package}.{info.name}")


def registered(group: str) -> Iterator[tuple[str, object]]:
    """Yield (name, object) of every entry point that installed distributions declare in `group`, by name.

    Raises ConfigError where one cannot be loaded.
    """
    for point in sorted(entry_points(group=group), key=lambda x: x.name):
        try:
            item = point.load()
        except Exception as error:  # another distribution's module may raise whatever it likes
            raise ConfigError(
                f"entry point {point.name!r} of group {group!r} cannot be loaded ({type(error).__name__}: {error}): "
                f"mend {point.value!r}, or uninstall what brings it"
            ) from error
        yield point.name, item
