"""Pages of an SQLite file, read without SQLite: what is damaged is left out, and nothing else.

See https://www.sqlite.org/fileformat2.html.
"""

import os
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

PAGE_BYTES: Final = 16_384  # records are large: a tenth less CPU a commit than with 4096
_LOG_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_INNER_INDEX, _INNER_TABLE, _INDEX, _TABLE = 2, 5, 10, 13
_NUMBER_BYTES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
_READ_BYTES = 2**20
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DAMAGED: Final = (ValueError, IndexError, OverflowError, struct.error)

Row: TypeAlias = tuple[Any, ...]
"""The values of a cell: in a table, behind its row id."""


class Pages:
    """A file's pages; `newer` are those that its log has, by number.

    Raises OSError where the disk does not read.
    """

    def __init__(self, file: Path, newer: Mapping[int, bytes] | None = None) -> None:
        self._newer = newer or {}
        self._file = kept_open(file, file.stat().st_ino)
        found = int.from_bytes(os.pread(self._file, 2, 16))
        self.size_bytes = found if found >= 512 and not found & found - 1 else PAGE_BYTES
        self.count = max(os.fstat(self._file).st_size // self.size_bytes, *self._newer, 0)
        self._free = self._free_pages()
        self._reached: set[int] = set()
        self.broken: Counter[int] = Counter()
        """How many rows could not be read on the pages of a tree, by its root; 0: whole pages."""

    def rows(self, root: int, fits: Callable[[Row], bool]) -> Iterator[Row]:
        """What a table or an index contains, but for what is damaged."""
        for number, node in self._nodes(root):
            found = list(self._rows_of(node, root, fits))
            if found or node.kind == _INNER_TABLE or not node.cells:
                self._reached.add(number)
                yield from found

    def lost_rows(self, fits: Callable[[Row], bool]) -> Iterator[Row]:
        """Rows that fit a broken table, of pages to which nothing leads any more."""
        for number in range(2, self.count + 1):
            if number in self._reached or number in self._free:
                continue
            if (node := self._node(number)) is not None:
                yield from self._rows_of(node, 0, fits)

    def entries(self, root: int) -> int:
        """How many entries an index has."""
        found = 0
        for number, node in self._nodes(root):
            self._reached.add(number)
            found += len(node.cells)
        return found

    def _nodes(self, root: int) -> Iterator[tuple[int, "_Node"]]:
        todo, seen = [root], self._free.copy()
        while todo:
            number = todo.pop()
            node = None if number in seen else self._node(number)
            if node is None:
                self.broken[root] += 0
                continue
            seen.add(number)
            todo += reversed(node.children)
            yield number, node

    def _node(self, number: int) -> "_Node | None":
        page, at = self._page(number), 100 if number == 1 else 0
        try:
            kind = page[at]
            is_inner = kind in (_INNER_INDEX, _INNER_TABLE)
            if not is_inner and kind not in (_INDEX, _TABLE):
                return None
            count = int.from_bytes(page[at + 3 : at + 5])
            cells = struct.unpack_from(f">{count}H", page, at + (12 if is_inner else 8))
        except _DAMAGED:
            return None
        children = [int.from_bytes(page[x : x + 4]) for x in (*cells, at + 8)] if is_inner else []
        return _Node(page, kind, cells, children)

    def _rows_of(self, node: "_Node", root: int, fits: Callable[[Row], bool]) -> Iterator[Row]:
        for at in () if node.kind == _INNER_TABLE else node.cells:
            try:
                row = self._row(node, at)
                if not fits(row):
                    raise ValueError
            except _DAMAGED:
                self.broken[root] += 1
            else:
                yield row

    def _row(self, node: "_Node", at: int) -> Row:
        size, at = _varint(node.page, at + 4 * (node.kind == _INNER_INDEX))
        if node.kind != _TABLE:
            return tuple(_values(self._payload(node, at, size, (self.size_bytes - 12) * 64 // 255)))
        row, at = _varint(node.page, at)
        return row, *_values(self._payload(node, at, size, self.size_bytes - 12))

    def _payload(self, node: "_Node", at: int, size: int, most: int) -> bytes:
        """What a cell contains, with its overflow pages."""
        most -= 23
        least = (self.size_bytes - 12) * 32 // 255 - 23
        if not 0 < size <= self.count * self.size_bytes:
            raise ValueError
        if size <= most:
            return node.page[at : at + size]
        local = least + (size - least) % (self.size_bytes - 4)
        local = local if local <= most else least
        parts = [node.page[at : at + local]]
        number = int.from_bytes(node.page[at + local : at + local + 4])
        for start in range(local, size, self.size_bytes - 4):
            page = self._page(number)
            parts.append(page[4 : 4 + size - start])
            number = int.from_bytes(page[:4])
        return b"".join(parts)

    def _page(self, number: int) -> bytes:
        if not 0 < number <= self.count:
            return b""
        of_file = (self._file, self.size_bytes, (number - 1) * self.size_bytes)
        return self._newer.get(number) or os.pread(*of_file)

    def _free_pages(self) -> set[int]:
        found: set[int] = set()
        trunk = int.from_bytes(self._page(1)[32:36])
        while trunk and trunk not in found:
            page = self._page(trunk)
            count = min(int.from_bytes(page[4:8]), self.size_bytes // 4 - 2)
            found |= {trunk, *(int.from_bytes(page[x : x + 4]) for x in range(8, 8 + 4 * count, 4))}
            trunk = int.from_bytes(page[:4])
        return found


class _Node(NamedTuple):
    """A page of a tree, where its cells begin in it, and the pages below it."""

    page: bytes
    kind: int
    cells: tuple[int, ...]
    children: list[int]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number, and the place behind it."""
    found = 0
    for place in range(at, at + 8):
        byte = content[place]
        found = found << 7 | byte & 127
        if byte < 128:
            return found, place + 1
    found = found << 8 | content[at + 8]
    return found - (found >> 63 << 64), at + 9


def _values(payload: bytes) -> Iterator[Any]:
    """The values of a record. Raises ValueError where it is longer or shorter than they are."""
    end, at = _varint(payload, 0)
    place = end
    while at < end:
        kind, at = _varint(payload, at)
        size = (kind - 12) // 2 if kind >= 12 else _NUMBER_BYTES[kind]
        content = payload[place : place + size]
        place += size
        if kind >= 12:
            yield content.decode("utf-8", "backslashreplace") if kind & 1 else content
        elif kind == 7:
            yield struct.unpack(">d", content)[0]
        else:
            yield None if kind == 0 else int.from_bytes(content, signed=True) + (kind == 9)
    if (at, place) != (end, len(payload)):
        raise ValueError


@cache
def kept_open(path: Path, _inode: int) -> int:
    """A descriptor that is never closed: that would undo SQLite's locks on the file."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


class Frame(NamedTuple):
    """A page in a write-ahead log; `ends`: a transaction ends with it."""

    number: int
    page: bytes
    is_whole: bool
    ends: bool


def frames(file: Path) -> list[Frame]:
    """The pages in a database's log since it was begun anew, whether or not they are damaged."""
    path = file.with_name(f"{file.name}-wal")
    log = path.read_bytes() if path.exists() else b""
    page_bytes = int.from_bytes(log[8:12])
    page_bytes = page_bytes if page_bytes in (4096, PAGE_BYTES) else PAGE_BYTES
    size = _FRAME_HEADER_BYTES + page_bytes
    found = [log[x : x + size] for x in range(_LOG_HEADER_BYTES, len(log) - size + 1, size)]
    salts = [x[8:16] for x in found]
    salt = log[16:24] if log[16:24] in salts else salts[0] if salts else b""
    order = ">" if log[3:4] == b"\x83" else "<"
    most = file.stat().st_size // page_bytes + len(found)
    made = []
    before = log[24:32]
    for frame in found:
        number = int.from_bytes(frame[:4])
        if frame[8:16] == salt and 0 < number <= most:
            is_whole = _checksum(order, before, frame[:8] + frame[24:]) == frame[16:24]
            made.append(Frame(number, frame[24:], is_whole, ends=any(frame[4:8])))
        before = frame[16:24]
    return made


def committed(file: Path) -> dict[int, bytes]:
    """The newest of each page in a log that is whole, up to the last transaction that ended."""
    found: dict[int, bytes] = {}
    begun: dict[int, bytes] = {}
    for frame in frames(file):
        if frame.is_whole:
            begun[frame.number] = frame.page
        if frame.ends:
            found |= begun
            begun = {}
    return found


def _checksum(order: str, before: bytes, content: bytes) -> bytes:
    """SQLite's checksum of a frame, which goes on from that of the frame before it."""
    first, second = struct.unpack(">2I", before)
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for one, other in zip(words, words, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return struct.pack(">2I", first, second)


def is_damaged(error: BaseException | None) -> bool:
    """Whether SQLite reports that a file is damaged, or no database at all."""
    code = getattr(error, "sqlite_errorcode", 0) or 0
    return isinstance(error, sqlite3.DatabaseError) and (
        code & 0xFF in _DAMAGE or str(error) == "unsupported file format"
    )


def disk_error(file: Path) -> OSError | None:
    """Why the disk refuses to read a database's file or log, which SQLite reports as damage; None
    where it reads all of both.
    """
    for path in (file, file.with_name(f"{file.name}-wal")):
        place = 0
        try:
            descriptor = kept_open(path, path.stat().st_ino)
            while part := os.pread(descriptor, _READ_BYTES, place):
                place += len(part)
        except FileNotFoundError:
            continue
        except OSError as error:
            return error
    return None
