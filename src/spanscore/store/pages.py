"""Records straight out of the pages of an SQLite file and of its write-ahead log, whatever is
damaged around them.

The format is described at https://www.sqlite.org/fileformat2.html. Nothing is trusted: what does
not decode is counted and left out, and no chain of pages is followed further than the record's
length allows.
"""

import mmap
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeAlias

Value: TypeAlias = "int | float | str | bytes | None"

_MAGIC: Final = b"SQLite format 3\0"
_WAL_MAGICS: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_WAL_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_PAGE_BYTES: Final = 16_384
_INDEX_INTERIOR, _INDEX_LEAF, _TABLE_LEAF = 0x02, 0x0A, 0x0D
_INTEGERS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_CELLS: Final = (_INDEX_INTERIOR, _INDEX_LEAF, _TABLE_LEAF)


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a table, or, where `rowid` is None, an entry of an index or of a table that has no
    row ids.
    """

    rowid: int | None
    values: tuple[Value, ...]


class Pages:
    """The pages of a database file, the newest of each in its write-ahead log.

    Use it as a context manager.
    """

    def __init__(self, file: Path) -> None:
        """Open `file` and the log beside it. Raises OSError where the file cannot be read."""
        self.damaged = 0
        """Records and pages that did not decode, so far."""
        self._stack = ExitStack()
        self._main = self._mapped(file)
        log = file.with_name(f"{file.name}-wal")
        self._log = self._mapped(log) if log.exists() else b""
        self._page_bytes = _page_bytes(self._main, self._log)
        self._newest = self._committed()
        self.count = max([len(self._main) // self._page_bytes, *self._newest])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._stack.close()

    def records(self) -> Iterator[Record]:
        """The records of all pages that are in use, as of the last commit in the log."""
        free = self._free()
        for number in range(1, self.count + 1):
            if number not in free:
                yield from self._records(number, self._page(number))

    def records_of_log(self) -> Iterator[Record]:
        """The records of every page that ever was written to the log, the last ones first: also
        what was replaced.
        """
        for start in reversed(
            range(_WAL_HEADER_BYTES, len(self._log) - self._frame_bytes + 1, self._frame_bytes)
        ):
            number = int.from_bytes(self._log[start : start + 4], "big")
            page = self._log[start + _FRAME_HEADER_BYTES : start + self._frame_bytes]
            yield from self._records(number, page)

    @property
    def _frame_bytes(self) -> int:
        return _FRAME_HEADER_BYTES + self._page_bytes

    def _mapped(self, file: Path) -> "mmap.mmap | bytes":
        opened = self._stack.enter_context(file.open("rb"))
        if not file.stat().st_size:
            return b""
        return self._stack.enter_context(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))

    def _committed(self) -> dict[int, int]:
        """Where in the log the newest committed form of each page begins, frames' checksums
        aside.
        """
        starts = range(_WAL_HEADER_BYTES, len(self._log) - self._frame_bytes + 1, self._frame_bytes)
        salts = Counter(self._log[start + 8 : start + 16] for start in starts)
        if not salts:
            return {}
        own = self._log[16:24]
        salt = own if own in salts else self._log[_WAL_HEADER_BYTES + 8 : _WAL_HEADER_BYTES + 16]
        found: dict[int, int] = {}
        open_: dict[int, int] = {}
        for start in starts:
            if self._log[start + 8 : start + 16] != salt:  # of an earlier round through the file
                continue
            open_[int.from_bytes(self._log[start : start + 4], "big")] = start + _FRAME_HEADER_BYTES
            if int.from_bytes(self._log[start + 4 : start + 8], "big"):  # the last of a commit
                found |= open_
                open_ = {}
        most = (len(self._main) + len(self._log)) // self._page_bytes + 1
        return {number: start for number, start in found.items() if 0 < number <= most}

    def _page(self, number: int) -> bytes:
        start = self._newest.get(number)
        if start is not None:
            return self._log[start : start + self._page_bytes]
        return self._main[(number - 1) * self._page_bytes : number * self._page_bytes]

    def _free(self) -> set[int]:
        """The pages of deleted rows, as far as their list can be followed."""
        header = self._page(1)
        free: set[int] = set()
        trunk = int.from_bytes(header[32:36], "big") if header.startswith(_MAGIC) else 0
        while 0 < trunk <= self.count and trunk not in free:
            free.add(trunk)
            page = self._page(trunk)
            count = min(int.from_bytes(page[4:8], "big"), self._page_bytes // 4 - 2)
            free.update(int.from_bytes(page[8 + 4 * n : 12 + 4 * n], "big") for n in range(count))
            trunk = int.from_bytes(page[:4], "big")
        return free

    def _records(self, number: int, page: bytes) -> Iterator[Record]:
        start = 100 if number == 1 else 0
        if len(page) < self._page_bytes or page[start] not in _CELLS:
            # an inner page of a table, the rest of a long record, or nothing that is known
            return
        kind = page[start]
        first = start + (12 if kind == _INDEX_INTERIOR else 8)
        for index in range(int.from_bytes(page[start + 3 : start + 5], "big")):
            try:
                at = int.from_bytes(page[first + 2 * index : first + 2 * index + 2], "big")
                yield self._record(page, at, kind)
            except (IndexError, ValueError):
                self.damaged += 1

    def _record(self, page: bytes, at: int, kind: int) -> Record:
        if kind == _INDEX_INTERIOR:
            at += 4
        length, at = _varint(page, at)
        rowid = None
        if kind == _TABLE_LEAF:
            rowid, at = _varint(page, at)
        payload = self._payload(page, at, length, is_table=kind == _TABLE_LEAF)
        return Record(rowid, _values(payload))

    def _payload(self, page: bytes, at: int, length: int, *, is_table: bool) -> bytes:
        usable = self._page_bytes
        most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        if length <= most:
            return _part(page, at, length)
        least = (usable - 12) * 32 // 255 - 23
        here = least + (length - least) % (usable - 4)
        here = here if here <= most else least
        if length > self.count * usable:
            raise ValueError("longer than the file")
        parts, left = [_part(page, at, here)], length - here
        number = int.from_bytes(_part(page, at + here, 4), "big")
        while left > 0:
            if not 0 < number <= self.count:
                raise ValueError("the chain of pages is broken")
            more = self._page(number)
            parts.append(_part(more, 4, min(left, usable - 4)))
            left -= len(parts[-1])
            number = int.from_bytes(more[:4], "big")
        return b"".join(parts)


def _page_bytes(main: "mmap.mmap | bytes", log: "mmap.mmap | bytes") -> int:
    stated = []
    if main[:16] == _MAGIC:
        size = int.from_bytes(main[16:18], "big")
        stated.append(65_536 if size == 1 else size)
    if log[:4] in _WAL_MAGICS:
        stated.append(int.from_bytes(log[8:12], "big"))
    return next((x for x in stated if 512 <= x <= 65_536 and not x & (x - 1)), _PAGE_BYTES)


def _part(page: bytes, at: int, length: int) -> bytes:
    part = page[at : at + length]
    if len(part) < length:
        raise ValueError("cut")
    return part


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for _ in range(8):
        byte = content[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    value = value << 8 | content[at]
    return value - (1 << 64) if value >= 1 << 63 else value, at + 1


def _values(payload: bytes) -> tuple[Value, ...]:
    """Raises ValueError or IndexError where it is no record."""
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Value] = []
    at = end
    for kind in kinds:
        value, at = _value(payload, at, kind)
        values.append(value)
    if at != len(payload):
        raise ValueError("not as long as it says")
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind in _INTEGERS:
        length = _INTEGERS[kind]
        return int.from_bytes(_part(payload, at, length), "big", signed=True), at + length
    if kind in (8, 9):
        return kind - 8, at
    if kind < 12:
        raise ValueError("a kind of value that no table here has")
    length = (kind - 12) // 2
    part = _part(payload, at, length)
    return (part.decode() if kind % 2 else part), at + length
