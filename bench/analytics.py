"""How long each answer of analytics takes over a store of a million scores, on SQLite and on
PostgreSQL.

    python bench/analytics.py [SCORES] [sqlite | postgresql]

The store is written in bulk: turns of nine metrics over three months, four turns a session, a tenth
of the turns in no session, a tenth drawn one time in ten, one score in twenty skipped; three
services and models, twelve versions, five tools; two of three sessions have tags, one of which is
its own. PostgreSQL is started by the project's script, where it is installed. Wall time is that of
the second of two askings; beside it the CPU of this process and of PostgreSQL's: where other
programs keep the machine busy, that divided by the number of CPUs is what an idle machine takes at
least.
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Table, text
from sqlalchemy.engine import Connection, Engine

from spanscore.api.analytics import ANSWERS
from spanscore.api.servicer import Call
from spanscore.api.v1 import analytics_service_pb2 as pb
from spanscore.model.score import Evaluation, Evaluator, Score, Skip
from spanscore.model.trace import Target
from spanscore.store import connections, records
from spanscore.store.config import Config
from spanscore.store.connections import snapshot, transaction
from spanscore.store.placement import Dimensions, OfTrace, Scored, hashed
from spanscore.store.schema import scores as scores_table
from spanscore.store.store import Store
from spanscore.store.stored_rows import put_rows

METRICS, CHUNK = 9, 45_000
START_NS, STEP_NS = 1_780_000_000 * 10**9, 70 * 10**9
SERVICES, MODELS, TOOLS = (
    ("shop", "bank", "travel"),
    ("gpt-4o", "claude", "gemini"),
    ("search", "book", "pay", "ask"),
)
MIDDLE_NS = START_NS + 45 * 86_400 * 10**9
JUDGED = {"filter": "metric = metric_3"}

QUESTIONS: dict[str, tuple[str, Any]] = {
    "summary of 9 metrics": ("SummarizeScores", pb.SummarizeScoresRequest()),
    "summary of six weeks": (
        "SummarizeScores",
        pb.SummarizeScoresRequest(selection={"start_ns": MIDDLE_NS}),
    ),
    "9 metrics by service": ("SummarizeScores", pb.SummarizeScoresRequest(group_by=["service"])),
    "9 metrics by version": ("SummarizeScores", pb.SummarizeScoresRequest(group_by=["version"])),
    "1 metric by tool": (
        "SummarizeScores",
        pb.SummarizeScoresRequest(selection=JUDGED, group_by=["tool"]),
    ),
    "9 metrics of a tool": (
        "SummarizeScores",
        pb.SummarizeScoresRequest(selection={"filter": "tool:search"}),
    ),
    "9 metrics of a tag": (
        "SummarizeScores",
        pb.SummarizeScoresRequest(selection={"filter": "tags:beta"}),
    ),
    "9 metrics without a tag": (
        "SummarizeScores",
        pb.SummarizeScoresRequest(selection={"filter": "NOT tags:beta"}),
    ),
    "trend of 1 metric by day": ("QueryScoreTrend", pb.QueryScoreTrendRequest(selection=JUDGED)),
    "trend of 9 metrics by day": ("QueryScoreTrend", pb.QueryScoreTrendRequest()),
    "distribution of 1 metric": (
        "QueryScoreDistribution",
        pb.QueryScoreDistributionRequest(selection=JUDGED),
    ),
    "two periods, 9 metrics": (
        "CompareScores",
        pb.CompareScoresRequest(before={"end_ns": MIDDLE_NS}, after={"start_ns": MIDDLE_NS}),
    ),
    "two versions, 1 metric": (
        "CompareScores",
        pb.CompareScoresRequest(
            before={"filter": "metric = metric_3 AND version = 1.4"},
            after={"filter": "metric = metric_3 AND version = 1.5"},
        ),
    ),
    "worst sessions, 1 metric": ("RankSessions", pb.RankSessionsRequest(selection=JUDGED)),
    "worst sessions, 9 metrics": ("RankSessions", pb.RankSessionsRequest()),
}


class Filling:
    """Rows of so many scores, as commits would have written them."""

    def __init__(self, scores: int) -> None:
        self._traces = scores // METRICS
        self._rng = random.Random(1)  # noqa: S311 - a load, and no secret
        self._dimensions = Dimensions()
        self._procedures: dict[tuple[str, bool, float], int] = {}
        self._contexts: dict[tuple[Any, ...], int] = {}
        target = Target("0" * 32, "1" * 16, START_NS, START_NS + 10**9, {"service.name": "shop"})
        self._template = Evaluation(
            scope="trace",
            subject_id="{subject}",
            metric="{metric}",
            outcome=Score(0.5, "The agent did what it was asked to do."),
            threshold=0.3,
            scale=(0.0, 1.0),
            evaluator=Evaluator("LLM", "judge", "1", model="gpt-4o-mini", prompt_hash="0" * 16),
            target=target,
            session_id="{session}",
        )
        unsealed, _, _ = records.encode(self._template).rpartition("}")
        self._record = unsealed + "}"

    def chunks(self) -> Iterator[list[Any]]:
        """Rows of scores."""
        stored: list[Any] = []
        for number in range(self._traces):
            self._add(number, stored)
            if len(stored) >= CHUNK:
                yield stored
                stored = []
        yield stored

    def finish(self, connection: Connection) -> None:
        """Write the procedures and contexts."""
        self._dimensions.write(connection)

    def _add(self, number: int, stored: list[Any]) -> None:
        session = number // 4
        subject, key = f"{hashed(number):032x}", f"session {session}"
        tools = tuple(TOOLS[(number + x) % len(TOOLS)] for x in range(number % 3))
        about = (session % 3, number * 12 // self._traces, tools)
        context = self._contexts.get(about) or self._context(about)
        tags = self._tags(session)
        is_alone = session % 10 == 0
        cluster = hashed("", "trace", subject) if is_alone else hashed("", "session", key)
        at_ns = START_NS + number * STEP_NS
        share = 0.1 if number % 10 == 0 else 1.0
        for place in range(METRICS):
            seq = number * METRICS + place + 1
            metric, value = f"metric_{place}", round(self._rng.random(), 2)
            is_scored = self._rng.random() > 0.05
            made = metric, is_scored, share
            procedure = self._procedures.get(made) or self._procedure(made)
            passing = int(value >= 0.3)
            label = ("fail", "pass")[passing]
            outcome = (value, label, passing) if is_scored else (None, None, None)
            names = (subject, None, None, None, None)
            of_subject = (context, cluster, hashed("", "trace", subject), tags)
            record = records.seal(
                self._record.replace("{subject}", subject)
                .replace("{metric}", metric)
                .replace("{session}", key)
            )
            stored.append(
                (
                    *(seq, f"{hashed(seq):016x}", "trace", metric, 1, "", at_ns + place, at_ns),
                    *(len(record), *names, 1, procedure, "", at_ns, *of_subject, *outcome, record),
                )
            )

    def _context(self, about: tuple[Any, ...]) -> int:
        place, version, tools = about
        resource = {"service.name": SERVICES[place], "service.version": f"1.{version}"}
        target = replace(self._template.target, resource=resource)
        score = replace(
            self._template, target=target, service_name=SERVICES[place], agent_name="agent"
        )
        found = self._dimensions.context(
            Scored.by(score, OfTrace(MODELS[place], tuple(sorted(tools))))
        )
        self._contexts[about] = found
        return found

    def _tags(self, session: int) -> int | None:
        tags = (("beta", f"user {session}"), (f"user {session}",), ())[session % 3]
        about = OfTrace(MODELS[session % 3], (), tags)
        return self._dimensions.tags(Scored.by(self._template, about))

    def _procedure(self, made: tuple[str, bool, float]) -> int:
        metric, is_scored, share = made
        outcome = Score(0.5, "") if is_scored else Skip("spent", "budget")
        score = replace(self._template, metric=metric, outcome=outcome, sampling=share)
        found = self._dimensions.procedure(score, "", "")
        self._procedures[made] = found
        return found


def fill(engine: Engine, scores: int) -> None:
    """Write a store's scores."""
    filling = Filling(scores)
    for stored in filling.chunks():
        with transaction(engine) as connection:
            write(connection, scores_table, stored)
    with transaction(engine) as connection:
        filling.finish(connection)
        connection.execute(text("ANALYZE"))
    if engine.dialect.name == "postgresql":  # which autovacuum does within a minute
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))


