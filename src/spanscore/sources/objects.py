"""Files of OTLP in an object store, by fsspec: copied to disk, since large ones are read twice and never as a whole."""

import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from spanscore.errors import InputError, RetryableError
from spanscore.otlp import files
from spanscore.sources.location import Location

_CHUNK_BYTES: Final = 2**20


def local_path(location: Location) -> Path | None:
    """The path of a `file://` URL; None for every other one."""
    if location.scheme != "file":
        return None
    return Path(unquote(urlsplit(location.url).path))


def copy(location: Location, folder: Path) -> None:
    """Copy the object of a URL, or all below it that may be telemetry by their names, into an empty folder.

    Raises InputError where there is none, or fsspec or the package of its protocol is not installed; RetryableError
    where the store fails.
    """
    filesystem, root = _opened(location)
    try:
        for number, (remote, name) in enumerate(_listed(filesystem, root, str(location))):
            target = folder / f"{number:06}" / name
            target.parent.mkdir(parents=True)
            with filesystem.open(remote, "rb") as content, target.open("wb") as file:
                shutil.copyfileobj(content, file, _CHUNK_BYTES)
    except (FileNotFoundError, PermissionError) as error:
        raise InputError(f"{location}: cannot be read ({error})") from None
    except OSError as error:
        raise RetryableError(f"{location}: cannot be read ({error})") from None


def _opened(location: Location) -> tuple[Any, str]:
    try:
        import fsspec  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError(f"{location}: needs fsspec: pip install 'spanscore[objects]'") from None
    try:
        filesystem, root = fsspec.core.url_to_fs(location.url)
    except ImportError as error:
        raise InputError(f"{location}: {error}") from None
    except ValueError as error:
        known = "clickhouse://, jaeger://, mlflow://, phoenix://, tempo://, and files by fsspec such as s3:// or gs://"
        raise InputError(f"{location}: {error}; there are {known}") from None
    return filesystem, str(root)


def _listed(filesystem: Any, root: str, where: str) -> Iterator[tuple[str, str]]:
    """(path, file name) of one object, or of each below a folder that is telemetry by its name, in order."""
    if filesystem.isfile(root):
        yield root, PurePosixPath(root).name
        return
    found = sorted(x for x in filesystem.find(root) if files.is_telemetry(PurePosixPath(x).name))
    if not found:
        raise InputError(f"{where}: there is no file of telemetry (*.json, *.jsonl, *.pb, or compressed) there")
    for path in found:
        yield path, PurePosixPath(path).name
