"""How often each check fires on passed and on failed runs: whether what it finds goes with failure.

    .venv/bin/python bench/checks.py FILE...        (make checks-study FILES="...")

FILE is a file of labelled trajectories in a format of bench/trajectories.py; docs/checks.md names
public ones with their licences. A run counts as found in where any of its turns is. The lift is the
share of failed runs with a finding over that of passed ones (half a run added to each count, so
that 0 of n has a ratio); its interval, of 90 % so that each limit errs in 5 %, comes from a
bootstrap over tasks, since runs of one task are not independent. A lower limit above 1 says that
the check tells failed runs from passed ones in that corpus. Prints Markdown; the last rows are of
all corpora together.
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
    fired, total = _counts(name, runs)
    applied = sum(name in run.applied for run in runs)
    low, high = _interval(name, runs)
    lift = f"{_lift(fired, total):.2f} [{low:.2f}, {high:.2f}]" if fired.any() else "-"
    shares = [
        f"{int(fired[i])} of {int(total[i])} ({fired[i] / max(total[i], 1):.1%})" for i in (0, 1)
    ]
    return f"| `{name}` | {corpus} | {applied} | {shares[0]} | {shares[1]} | {lift} |"


def _counts(name: str, runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """Of the failed and of the passed runs: how many have a finding, and how many there are."""
    passed = np.array([run.passed for run in runs])
    found = np.array([name in run.found for run in runs])
    return np.array([found[~passed].sum(), found[passed].sum()]), np.array(
        [(~passed).sum(), passed.sum()]
    )


def _lift(fired: np.ndarray, total: np.ndarray) -> float:
    failed, passed = (fired + _HALF) / (total + 2 * _HALF)
    return float(failed / passed)


def _interval(name: str, runs: Sequence[Run]) -> tuple[float, float]:
    """The 5 % and 95 % points of the lift when tasks are drawn with replacement."""
    by_task: defaultdict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        by_task[run.corpus, run.task].append(run)
    sums = np.array([np.concatenate(_counts(name, group)) for group in by_task.values()])
    drawn = np.random.default_rng(_SEED).integers(len(sums), size=(_RESAMPLES, len(sums)))
    lifts = [_lift(x[:2], x[2:]) for x in sums[drawn].sum(axis=1)]
    low, high = np.quantile(lifts, [0.05, 0.95])
    return float(low), float(high)


def main(paths: Sequence[str]) -> None:
    """Print the table of all checks over the files."""
    if not paths:
        sys.exit("name files of labelled trajectories; bench/trajectories.py says in which formats")
    checks = [metric() for metric in available().values() if issubclass(metric, Check)]
    try:
        corpora = {path: [measured(x, checks) for x in read(Path(path))] for path in paths}
    except (OSError, ValueError) as error:
        sys.exit(f"checks: {error}")
    print("| check | corpus | applied to | found in failed | found in passed | lift [90 %] |")
    print("|---|---|---|---|---|---|")
    for runs in corpora.values():
        for check in checks:
            print(row(runs[0].corpus, check.name, runs))
    if len(corpora) > 1:
        for check in checks:
            print(row("all", check.name, [run for runs in corpora.values() for run in runs]))


if __name__ == "__main__":
    main(sys.argv[1:])
