"""Totals of a run's scores, metric by metric."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Self

from spanscore.calibration import Verdict
from spanscore.model.score import Evaluation, Failure, JudgeUsage, Score, Skip
from spanscore.stats import Estimate, Moments, named, outweighed, weighted_mean
from spanscore.stats.means import POWERS
from spanscore.temporary_files import TemporaryTables

_MAX_REASONS = 10_000
"""Different reasons of failures that are kept: of further ones the first of each class stands for
all.
"""

_LEVEL = 0.95

_TABLES = """
CREATE TABLE verdict (
    metric INTEGER NOT NULL, judge INTEGER NOT NULL, trace_id TEXT NOT NULL, session_id TEXT,
    is_session INTEGER NOT NULL, value REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL,
    passed INTEGER, revision INTEGER NOT NULL, share REAL NOT NULL, span_id TEXT NOT NULL,
    alias TEXT
)
"""

_CLUSTER = """CASE
    WHEN session_id IS NOT NULL THEN 'session ' || session_id
    ELSE 'trace ' || trace_id || '/' || span_id
END"""
"""What is independent of the others, as `calibration.clusters_of` has it."""


@dataclass(frozen=True, slots=True)
class Counted:
    """An evaluation that stands for so many, of one metric and judge with the same outcome; of
    scores the values differ.
    """

    evaluation: Evaluation
    count: int


@dataclass(slots=True)
class Counts:
    """What became of the evaluations of a metric."""

    scored: int = 0
    skipped: int = 0
    failed: int = 0
    passed: int = 0
    failing: int = 0

    @property
    def has_labels(self) -> bool:
        """Whether any passes or does not."""
        return bool(self.passed or self.failing)


def counted(evaluations: Iterable[Evaluation]) -> list[Counted]:
    """Each as one."""
    return [Counted(evaluation, 1) for evaluation in evaluations]


class RunSummary:
    """Counts, means and pass rates by metric, in the order in which the metrics first occur."""

    def __init__(self) -> None:
        self.usage = JudgeUsage()
        self.counts: dict[str, Counts] = {}
        self._first: dict[tuple[object, ...], Evaluation] = {}
        self._of_first: Counter[tuple[object, ...]] = Counter()
        self._tables = TemporaryTables(_TABLES)
        self._judges: dict[object, int] = {}
        self._metrics: dict[str, int] = {}

    @classmethod
    def of(cls, evaluations: Iterable[Evaluation]) -> Self:
        """The summary of these."""
        made = cls()
        made.add(evaluations)
        return made

    def add(self, evaluations: Iterable[Evaluation]) -> None:
        """Take in these.

        Raises ValueError where one is scored on a scale of no width, and OutputError where there is
        no room for temporary files, as all that reads does.
        """
        rows = []
        for evaluation in evaluations:
            self._count(evaluation)
            if (verdict := Verdict.of(evaluation)) is not None:
                rows.append(self._row(verdict))
        self._tables.insert(
            "INSERT INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
        )

    @property
    def outcomes(self) -> list[Counted]:
        """What was not scored by its reason, and what was by its judge, in the order in which they
        first occurred.
        """
        return [Counted(x, self._of_first[key]) for key, x in self._first.items()]

    def mean(self, metric: str) -> Estimate | None:
        """The mean of the values there are, its units the sessions and the traces of none; None
        where there is none.
        """
        low, high = self._tables.row(
            "SELECT MIN(MIN(low), MIN(value)), MAX(MAX(high), MAX(value)) FROM verdict"
            " WHERE metric = ?",
            (self._metrics.get(metric),),
        )
        if low is None:
            return None
        return self._estimated(
            f"MIN(1.0, MAX(0.0, (value - {low!r}) / {high - low!r}))",
            "metric = ?",
            self._metrics[metric],
            (low, high),
        )

    def pass_rate(self, metric: str) -> Estimate | None:
        """The share that passes; None where nothing has a label, or several judges scored."""
        query = "SELECT DISTINCT judge FROM verdict WHERE metric = ? AND passed IS NOT NULL LIMIT 2"
        judges = list(self._tables.rows(query, (self._metrics.get(metric),)))
        if len(judges) != 1:
            return None
        return self._estimated("passed", "passed IS NOT NULL AND judge = ?", judges[0][0], (0, 1))

    def verdicts(self, metrics: Collection[str]) -> Iterator[Verdict]:
        """The verdicts of some metrics, in the order in which they came."""
        judges = {number: judge for judge, number in self._judges.items()}
        for name in [x for x in self._metrics if x in metrics]:
            for row in self._tables.rows(
                "SELECT judge, trace_id, session_id, is_session, value, low, high, passed,"
                " revision, share, span_id, alias FROM verdict WHERE metric = ? ORDER BY rowid",
                (self._metrics[name],),
            ):
                judge, trace_id, session_id, is_session, value, low, high, passed, *rest = row
                revision, share, span_id, alias = rest
                yield Verdict(
                    judges[judge],  # type: ignore[arg-type] # what `_row` was given
                    trace_id,
                    session_id,
                    bool(is_session),
                    value,
                    (low, high),
                    None if passed is None else bool(passed),
                    revision,
                    share,
                    span_id,
                    () if alias is None else (alias,),
                )

    def _count(self, evaluation: Evaluation) -> None:
        counts = self.counts.setdefault(evaluation.metric, Counts())
        if evaluation.status in _COUNTED:
            setattr(counts, evaluation.status, getattr(counts, evaluation.status) + 1)
        counts.passed += evaluation.passed is True
        counts.failing += evaluation.passed is False
        if evaluation.usage != _NO_USAGE:
            self.usage += evaluation.usage
        key = (evaluation.metric, evaluation.scope, evaluation.evaluator, self._why(evaluation))
        self._first.setdefault(key, evaluation)
        self._of_first[key] += 1

    def _why(self, evaluation: Evaluation) -> object:
        outcome = evaluation.outcome
        if isinstance(outcome, Skip):
            return "skipped", outcome.cause
        if isinstance(outcome, Failure):
            is_kept = len(self._first) < _MAX_REASONS
            return "failed", outcome.type, outcome.message if is_kept else None
        return "scored" if isinstance(outcome, Score) else "given"

    def _row(self, verdict: Verdict) -> tuple[object, ...]:
        return (
            self._metrics.setdefault(verdict.metric, len(self._metrics)),
            self._judges.setdefault(verdict.judge, len(self._judges)),
            verdict.trace_id,
            verdict.session_id,
            verdict.is_session,
            verdict.value,
            *verdict.scale,
            verdict.passed,
            verdict.revision,
            verdict.share,
            verdict.span_id,
            next(iter(verdict.aliases), None),
        )

    def _estimated(self, value: str, where: str, of: int, bounds: tuple[float, float]) -> Estimate:
        """What `calibration.estimated` gives for the verdicts of which `where` holds; `value` is an
        expression, 0 to 1.
        """
        source = f"FROM verdict WHERE {where}"
        least, most, in_sessions, sessions = self._tables.row(
            "SELECT MIN(share), MAX(share), COUNT(own), COUNT(DISTINCT own) FROM (SELECT share,"  # noqa: S608 - clauses and numbers of this file
            f" CASE WHEN NOT is_session THEN session_id END AS own {source})",
            (of,),
        )
        is_weighted, is_clustered = least != most, in_sessions != sessions
        weight = f"({most!r} / share)" if is_weighted else "1.0"
        cluster = _CLUSTER if is_clustered else "rowid"
        powers = ", ".join(
            f"SUM({'*'.join(['1.0', *['a'] * i, *['b'] * j])}{'/b' * -j})" for i, j in POWERS
        )
        sums = self._tables.row(
            f"SELECT SUM(n), COUNT(*), MAX(b), MAX(m), SUM(w), SUM(w / b), SUM(y), {powers} FROM"  # noqa: S608 - clauses and numbers of this file
            f" (SELECT COUNT(*) AS n, SUM({weight}) AS b, MAX({weight}) AS m,"
            f" SUM({weight} * {weight}) AS w, SUM({weight} * {value} * {value}) AS y,"
            f" SUM({weight} * {value}) AS a {source} GROUP BY {cluster})",
            (of,),
        )
        found = Moments(*sums)
        estimate = weighted_mean(found, level=_LEVEL, bounds=bounds)
        if found.outweighing:
            [heaviest] = self._tables.row(
                f"SELECT {_CLUSTER} {source} GROUP BY {cluster}"
                f" ORDER BY SUM({weight}) DESC LIMIT 1",
                (of,),
            )
            estimate = outweighed(estimate, found, heaviest)
        return named(estimate, is_weighted, is_clustered)


_COUNTED = frozenset(x.name for x in fields(Counts)) - {"passed", "failing"}
_NO_USAGE = JudgeUsage()


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """One metric's scores: their mean and pass rate with intervals, and what became of the others.

    Traces of one session are not independent, so the estimates count sessions, and traces that
    belong to none. `mean` is None without a score, `pass_rate` without a label, or where several
    judges scored.
    """

    metric: str
    mean: Estimate | None
    pass_rate: Estimate | None
    scored: int
    passed: int
    failing: int
    skipped: int
    failed: int


def summaries(evaluations: Iterable[Evaluation]) -> list[MetricSummary]:
    """A summary for each metric, in the order in which they first occur."""
    run = RunSummary.of(evaluations)
    return [
        MetricSummary(
            name,
            run.mean(name),
            run.pass_rate(name),
            scored=x.scored,
            passed=x.passed,
            failing=x.failing,
            skipped=x.skipped,
            failed=x.failed,
        )
        for name, x in run.counts.items()
    ]
