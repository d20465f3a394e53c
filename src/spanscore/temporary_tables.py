"""Tables of one run that may be larger than memory, in a file that is gone with the process."""

import sqlite3


def temporary_tables(statements: str) -> sqlite3.Connection:
    """An empty database with the tables that `statements` create; may be used in any thread, by one
    at a time.

    SQLite holds some 2 MiB of it in memory, and has the rest in a file in the folder for temporary
    files.
    """
    connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    connection.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {statements}")
    return connection
