"""Stored traces as a stream, the oldest first."""

import asyncio
import contextlib
import logging
import shutil
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from spanscore.errors import InputError, RetryableError, SpanscoreError
from spanscore.local_files import NO_ROOM
from spanscore.otlp import files
from spanscore.otlp.files import Telemetry
from spanscore.sources import opened
from spanscore.sources.location import Location
from spanscore.sources.port import Found, Query, Source, Stored
from spanscore.temporary_files import no_temporary_space, temporary_folder, temporary_space

T = TypeVar("T")


class Stopped:
    """Whether reading is to end: `set` also ends the request that is under way. Thread-safe."""

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._cancel: Callable[[], object] | None = None

    def __bool__(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """End reading."""
        with self._lock:
            self._is_set = True
            if self._cancel is not None:
                self._cancel()

    @contextmanager
    def ends(self, cancel: Callable[[], object]) -> Iterator[None]:
        """While inside, `set` calls `cancel`."""
        with self._lock:
            self._cancel = cancel
        try:
            yield
        finally:
            with self._lock:
                self._cancel = None


def stored_traces(
    location: Location, stopped: Stopped | None = None, source: Source | None = None
) -> Iterator[Stored]:
    """The traces that a backend's URL names, by their start; see `reading.read`.

    Not to be called in an event loop.
    """
    source = source or opened(location)
    found = read(source, location.query, str(location))
    return _in_own_loop(_closing(source, found), stopped or Stopped())


def add(found: Telemetry, stored: Stored) -> None:
    """Add one trace."""
    found.spans += stored.spans
    found.logs += stored.logs
    found.refused += stored.refused
    if stored.truncated:
        found.truncated[stored.trace_id] = stored.truncated


@contextmanager
def copies(location: Location) -> Iterator[Path]:
    """A folder with what a URL of files names, for as long as the context lasts; local files stay
    where they are.
    """
    if (local := local_path(location)) is not None:
        yield local
        return
    folder = temporary_folder("spanscore-source-")
    try:
        copy(location, folder)
        yield folder
    except InputError as error:
        raise InputError(str(error).replace(str(folder), str(location))) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _closing(source: Source, items: AsyncIterator[Stored]) -> AsyncIterator[Stored]:
    try:
        async for item in items:
            yield item
    finally:
        await source.close()


def _in_own_loop(items: AsyncIterator[T], stopped: Stopped) -> Iterator[T]:
    """What an async iterator gives, its loop running only while the next item is waited for."""
    loop = asyncio.new_event_loop()
    try:
        while not stopped:
            task: asyncio.Task[Any] = loop.create_task(_next(items))
            with stopped.ends(lambda task=task: loop.call_soon_threadsafe(task.cancel)):  # type: ignore[misc]
                try:
                    item = loop.run_until_complete(task)
                except (StopAsyncIteration, asyncio.CancelledError):
                    return
            yield item[0]
    finally:
        with contextlib.suppress(RuntimeError):
            loop.run_until_complete(items.aclose())  # type: ignore[attr-defined] # a generator has it
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _next(items: AsyncIterator[T]) -> tuple[T]:
    return (await anext(items),)


_log = logging.getLogger(__name__)

MAX_TRACES: Final = 1_000_000
"""Traces whose ids are in memory at once; a query that finds more is refused."""

_AT_ONCE: Final = 4
"""Traces that are fetched side by side."""


async def read(source: Source, query: Query, where: str) -> AsyncIterator[Stored]:
    """The traces of `source` that `query` accepts, by their start; with a limit the newest of them.

    What is fetched is held against all of the query, whatever the source did itself. `where` names
    it in messages. Raises InputError where there are too many traces, and what the source raises.
    """
    _log_filters(source, query, where)
    chosen = await _chosen(source, query, where)
    chosen.sort(key=lambda x: (x.start_ns, x.trace_id))
    is_exact = _is_exact(source, query)
    async for stored in _fetched(source, iter(chosen)):
        # What is missing of a truncated trace may be what the search found it by.
        if query.accepts(stored.spans, stored.logs) or (is_exact and stored.truncated):
            yield stored


async def _chosen(source: Source, query: Query, where: str) -> list[Found]:
    """The traces that are wanted, as many as the limit says; where the source cannot say, they are
    looked at.
    """
    chosen: list[Found] = []
    if query.limit is None or _is_exact(source, query):
        async for found in _find(source, query):
            chosen.append(found)
            _require_few(chosen, where)
            if query.limit is not None and len(chosen) >= query.limit:
                break
        return chosen
    waiting: deque[Found] = deque()
    async for found in _find(source, query):
        waiting.append(found)
        if len(waiting) >= _AT_ONCE:
            chosen += await _accepted(source, query, waiting)
            waiting.clear()
        if len(chosen) >= query.limit:
            break
    if len(chosen) < query.limit:
        chosen += await _accepted(source, query, waiting)
    return chosen[: query.limit]


def _is_exact(source: Source, query: Query) -> bool:
    return not query.trace_ids and source.is_exact(query)


async def _find(source: Source, query: Query) -> AsyncIterator[Found]:
    """What a search gives; ids that are named are not searched for."""
    if query.trace_ids:
        for trace_id in query.trace_ids:
            yield Found(trace_id)
        return
    async for found in source.find(query):
        yield found


async def _accepted(source: Source, query: Query, candidates: deque[Found]) -> list[Found]:
    return [
        Found(x.trace_id, min(span.start_ns for span in x.spans))
        async for x in _fetched(source, iter(candidates))
        if query.accepts(x.spans)
    ]


async def _fetched(source: Source, wanted: Iterator[Found]) -> AsyncIterator[Stored]:
    """The traces in the order of `wanted`, some of them fetched while the ones before are worked
    on.
    """
    under_way: deque[asyncio.Task[Stored | None]] = deque()
    try:
        while True:
            while len(under_way) < _AT_ONCE and (found := next(wanted, None)) is not None:
                under_way.append(asyncio.ensure_future(source.fetch(found)))
            if not under_way:
                return
            if (stored := await under_way[0]) is not None:
                yield stored
            under_way.popleft()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


def _require_few(chosen: list[Found], where: str) -> None:
    if len(chosen) > MAX_TRACES:
        raise InputError(
            f"{where}: more than {MAX_TRACES:,} traces; give a limit, or a shorter time"
        )


def _log_filters(source: Source, query: Query, where: str) -> None:
    pushed = {"trace_id"} if query.trace_ids else source.pushed(query)
    by_backend = ", ".join(x for x in query.conditions if x in pushed) or "nothing"
    here = ", ".join(x for x in query.conditions if x not in pushed) or "nothing"
    _log.info("%s: filtered by the backend: %s; filtered here: %s", where, by_backend, here)


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
        raise RetryableError(f"{location}: {failure(error)[0]}; {hint}") from None


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
