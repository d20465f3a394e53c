"""How often each check fires on passed and on failed runs: whether what it finds goes with failure.

    .venv/bin/python bench/checks.py FILE...        (make checks-study FILES="...")

FILE is a file of labelled trajectories in a format of bench/trajectories.py; docs/checks.md names
public ones with their licences. A run counts as found in where any of its turns is. The lift is the
share of failed runs with a finding over that of passed ones, compared within each corpus and pooled
as by Mantel and Haenszel: corpora differ in both shares. Half a run is added to the counts, so that
0 of n has a ratio. The interval, of 95 %, comes from a bootstrap over tasks, since runs of one task
are not independent. A lower limit above 1 says that the check tells failed runs from passed ones.
Prints Markdown; the last rows are of all corpora together.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from trajectories import Trajectory, read

from spanscore.metrics import available
from spanscore.metrics.check import Check
from spanscore.model.score import Score
from spanscore.model.trace import Session

_RESAMPLES = 4_000
_SEED = 20_240_520
_HALF = 0.5


class Run(NamedTuple):
    """One run, with the names of the checks that applied to one of its turns, and of those that
    found something.
    """

    corpus: str
    task: str
    passed: bool
    applied: frozenset[str]
    found: frozenset[str]


def measured(trajectory: Trajectory, checks: Sequence[Check]) -> Run:
    """What the checks make of a trajectory."""
    applied, found = set(), set()
    for check, value in _values(trajectory.session, checks):
        applied.add(check.name)
        if value < 1:
            found.add(check.name)
    return Run(
        trajectory.corpus, trajectory.task, trajectory.passed, frozenset(applied), frozenset(found)
    )


def _values(session: Session, checks: Sequence[Check]) -> Iterator[tuple[Check, float]]:
    for place, trace in enumerate(session.traces):
        for check in checks:
            outcome = check.unmeasurable(trace) or check.measure_after(
                trace, session.traces[:place]
            )
            if isinstance(outcome, Score):
                yield check, outcome.value


def row(corpus: str, name: str, runs: Sequence[Run]) -> str:
    """A line of the table."""
    counts = sum(map(_counted, [name] * len(runs), runs), np.zeros(4))
    applied = sum(name in run.applied for run in runs)
    shares = [
        f"{int(found)} of {int(total)} ({found / max(total, 1):.1%})"
        for found, total in (counts[:2], counts[2:])
    ]
    lift = "-"
    if counts[0] or counts[2]:
        value, (low, high) = _lift_and_interval(name, runs)
        lift = f"{value:.2f} [{low:.2f}, {high:.2f}]"
    return f"| `{name}` | {corpus} | {applied} | {shares[0]} | {shares[1]} | {lift} |"


def _counted(name: str, run: Run) -> np.ndarray:
    """Of failed runs those with a finding, and all; of passed ones the same."""
    one = [float(name in run.found), 1.0]
    return np.array([0.0, 0.0, *one] if run.passed else [*one, 0.0, 0.0])


def _lift_and_interval(name: str, runs: Sequence[Run]) -> tuple[float, np.ndarray]:
    """The lift, and its 2.5 % and 97.5 % points when each corpus's tasks are drawn with
    replacement.
    """
    by_task: defaultdict[str, defaultdict[str, np.ndarray]]
    by_task = defaultdict(lambda: defaultdict(lambda: np.zeros(4)))
    for run in runs:
        by_task[run.corpus][run.task] += _counted(name, run)
    random = np.random.default_rng(_SEED)
    drawn, whole = [], []
    for tasks in by_task.values():
        sums = np.array(list(tasks.values()))
        if not sums[:, [0, 2]].any():
            continue  # a corpus without a finding says nothing of the lift
        drawn.append(sums[random.integers(len(sums), size=(_RESAMPLES, len(sums)))].sum(axis=1))
        whole.append(sums.sum(axis=0))
    lifts = _lift(np.stack(drawn))
    return float(_lift(np.stack(whole))), np.quantile(lifts, [0.025, 0.975])


def _lift(counts: np.ndarray) -> np.ndarray:
    """The pooled lift of counts by corpus (first axis) and kind (last axis)."""
    found_failed, failed, found_passed, passed = np.moveaxis(counts, -1, 0)
    all_runs = np.maximum(failed + passed, 1)
    half = _HALF / len(counts)
    above = ((found_failed + half) * (passed + 2 * half) / all_runs).sum(axis=0)
    below = ((found_passed + half) * (failed + 2 * half) / all_runs).sum(axis=0)
    return above / below


def main(paths: Sequence[str]) -> None:
    """Print the table of all checks over the files."""
    if not paths:
        sys.exit("name files of labelled trajectories; bench/trajectories.py says in which formats")
    checks = [metric() for metric in available().values() if issubclass(metric, Check)]
    try:
        corpora = {path: [measured(x, checks) for x in read(Path(path))] for path in paths}
    except (OSError, ValueError) as error:
        sys.exit(f"checks: {error}")
    print("| check | corpus | applied to | found in failed | found in passed | lift [95 %] |")
    print("|---|---|---|---|---|---|")
    for runs in corpora.values():
        for check in checks:
            print(row(runs[0].corpus, check.name, runs))
    if len(corpora) > 1:
        for check in checks:
            print(row("all", check.name, [run for runs in corpora.values() for run in runs]))


if __name__ == "__main__":
    main(sys.argv[1:])
