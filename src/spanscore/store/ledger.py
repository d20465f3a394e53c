"""The ledger: requests that the journal must contain.

SQLite opens a database whose write-ahead log is damaged, cut or gone without an error, as of an
earlier commit. So each request that is kept, and each that is removed, is also noted here, in a
record of 32 bytes with a checksum of its own. A request is noted after its commit and before it is
acknowledged, a removal before its commit: whatever moment the process dies at, a request that is
noted as kept and not as removed is in the database, unless that was damaged.
"""

import errno
import logging
import os
import struct
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spanscore import local_files

_log = logging.getLogger(__name__)

# kind, size, row, received_ns, checksum; then the CRC-32 of all that
_RECORD: Final = struct.Struct("<B3xIQQI")
_CHECKSUM: Final = struct.Struct("<I")
_RECORD_BYTES: Final = _RECORD.size + _CHECKSUM.size
_KEPT, _KEPT_UNCHECKED, _REMOVED = 1, 2, 3
_SPARE_RECORDS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Entry:
    """A request: its size in bytes, when it was received (Unix ns), and the checksum of what it is;
    None: not known.
    """

    size_bytes: int
    received_ns: int
    checksum: int | None = None


@dataclass(slots=True)
class Found:
    """What a ledger has: the requests that must be there, the rows that were removed lately, the
    highest row so far.

    `is_there`: there was a ledger; `damaged` records of it could not be read.
    """

    entries: dict[int, Entry] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)
    highest: int = 0
    is_there: bool = False
    damaged: int = 0


def checksum(body: bytes, headers: str = "") -> int:
    """What shows whether a request is the one that was kept: the CRC-32 of its body and headers."""
    return zlib.crc32(headers.encode(), zlib.crc32(body))


def beside(journal: Path) -> Path:
    """The ledger of the journal at this path."""
    return journal.with_name(f"{journal.name}.ledger")


def read(path: Path) -> Found:
    """What the ledger at `path` has; what is damaged in it is counted and left out.

    Raises OSError.
    """
    found = Found()
    if not path.exists():
        return found
    found.is_there = True
    content = path.read_bytes()
    # behind that, a record that was being written
    whole = len(content) - len(content) % _RECORD_BYTES
    for start in range(0, whole, _RECORD_BYTES):
        record = content[start : start + _RECORD.size]
        if _CHECKSUM.unpack_from(content, start + _RECORD.size)[0] != zlib.crc32(record):
            found.damaged += 1
            continue
        kind, size_bytes, row, received_ns, of_content = _RECORD.unpack(record)
        found.highest = max(found.highest, row)
        if kind == _REMOVED:
            found.entries.pop(row, None)
            found.removed.add(row)
        else:
            found.entries[row] = Entry(
                size_bytes, received_ns, of_content if kind == _KEPT else None
            )
    return found


class Ledger:
    """The ledger of an open journal. Belongs to the thread that writes the journal."""

    def __init__(
        self, path: Path, entries: Mapping[int, Entry], highest: int, *, sync: bool
    ) -> None:
        """Begin the file anew with the requests that are there.

        `sync`: it survives a power loss, too.

        Raises OSError.
        """
        self._path = path
        self._sync = sync
        self._entries = dict(entries)
        self._highest = highest
        self._file = -1
        self._end = self._records = 0
        self._late = b""
        self._begin_anew()

    def keep(self, entries: Mapping[int, Entry]) -> None:
        """Note requests that were committed.

        Nothing is raised: what fails is noted with what comes next.
        """
        if not entries:
            return
        self._entries.update(entries)
        self._highest = max(self._highest, *entries)
        self._late += b"".join(_kept(row, entry) for row, entry in entries.items())
        with suppress(OSError):  # the request itself is on disk
            self._write(b"")

    def remove(self, rows: Collection[int]) -> None:
        """Note requests that are about to be removed. Raises OSError, and then they must not be."""
        known = [row for row in rows if row in self._entries]
        if not known:
            return
        self._write(b"".join(map(_removed, known)))
        if self._sync:
            os.fdatasync(self._file)
        for row in known:
            del self._entries[row]

    @property
    def is_long(self) -> bool:
        """Whether it is mostly about requests that were removed."""
        return self._records > 4 * len(self._entries) + _SPARE_RECORDS

    def shorten(self) -> None:
        """Leave out what was removed, which the database must have on disk by now."""
        try:
            self._begin_anew()
        except OSError as error:
            _log.warning("%s cannot be shortened (%s); it grows meanwhile", self._path, error)

    def close(self) -> None:
        """Close the file. Calling it again does nothing."""
        if self._file >= 0:
            with suppress(OSError):
                self._write(b"")
            os.close(self._file)
            self._file = -1

    def _write(self, records: bytes) -> None:
        """Write at the end, which moves only once all is written: half a record is written over the
        next time.
        """
        records = self._late + records
        _write_all(self._file, records, self._end)
        self._late = b""
        self._end += len(records)
        self._records += len(records) // _RECORD_BYTES

    def _begin_anew(self) -> None:
        records = [_kept(row, entry) for row, entry in self._entries.items()]
        if self._highest and self._highest not in self._entries:
            records.append(_removed(self._highest))  # for the number, which is not given again
        content = b"".join(records)
        aside = self._path.with_name(f"{self._path.name}.new")
        file = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, local_files.MODE)
        try:
            _write_all(file, content, 0)
            if self._sync:
                os.fdatasync(file)
            aside.replace(self._path)
        except BaseException:
            os.close(file)
            aside.unlink(missing_ok=True)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._end, self._records, self._late = file, len(content), len(records), b""


def _write_all(file: int, content: bytes, at: int) -> None:
    if os.pwrite(file, content, at) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _kept(row: int, entry: Entry) -> bytes:
    kind = _KEPT_UNCHECKED if entry.checksum is None else _KEPT
    return _sealed(
        _RECORD.pack(kind, entry.size_bytes, row, entry.received_ns, entry.checksum or 0)
    )


def _removed(row: int) -> bytes:
    return _sealed(_RECORD.pack(_REMOVED, 0, row, 0, 0))


def _sealed(record: bytes) -> bytes:
    return record + _CHECKSUM.pack(zlib.crc32(record))


def without(entries: Mapping[int, Entry], rows: Iterable[int]) -> dict[int, Entry]:
    """The entries but for these rows."""
    removed = set(rows)
    return {row: entry for row, entry in entries.items() if row not in removed}
