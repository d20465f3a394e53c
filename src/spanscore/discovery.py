"""Components found in a package, an entry point or a file."""

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from spanscore.errors import ConfigError


def modules(package: str) -> Iterator[ModuleType]:
    """Import and yield the public modules directly inside `package`, by name; a module `_x` is not
    a component.
    """
    found = importlib.import_module(package)
    for info in sorted(pkgutil.iter_modules(found.__path__), key=lambda x: x.name):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{package}.{info.name}")


def names(package: str) -> list[str]:
    """The names of the public modules directly inside `package`, none of which is imported."""
    root, *inner = package.split(".")
    folders = [str(Path(folder, *inner)) for folder in importlib.import_module(root).__path__]
    return sorted(x.name for x in pkgutil.iter_modules(folders) if not x.name.startswith("_"))


def is_extended(group: str) -> bool:
    """Whether installed distributions declare any entry point in `group`; none is loaded."""
    return bool(entry_points(group=group))


def registered(group: str) -> Iterator[tuple[str, object]]:
    """Yield (name, object) of every entry point that installed distributions declare in `group`, by
    name.

    Raises ConfigError where one cannot be loaded.
    """
    for point in sorted(entry_points(group=group), key=lambda x: x.name):
        try:
            item = point.load()
        except Exception as error:  # another distribution's module may raise whatever it likes
            raise ConfigError(
                f"entry point {point.name!r} of group {group!r} cannot be loaded"
                f" ({type(error).__name__}: {error}): mend {point.value!r}, or uninstall what"
                " brings it"
            ) from error
        yield point.name, item


def plugin(name: str, folder: Path) -> ModuleType:
    """Import what a user names: a module, or a file `*.py`, whose path is relative to `folder`.

    A file is run once, and again after it has changed. Raises ConfigError, with the line of the
    file, where it cannot be imported.
    """
    if name.endswith(".py"):
        return _from_file((folder / Path(name).expanduser()).resolve(), name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(_broken(name, error)) from error
        raise ConfigError(
            f"{name}: there is no such module; install the package that has it beside spanscore, or"
            f" name a file, such as ./{name.rpartition('.')[2]}.py"
        ) from None
    except (Exception, SystemExit) as error:  # the user's module may raise whatever it likes
        raise ConfigError(_broken(name, error)) from error


def _from_file(path: Path, name: str) -> ModuleType:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{name}: {error.strerror or error} ({path}); name a Python file that can be read"
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    of_path = hashlib.sha256(str(path).encode("utf-8", "surrogatepass")).hexdigest()
    key = f"spanscore_plugin_{of_path[:16]}"
    loaded = sys.modules.get(key)
    if loaded is not None and vars(loaded).get("__spanscore_digest__") == digest:
        return loaded
    spec = importlib.util.spec_from_file_location(key, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{name}: Python cannot import this file; name one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module  # where dataclasses and annotations look for their module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[key]
        raise ConfigError(_broken(name, error, path)) from error
    vars(module)["__spanscore_digest__"] = digest
    return module


def _broken(name: str, error: BaseException, path: Path | None = None) -> str:
    """What is wrong with a user's module, and in which of its lines."""
    lines = [
        x.lineno
        for x in traceback.extract_tb(error.__traceback__)
        if path and x.filename == str(path)
    ]
    if isinstance(error, SyntaxError) and path and error.filename == str(path):
        lines = [error.lineno]
    where = f", line {lines[-1]}" if lines else ""
    return f"{name}{where}: {type(error).__name__}: {error}; mend it, or take it out"
