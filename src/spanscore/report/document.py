"""The data of a report, failures first."""

from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeAlias

from spanscore.report import details, rows
from spanscore.report.results import (
    Comparison,
    Joined,
    Results,
    by_metric,
    estimate_of,
    join,
    passing_turns,
    shown,
)
from spanscore.report.rows import Turn
from spanscore.report.texts import Chunks, Texts

SCHEMA = "spanscore.report/1"
"""The form of the data in a report."""

MAX_TURNS = 100_000
"""No more turns are listed."""

Row: TypeAlias = dict[str, Any]

_CASE_ORDER = ("fail", "error", "unmatched", "skipped", "pass")


@dataclass(frozen=True, slots=True)
class _Run:
    """One run's turns in their order, and its scores by what they are of."""

    results: Results
    turns: Sequence[Turn]
    joined: Joined
    metrics: list[Row]
    not_listed: int = 0

    @classmethod
    def of(cls, results: Results) -> "_Run":
        of_trials = (x for case in results.cases for trial in case.trials for x in trial.scores)
        joined = join(results.traces, [*results.scores, *of_trials])
        found = rows.turns(results.traces, joined)
        metrics, not_listed = by_metric(joined.all), max(0, len(found) - MAX_TURNS)
        return cls(results, found[:MAX_TURNS], joined, metrics, not_listed)

    @property
    def numbers(self) -> rows.Numbers:
        """The place of each metric, what others gave under its source."""
        return {(x["metric"], x["source"]): place for place, x in enumerate(self.metrics)}

    @property
    def places(self) -> dict[str, int]:
        """The row of each turn."""
        return {x.id: place for place, x in enumerate(self.turns)}


def blocks(
    results: Results,
    *,
    comparison: Comparison | None,
    baseline: Results | None,
    texts: Texts,
    max_bytes: int,
) -> Generator[bytes, None, Row]:
    """Write the details of everything, `max_bytes` of them at most; returns the index, which says
    where each is.
    """
    chunks = Chunks(max_bytes)
    run = _Run.of(results)
    index: Row = {"schema": SCHEMA, "version": version("spanscore"), "name": results.name}
    index["started"] = _started(results)
    index["turn_rate"] = estimate_of(passing_turns([(x.state, x.key) for x in run.turns]))
    index["figures"] = list(map(shown, results.figures))
    index["cases"] = yield from _cases(run, chunks, texts)
    index |= yield from _listed(run, chunks, texts)
    if comparison is not None:
        index["comparison"] = comparison_of(comparison, texts)
    if baseline is not None:
        other = _Run.of(baseline)
        index["baseline"] = yield from _baseline(other, run, index["turns"], chunks, texts)
    yield from chunks.rest()
    index["trace_url"] = results.trace_url
    index["notes"] = [*results.notes, *_left_out(chunks, run, max_bytes)]
    return index


def _cases(run: _Run, chunks: Chunks, texts: Texts) -> Generator[bytes, None, list[Row]]:
    """Write the details of tests; returns their rows."""
    rows_of = _rows_of(run) if run.results.cases else {}
    own = dict(enumerate(run.turns))
    found = []
    for case in sorted(run.results.cases, key=lambda x: _CASE_ORDER.index(x.status)):
        detail = details.case(case, rows_of, own, texts)
        row = {name: detail[name] for name in ("name", "status", "figures")}
        row["trials"] = [x.status for x in case.trials]
        found.append({**row, "at": chunks.add(detail)})
        yield from chunks.written()
    return found


