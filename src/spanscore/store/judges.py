"""Judges: their answers, and the budget and rates that several servers share."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self

from sqlalchemy import Row, delete, func, select, text
from sqlalchemy.engine import Connection

from spanscore.model.score import Spending, Standing
from spanscore.store import connections, records
from spanscore.store.connections import transaction
from spanscore.store.schema import judge_answers, marks
from spanscore.store.stored_rows import chunks, key, matching, put_rows

_KEPT_NS: Final = 3 * 86400 * 10**9
"""Longer than this window and the one before, of which each is a day at most."""
_OPEN_NS: Final = 120 * 10**9
"""After so long without a word of a server its calls are no longer waited for."""
_SPARE: Final = 1.01
"""Slots are by so much longer than a limit asks for: what a busy server sends late, and what is
made up for, exceeds it in no minute.
"""

# Of the table, so that stores in several schemas of one database do not wait for each other.
_LOCK: Final = text("SELECT pg_advisory_xact_lock(1936748901, 'marks'::regclass::oid::integer)")
_READ: Final = text(
    "WITH clock AS (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint * 1000000"
    " AS now_ns), spent AS ("
    " SELECT marks.number AS began_ns, marks.tenant, x.* FROM clock, marks,"
    " json_to_record(marks.text::json) AS x(window_ns bigint, server text, tokens bigint,"
    " usd float, open_tokens bigint, open_usd float, written_ns bigint)"
    " WHERE marks.kind = 'spent' AND x.window_ns = :window_ns"
    " AND marks.number >= now_ns - now_ns % :window_ns - :window_ns) "
    "SELECT now_ns, began_ns, tenant, server = :server AS is_own, sum(tokens)::bigint AS tokens,"
    " sum(usd) AS usd,"
    " sum(open_tokens) FILTER (WHERE written_ns > now_ns - :open_ns)::bigint AS open_tokens,"
    " sum(open_usd) FILTER (WHERE written_ns > now_ns - :open_ns) AS open_usd"
    " FROM clock LEFT JOIN spent ON true GROUP BY 1, 2, 3, 4"
)
_WRITE: Final = text(
    "INSERT INTO marks (kind, name, tenant, number, text)"
    " VALUES ('spent', :name, :tenant, :began_ns, :text)"
    " ON CONFLICT (kind, name, tenant) DO UPDATE SET text = excluded.text"
)
# The generic cell rate algorithm; a tenth of a second that was not used is made up for.
_TAKE: Final = text(
    "INSERT INTO marks (kind, name, tenant, number)"
    " VALUES ('slot', :model, '',"
    " floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000 + :interval_ns)"
    " ON CONFLICT (kind, name, tenant) DO UPDATE SET number = :interval_ns"
    " + greatest(marks.number, excluded.number - :interval_ns - 100000000)"
    " RETURNING number - :interval_ns"
    " - floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000"
)


class JudgeLimits:
    """What servers with one PostgreSQL store spend, and when they call.

    See `spanscore.judge.budget.SharedLimits`. It has connections of its own, and waits for
    no other writer of the store.
    """

    def __init__(self, url: str) -> None:
        """It connects when it is used first."""
        engine = connections.shared(url)
        # what another server wrote while its lock was waited for is to be seen
        self._engine = engine.execution_options(isolation_level="READ COMMITTED")
        self._single = engine.execution_options(isolation_level="AUTOCOMMIT")

    @classmethod
    def of(cls, url: str | None) -> Self | None:
        """Those of the servers with the store at `url`; None where that is None."""
        return None if url is None else cls(url)

    def exchange(
        self, server: str, window_ns: int, decide: Callable[[Standing], Mapping[str, Spending]]
    ) -> None:
        """See `SharedLimits.exchange`."""
        with transaction(self._engine) as connection:
            connection.execute(_LOCK)
            given = {"server": server, "window_ns": window_ns, "open_ns": _OPEN_NS}
            rows = connection.execute(_READ, given).all()
            now_ns = rows[0].now_ns
            found = [x for x in rows if x.began_ns is not None]
            # a clock that is set back does not open a spent window again
            began_ns = max([now_ns - now_ns % window_ns, *(x.began_ns for x in found)])
            spent = decide(_standing(found, began_ns, window_ns))
            by = {"window_ns": window_ns, "server": server, "written_ns": now_ns}
            place = {"name": f"{window_ns} {began_ns} {server}", "began_ns": began_ns}
            written = [
                {**place, "tenant": tenant, "text": json.dumps(by | x._asdict())}
                for tenant, x in spent.items()
            ]
            if written:
                connection.execute(_WRITE, written)

    def take_slot(self, model: str, interval_s: float) -> float:
        """See `SharedLimits.take_slot`."""
        given = {"model": key(model), "interval_ns": round(interval_s * _SPARE * 1e9)}
        with transaction(self._single) as connection:
            wait_ns: int = connection.execute(_TAKE, given).scalar_one()
        return max(wait_ns, 0) / 1e9

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def prune(connection: Connection, now_ns: int) -> None:
    """Delete what is of windows and calls long past."""
    is_old = marks.c.kind.in_(("spent", "slot")) & (marks.c.number < now_ns - _KEPT_NS)
    connection.execute(delete(marks).where(is_old))


def _standing(rows: Iterable[Row[Any]], began_ns: int, window_ns: int) -> Standing:
    others, before = {}, set()
    for x in rows:
        if x.began_ns == began_ns and not x.is_own:
            others[x.tenant] = Spending(x.tokens, x.usd, x.open_tokens or 0, x.open_usd or 0.0)
        elif x.began_ns == began_ns - window_ns and (x.tokens > 0 or x.usd > 0):
            before.add(x.tenant)
    return Standing(began_ns // window_ns, others, before)


def find(connection: Connection, keys: Sequence[str]) -> dict[str, str]:
    """The answers that are kept under any of `keys`, by key."""
    query = select(judge_answers.c.key, judge_answers.c.value)
    rows = matching(connection, query, judge_answers.c.key, keys)
    return {row.key: row.value for row in rows}


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
