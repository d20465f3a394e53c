"""Files of OTLP in an object store, by fsspec: copied to disk, since large ones are read twice and
never as a whole.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

from spanscore.errors import InputError, RetryableError, SpanscoreError
from spanscore.otlp import files
from spanscore.private_files import NO_ROOM
from spanscore.sources.location import Location
from spanscore.temporary_files import no_temporary_space, temporary_space

_CHUNK_BYTES: Final = 2**20
_HTTP: Final = ("http", "https")
_BACKENDS: Final = "clickhouse://, jaeger://, mlflow://, phoenix://, tempo://"


def local_path(location: Location) -> Path | None:
    """The path of a `file://` URL; None for every other one.

    Raises InputError where it names a host or no path.
    """
    if location.scheme != "file":
        return None
    parts = urlsplit(location.url, allow_fragments=False)
    if parts.netloc.lower() not in {"", "localhost"} or not parts.path:
        raise InputError(
            f"{location}: write file:///PATH, with three slashes and the whole path, or the path"
            " alone"
        )
    return Path(unquote(parts.path))


def copy(location: Location, folder: Path) -> None:
    """Copy the object of a URL, or all below it that may be telemetry by their names, into an empty
    folder.

    Raises InputError where there is none, or fsspec or the package of its protocol is not
    installed; RetryableError where the store fails; OutputError where the folder has no room.
    """
    try:
        filesystem, root = _opened(location)
        if location.scheme in _HTTP:
            _download(filesystem, root, location, _target(folder, 0, PurePosixPath(root).name))
            return
        for number, (remote, name) in enumerate(_listed(filesystem, root, str(location))):
            with filesystem.open(remote, "rb") as content:
                _write(_target(folder, number, name), _chunks(content, location))
    except SpanscoreError:
        raise
    except Exception as error:  # the package of each protocol has errors of its own
        raise _unreadable(location, error) from error


def _chunks(content: IO[bytes], location: Location) -> Iterator[bytes]:
    try:
        while chunk := content.read(_CHUNK_BYTES):
            yield chunk
    except Exception as error:
        raise _unreadable(location, error) from error


def _write(target: Path, chunks: Iterable[bytes]) -> None:
    with temporary_space(), target.open("wb") as file:
        file.writelines(chunks)


def _unreadable(location: Location, error: Exception) -> InputError | RetryableError:
    is_wrong = isinstance(error, FileNotFoundError | PermissionError)
    kind = InputError if is_wrong else RetryableError
    return kind(f"{location}: cannot be read ({_reason(error, location)})")


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
        known = f"{_BACKENDS}, and files by fsspec such as s3:// or gs://"
        raise InputError(f"{location}: {error}; there are {known}") from None
    return filesystem, str(root)


def _target(folder: Path, number: int, name: str) -> Path:
    target = folder / f"{number:06}" / name
    with temporary_space():
        target.parent.mkdir(parents=True)
    return target


def _download(filesystem: Any, url: str, location: Location, target: Path) -> None:
    """One GET: to ask whether there is a file first would hide why there is none.

    Raises RetryableError where nothing answers, or 429 or 5xx; InputError for any other answer that
    has no file; OutputError where there is no room for it.
    """
    from aiohttp import ClientError, ClientResponseError  # noqa: PLC0415 - slow to import

    from spanscore.sources.http import failure  # noqa: PLC0415 - imports aiohttp

    hint = f"a backend's URL begins with its name: {_BACKENDS}"
    try:
        filesystem.get_file(url, str(target))
    except FileNotFoundError:  # its message is the URL with its password
        raise InputError(f"{location}: answered HTTP 404; {hint}") from None
    except ClientResponseError as error:
        is_busy = error.status == 429 or error.status // 100 == 5
        what = f"{location}: answered HTTP {error.status} {error.message}"
        raise (RetryableError(what) if is_busy else InputError(f"{what}; {hint}")) from None
    except (ClientError, OSError) as error:
        if not isinstance(error, ClientError) and error.errno in NO_ROOM:
            raise no_temporary_space(error.strerror or str(error)) from error
        raise RetryableError(f"{location}: {failure(error)}; {hint}") from None


def _reason(error: Exception, location: Location) -> str:
    """What an error says, without the user and password of the URL, which some repeat."""
    user, at, _ = urlsplit(location.url).netloc.rpartition("@")
    return str(error).replace(user + at, "") or type(error).__name__


def _listed(filesystem: Any, root: str, where: str) -> Iterator[tuple[str, str]]:
    """(path, file name) of one object, or of each below a folder that is telemetry by its name, in
    order.
    """
    if filesystem.isfile(root):
        yield root, PurePosixPath(root).name
        return
    found = sorted(x for x in filesystem.find(root) if files.is_telemetry(PurePosixPath(x).name))
    if not found:
        raise InputError(
            f"{where}: there is no file of telemetry (*.json, *.jsonl, *.pb, or compressed) there"
        )
    for path in found:
        yield path, PurePosixPath(path).name