def _rows_of(run: _Run) -> dict[str, list[int]]:
    """The rows of turns by agent trace id and by trace id."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for place, turn in enumerate(run.turns):
        trace_ids = turn.trace.trace_ids if turn.trace else (turn.id.partition(":")[0],)
        for name in (turn.id, *trace_ids):
            found[name].append(place)
    return found


def _of_trials(run: _Run) -> dict[rows.InTest, str]:
    """The ids of turns by test, trial and place in the trial."""
    rows_of = _rows_of(run) if run.results.cases else {}
    return {
        (case.name, number, place): run.turns[row].id
        for case in run.results.cases
        for number, trial in enumerate(case.trials)
        for place, row in enumerate(details.rows_in(trial, rows_of))
    }


def _listed(run: _Run, chunks: Chunks, texts: Texts) -> Generator[bytes, None, Row]:
    """Write the details of sessions and turns; returns their rows, and those of the metrics."""
    numbers, places = run.numbers, run.places
    of_sessions: list[Row] = []
    session_of: dict[int, int] = {}
    for key, own in rows.sessions(run.turns, run.joined).items():
        scores = run.joined.of_session.get(key, [])
        row = rows.session_row(key, own, scores, texts, numbers)
        row["turns"] = [places[x.id] for x in own]
        session_of |= dict.fromkeys(row["turns"], len(of_sessions))
        detail = details.session_details(key, own, scores, texts)
        of_sessions.append({**row, "name": detail["id"], "at": chunks.add(detail)})
        yield from chunks.written()
    of_turns: list[Row] = []
    for place, turn in enumerate(run.turns):
        row = rows.row(turn, texts, numbers)
        if place in session_of:
            row["session"] = session_of[place]
        of_turns.append({**row, "at": chunks.add(_detail(turn, texts))})
        yield from chunks.written()
    return {"metrics": run.metrics, "turns": of_turns, "sessions": of_sessions}


def _detail(turn: Turn, texts: Texts) -> Row:
    if turn.trace is not None:
        return details.turn_details(turn.trace, turn.scores, texts)
    scores = [details.score(x, lambda _word, _number: None, texts) for x in turn.scores]
    return {"id": turn.id, "input": texts.text(turn.user_input), "unknown": True, "scores": scores}


def _baseline(
    other: _Run, run: _Run, own_rows: Sequence[Row], chunks: Chunks, texts: Texts
) -> Generator[bytes, None, Row]:
    """Write the baseline's turns; each own row gets the place of its counterpart."""
    listed = yield from _listed(other, chunks, texts)
    places = other.places
    tests = _of_trials(run), _of_trials(other)
    pairs = rows.paired(run.turns, other.turns, tests=tests)
    for turn, row in zip(run.turns, own_rows, strict=True):
        if turn.id in pairs:
            row["was"] = places[pairs[turn.id]]
    return {"name": other.results.name, "started": _started(other.results), **listed}


def _started(results: Results) -> float | None:
    """When the run began, in milliseconds of Unix time: as it says, else the start of its first
    turn.
    """
    starts = (x.started_ns for x in results.traces if x.started_ns)
    started = results.started_at_ns or min(starts, default=None)
    return None if started is None else started / 1e6


def _left_out(chunks: Chunks, run: _Run, max_bytes: int) -> Iterator[str]:
    if chunks.left_out:
        yield (
            f"The steps and reasons of {chunks.left_out:,} turns, sessions or tests are left out:"
            f" this file would be larger than about {max_bytes >> 20} MiB. What fails was kept"
            " first; a report of fewer traces has all."
        )
    if run.not_listed:
        yield (
            f"{run.not_listed:,} turns are not listed: a report lists {MAX_TURNS:,}, those that"
            " fail first."
        )


_MAX_CHANGES = 5_000
_MAX_NAMES = 500


def comparison_of(found: Comparison, texts: Texts) -> dict[str, Any]:
    """The comparison's JSON object in a report."""
    return {
        "baseline": found.baseline,
        "verdict": found.verdict,
        "differences": list(map(shown, found.differences)),
        "changes": [shown(x) | {"name": texts.line(x.name)} for x in found.changes[:_MAX_CHANGES]],
        "more_changes": max(0, len(found.changes) - _MAX_CHANGES),
        "only_in_baseline": [texts.line(x) for x in found.only_in_baseline[:_MAX_NAMES]],
        "only_in_own": [texts.line(x) for x in found.only_in_own[:_MAX_NAMES]],
        "remarks": [texts.text(x) for x in found.remarks],
    }
