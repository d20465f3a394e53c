"""Judges' answers, by question."""

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.engine import Connection

from spanscore.store import records
from spanscore.store.schema import judge_answers
from spanscore.store.stored_rows import chunks, put_rows


def find(connection: Connection, keys: Sequence[str]) -> dict[str, str]:
    """The answers that are kept under any of `keys`, by key."""
    query = select(judge_answers.c.key, judge_answers.c.value)
    found = (connection.execute(query.where(judge_answers.c.key.in_(x))) for x in chunks(keys))
    return {row.key: row.value for rows in found for row in rows}


def keep(connection: Connection, answers: Mapping[str, str], last_row: int, now_ns: int) -> int:
    """Keep each answer under its key, in rows after `last_row`.

    Returns by how many bytes the table grew.
    """
    rows = [
        (row, key, now_ns, records.size_bytes(value), value)
        for row, (key, value) in enumerate(answers.items(), last_row + 1)
    ]
    replaced = 0
    for keys in chunks(list(answers)):
        among = judge_answers.c.key.in_(keys)
        size = select(func.coalesce(func.sum(judge_answers.c.size_bytes), 0)).where(among)
        replaced += connection.execute(size).scalar_one()
        connection.execute(delete(judge_answers).where(among))
    put_rows(connection, judge_answers, rows)
    return sum(records.size_bytes(value) for value in answers.values()) - replaced
