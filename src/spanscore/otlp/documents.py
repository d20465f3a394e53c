"""Large recordings, read a document at a time."""

import base64
import binascii
import errno
import gzip
import os
import re
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import IO, NamedTuple

from spanscore.errors import InputError
from spanscore.otlp import files
from spanscore.temporary_files import no_temporary_space, temporary_space

_TRACE_ID = re.compile(rb'"trace_?I[dD]"\s*:\s*"([^"]+)"')
_TIME = re.compile(rb'imeUnixNano"\s*:\s*"?(\d{1,19})')
_JAEGER_TIME = re.compile(rb'"startTime"\s*:\s*(\d{1,16})')
_HEX_CHARS, _ID_BYTES = 32, 16
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Place(NamedTuple):
    """Where a document comes among those of all files: by its time, or that of one before it in its
    file.
    """

    time_ns: int
    file: int
    number: int


@dataclass(slots=True)
class EncodedDocument:
    """A document of a file as it stands there. It can be sent to another process."""

    place: Place
    path: Path
    content: bytes
    is_of_only_file: bool
    """Whether no other file is read, so that JSON that is no telemetry is an error."""

    def decoded(self) -> files.Telemetry:
        """What it contains. Raises InputError where it is damaged."""
        telemetry = files.Telemetry()
        try:
            files.decode_into(
                telemetry,
                self.path,
                self.content,
                f"{self.path}:{self.place.number}",
                is_later=self.place.number > 1,
            )
        except files.ForeignFileError as error:
            if self.is_of_only_file:
                raise
            telemetry.refused.append(str(error))
        return telemetry


class Documents:
    """The documents of files that are too large to be in memory, by their time: traces and logs
    meet.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        """Look through the files, without decoding them.

        Raises InputError where one cannot be read.
        """
        self._files = [path for path, _ in files.listed(paths)]
        self._last: dict[str, Place] = {}
        self._firsts: list[tuple[int, int]] = []
        for file, path in enumerate(self._files):
            for place, content in self._of_file(file):
                if not self._firsts or self._firsts[-1][1] != file:
                    self._firsts.append((place.time_ns, file))
                for trace_id in trace_ids(path, content):
                    self._last[trace_id] = max(place, self._last.get(trace_id, place))
        self._firsts.sort()

    def encoded(self) -> Iterator[EncodedDocument]:
        """Each document, not decoded."""
        is_only = len(self._files) == 1
        for place, content in self._merged():
            yield EncodedDocument(place, self._files[place.file], content, is_only)

    def is_last(self, trace_id: str, place: Place) -> bool:
        """Whether no document after this one mentions a trace."""
        return self._last.get(trace_id, place) <= place

    def _merged(self) -> Iterator[tuple[Place, bytes]]:
        """The documents of all files by their place; a file is open only while its documents are
        read.
        """
        waiting = deque(self._firsts)
        heads: list[tuple[Place, bytes, Iterator[tuple[Place, bytes]]]] = []
        while waiting or heads:
            while waiting and (not heads or waiting[0] <= heads[0][0][:2]):
                _push(heads, self._of_file(waiting.popleft()[1]))
            place, content, following = heappop(heads)
            yield place, content
            _push(heads, following)

    def _of_file(self, file: int) -> Iterator[tuple[Place, bytes]]:
        latest_ns = 0
        for number, content in contents(self._files[file]):
            latest_ns = max(latest_ns, time_ns(content))
            yield Place(latest_ns, file, number), content


def _push(
    heads: list[tuple[Place, bytes, Iterator[tuple[Place, bytes]]]],
    documents: Iterator[tuple[Place, bytes]],
) -> None:
    """Add the next of a file's documents, which has a place of its own, so that nothing else is
    compared.
    """
    if (first := next(documents, None)) is not None:
        heappush(heads, (*first, documents))


def contents(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number of the line, text) of each line where the first is JSON by itself, else (1, the whole
    content).
    """
    try:
        with _opened(path) as file:
            if files.without_compression(path.name).endswith(".pb"):
                yield 1, file.read()
            else:
                yield from _lines(file)
    except (EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: damaged gzip ({error}): fetch the file again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): give another file") from None


def time_ns(content: bytes) -> int:
    """The first time that a document in JSON names, in Unix nanoseconds; 0 where it names none."""
    if (found := _TIME.search(content)) is not None:
        return int(found[1])
    found = _JAEGER_TIME.search(content)
    return int(found[1]) * 1000 if found else 0


def trace_ids(path: Path, content: bytes) -> set[str]:
    """The ids of the traces that a document mentions, as spans have them."""
    if files.without_compression(path.name).endswith(".pb"):
        telemetry = files.Telemetry()
        files.decode_into(telemetry, path, content, str(path))
        return {x.trace_id for x in telemetry.spans} | {x.trace_id for x in telemetry.logs}
    return {_as_hex(x) for x in set(_TRACE_ID.findall(content))}


def _as_hex(text: bytes) -> str:
    """An id in hex, whichever way it is written: protobuf's own JSON has Base64."""
    if len(text) < _HEX_CHARS:
        try:
            decoded = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            decoded = b""
        if len(decoded) == _ID_BYTES:
            return decoded.hex()
    return text.decode(errors="replace").lower().zfill(_HEX_CHARS)


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        start = file.read(len(files.ZSTD))
    if start == files.ZSTD:
        return _unpacked(path)
    return gzip.open(path) if start.startswith(files.GZIP) else path.open("rb")  # type: ignore[return-value] # alike


def _unpacked(path: Path) -> IO[bytes]:
    """The content of a file that zstd compressed, as an unnamed file of its own."""
    import cramjam  # noqa: PLC0415 - 2 MB, which other files do not need

    with temporary_space():
        unpacked = tempfile.NamedTemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        cramjam.zstd.decompress_into(
            cramjam.File(str(path)), cramjam.File(unpacked.name, read=False, write=True)
        )
    except cramjam.DecompressionError as error:
        for code in _NO_ROOM:
            if f"(os error {code})" in str(error):  # what Rust says of it, which cramjam passes on
                raise no_temporary_space(os.strerror(code)) from None
        raise InputError(f"{path}: damaged zstd ({error}): fetch the file again") from None
    unpacked.seek(0)
    return unpacked


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    first = b""
    number = 0
    while not first.strip():
        first, number = file.readline(), number + 1
        if not first:
            return
    if not files.is_json(first):
        yield 1, first + file.read()
        return
    yield number, first
    for later, line in enumerate(file, start=number + 1):
        if line.strip():
            yield later, line