def write(connection: Connection, table: Table, rows: Sequence[Any]) -> None:
    """Write rows by whatever is fastest."""
    if connection.dialect.name != "postgresql":
        put_rows(connection, table, list(rows))
        return
    names = ", ".join(table.columns.keys())
    cursor: Any = connection.connection.cursor()
    with cursor.copy(f"COPY {table.name} ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def answer(engine: Engine, method: str, request: Any) -> Any:
    """Ask one question."""
    with snapshot(engine) as connection:
        return ANSWERS[method](connection, request, Call())


def timed(ask: Callable[[], Any], cpu_s: Callable[[], float]) -> tuple[float, float]:
    """Seconds of wall, and by `cpu_s` of CPU."""
    ask()
    wall, cpu = time.perf_counter(), cpu_s()
    ask()
    return time.perf_counter() - wall, cpu_s() - cpu


def cpu_of(postmaster: int) -> float:
    """Seconds of CPU of this process, and of a PostgreSQL server with all of its processes, those
    that have ended too.
    """
    ticks = os.sysconf("SC_CLK_TCK")
    own, *children = [_times(x) for x in (postmaster, *_children(postmaster))]
    return time.process_time() + (sum(own) + sum(sum(x[:2]) for x in children)) / ticks


def _children(pid: int) -> Iterator[int]:
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        yield from map(int, children.read_text().split())


def _times(pid: int) -> list[int]:
    """User and system time of a process, then of its children that have ended, in ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(x) for x in fields[11:15]]


def measure(url: str, scores: int, cpu_s: Callable[[], float] = time.process_time) -> None:
    """Fill a store and print the time of each answer."""
    begun = time.perf_counter()
    Store.open(Config(url=url)).close()
    engine = connections.connect(Config(url=url))
    fill(engine, scores)
    print(
        f"{engine.dialect.name}: {scores:,} scores written in {time.perf_counter() - begun:.0f} s"
    )
    for name, (method, request) in QUESTIONS.items():
        wall, cpu = timed(
            lambda method=method, request=request: answer(engine, method, request), cpu_s
        )
        print(f"  {name:<28} {wall:6.2f} s  {cpu:6.2f} s of CPU", flush=True)
    engine.dispose()


def main() -> None:
    scores = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    wanted = sys.argv[2:] or ["sqlite", "postgresql"]
    if "sqlite" in wanted:
        with tempfile.TemporaryDirectory() as folder:
            measure(f"sqlite:///{folder}/store.db", scores)
    if "postgresql" in wanted:
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests/postgresql"))
        import postgresql_server  # noqa: PLC0415 - only now on the path

        try:
            server = postgresql_server.Server()
        except postgresql_server.NotInstalledError as missing:
            print(f"postgresql: left out: {missing}")
            return
        try:
            measure(server.create(), scores, lambda: cpu_of(server.pid))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
