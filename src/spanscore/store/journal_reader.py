"""Read requests of a journal that another process writes."""

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from spanscore.errors import RetryableError
from spanscore.store import leaving, ledger
from spanscore.store.journal import Request


class JournalReader:
    """Reads and never writes, not even when it is the last to close the file. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        """Raises sqlite3.Error where the file cannot be opened."""
        self._db = sqlite3.connect(
            f"file:{quote(str(path.resolve()))}?mode=ro", uri=True, timeout=10.0
        )
        self.checksums: Mapping[int, int | None] = {}
        """What the requests that are read next have to be: the checksum of each by its row, None
        where not known.
        """

    def read(self, rows: Iterable[int]) -> list[Request]:
        """The requests at `rows`, in their order.

        Raises RetryableError where one is not there as it was kept.
        """
        return [self._read(row) for row in rows]

    def _read(self, row: int) -> Request:
        try:
            found = self._db.execute(
                "SELECT signal, received_ns, body, headers FROM requests LEFT JOIN headers USING"
                " (row) WHERE row = ?",
                (row,),
            ).fetchall()
        except sqlite3.Error as error:
            raise RetryableError(
                f"the journal cannot be read: {error}", why="journal_fault"
            ) from error
        if not found:
            raise RetryableError(f"the journal lacks row {row}", why="journal_fault")
        signal, received_ns, body, headers = found[0]
        if self.checksums.get(row) not in {None, ledger.checksum(body, headers or "")}:
            raise RetryableError(
                f"row {row} of the journal is damaged: its checksum differs", why="journal_fault"
            )
        return Request(row, signal, received_ns, body, leaving.headers_from(headers))
