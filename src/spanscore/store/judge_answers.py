"""Judges' answers, by question."""

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, func, insert, select
from sqlalchemy.engine import Connection

from spanscore.store import records
from spanscore.store.schema import judge_answers

_MAX_KEYS = 500
"""Keys in one statement: SQLite takes 32,766 values, PostgreSQL's driver 65,535."""


def find(connection: Connection, keys: Sequence[str]) -> dict[str, str]:
    """The answers that are kept under any of `keys`, by key."""
    found: dict[str, str] = {}
    for start in range(0, len(keys), _MAX_KEYS):
        among = judge_answers.c.key.in_(keys[start : start + _MAX_KEYS])
        rows = connection.execute(select(judge_answers.c.key, judge_answers.c.value).where(among))
        found |= {row.key: row.value for row in rows}
    return found


def keep(connection: Connection, answers: Mapping[str, str], last_row: int, now_ns: int) -> int:
    """Keep each answer under its key, in rows after `last_row`.

    Returns by how many bytes the table grew.
    """
    rows = [
        {
            "row": row,
            "key": key,
            "value": value,
            "size_bytes": records.size_bytes(value),
            "stored_ns": now_ns,
        }
        for row, (key, value) in enumerate(answers.items(), last_row + 1)
    ]
    replaced = 0
    keys = list(answers)
    for start in range(0, len(keys), _MAX_KEYS):
        among = judge_answers.c.key.in_(keys[start : start + _MAX_KEYS])
        size = select(func.coalesce(func.sum(judge_answers.c.size_bytes), 0)).where(among)
        replaced += connection.execute(size).scalar_one()
        connection.execute(delete(judge_answers).where(among))
    connection.execute(insert(judge_answers), rows)
    return sum(records.size_bytes(value) for value in answers.values()) - replaced
