"""A file of OTLP/JSON, one request a line."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

from spanscore import local_files
from spanscore.errors import ConfigError
from spanscore.export.config import JsonFileConfig
from spanscore.export.port import UndeliveredError
from spanscore.model.json import loads
from spanscore.model.span import Headers
from spanscore.otlp import codec
from spanscore.otlp.signal import WIRE, Signal

_TAIL_BYTES = 16 * 2**20
"""How far from its end a file is searched for what a crash may make us send again: the last
requests, by far.
"""

_OF_THE_GROUP = 0o640
_PARTS = {
    "traces": ("resource_spans", "scope_spans", "spans"),
    "logs": ("resource_logs", "scope_logs", "log_records"),
}


class JsonFileExporter:
    """Appends to one file, which is made anew, with its folder, where it was deleted or moved away
    meanwhile.

    A request that was written, but not yet remembered as delivered when the process died, comes
    again after the restart: what the file's last lines contain already is left out of it. A last
    line that was cut off is removed.
    """

    def __init__(self, config: JsonFileConfig) -> None:
        """Open the file. Raises ConfigError where it cannot be written."""
        self._path = config.path
        self._mode = _OF_THE_GROUP if config.group_readable else local_files.MODE
        try:
            self._file = self._open()
            self._written = _recover(self._file)
        except OSError as error:
            raise ConfigError(
                f"{config.path}: cannot be written ({error.strerror or error}); see its path"
            ) from error
        self._lock = threading.Lock()
        self._closed = False

    async def send(self, signal: Signal, body: bytes, _headers: Headers = ()) -> str | None:
        """See `port.Exporter.send`."""
        await asyncio.to_thread(self._append, signal, body)
        return None

    async def close(self) -> None:
        """Close the file, once what is being written is written."""
        await asyncio.to_thread(self._close)

    def _open(self) -> int:
        return local_files.open_to_append(self._path, self._mode)

    def _close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._file)

    def _append(self, signal: Signal, body: bytes) -> None:
        with self._lock:
            if self._closed:
                raise UndeliveredError(f"{self._path}: closed")
            try:
                self._append_locked(signal, body)
            except OSError as error:
                raise UndeliveredError(
                    f"{self._path}: cannot be written ({error.strerror or error})"
                ) from error

    def _append_locked(self, signal: Signal, body: bytes) -> None:
        request: Any = WIRE[signal].request.FromString(body)
        if (
            self._written
            and signal in _PARTS
            and not _leave_out(request, _PARTS[signal], self._written)
        ):
            return
        line = codec.encode(request).encode() + b"\n"
        if not _is_at(self._path, self._file):
            old, self._file = self._file, self._open()
            os.close(old)
        size_bytes = os.fstat(self._file).st_size
        try:
            _write_all(self._file, line)
        except OSError:
            os.ftruncate(self._file, size_bytes)  # half a line would swallow the next one
            raise


def _is_at(path: Path, file: int) -> bool:
    """Whether an open file is still the one at this path; what is written to one that was deleted
    is lost.
    """
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _recover(file: int) -> set[str]:
    """Cut off a torn last line; the identities of what the last lines contain."""
    size_bytes = os.fstat(file).st_size
    start = max(0, size_bytes - _TAIL_BYTES)
    tail = os.pread(file, size_bytes - start, start)
    whole = tail.rfind(b"\n") + 1
    if whole < len(tail) and (whole or not start):
        os.ftruncate(file, start + whole)
    lines = tail[:whole].split(b"\n")
    return {
        identity for line in lines[1 if start else 0 :] if line for identity in _identities(line)
    }


def _identities(line: bytes) -> set[str]:
    """The identities of the spans and log records of one line; none where it is not one of ours."""
    try:
        parsed = loads(line)
        signal: Signal = "traces" if "resourceSpans" in parsed else "logs"
        request: Any = codec.from_object(signal, parsed)
    except (ValueError, TypeError):
        return set()
    outer, middle, inner = _PARTS[signal]
    return {
        _identity(item)
        for x in getattr(request, outer)
        for y in getattr(x, middle)
        for item in getattr(y, inner)
    } - {""}


def _identity(item: Any) -> str:
    """The identity of a span or log record; "" where it has none."""
    if item.DESCRIPTOR.name == "Span":
        return f"{item.trace_id.hex()}{item.span_id.hex()}"
    return next((x.value.string_value for x in item.attributes if x.key == "log.record.uid"), "")


def _leave_out(request: Any, parts: tuple[str, str, str], written: set[str]) -> bool:
    """Take out of `request` what is in the file already; False: nothing is left.

    Each identity is forgotten when it is met: what came once before the crash comes once again, and
    a user's span that is sent twice on purpose is written twice.
    """
    outer, middle, inner = parts
    left = 0
    for by_resource in getattr(request, outer):
        for by_scope in getattr(by_resource, middle):
            items = getattr(by_scope, inner)
            remaining = []
            for item in items:
                identity = _identity(item)
                if identity in written:
                    written.discard(identity)
                else:
                    remaining.append(item)
            if len(remaining) < len(items):
                by_scope.ClearField(inner)
                getattr(by_scope, inner).extend(remaining)
            left += len(remaining)
    return left > 0
