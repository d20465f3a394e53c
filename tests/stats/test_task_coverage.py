"""How often intervals over tasks hold the truth of the tasks' population, and docs/statistics.md's
table of it.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from spanscore.stats.means import bounded_limits
from spanscore.stats.tasks import bca_limits

REPEATS, RESAMPLES = 4000, 300
PAGE = (Path(__file__).parents[2] / "docs/statistics.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| (\w+) \| (\d+) x (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE
)

# (share of tasks, their chance to pass as a, b of a beta distribution; one number: all the same)
TASKS = {
    "mixed": [(0.3, 0), (0.2, 1), (0.5, (1, 1))],
    "even": [(1, (1, 1))],
    "extreme": [(1, (0.5, 0.5))],
    "hard": [(0.7, 0), (0.3, (1, 3))],
    "easy": [(0.8, 1), (0.2, (3, 1))],
    "rare": [(0.95, 0), (0.05, (4, 1))],
}


def moment(chance, k):
    """E[p^k]."""
    if not isinstance(chance, tuple):
        return chance**k
    a, b = chance
    return math.exp(
        math.lgamma(a + k) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(a + b + k)
    )


def simulated(name, tasks, trials, k):
    """The unbiased pass^k of each task, in many suites drawn from the population, and the truth."""
    parts, rng = TASKS[name], np.random.default_rng(tasks + k)
    which = rng.choice(len(parts), (REPEATS, tasks), p=[share for share, _ in parts])
    drawn = [
        rng.beta(*x, which.shape) if isinstance(x, tuple) else np.full(which.shape, float(x))
        for _, x in parts
    ]
    passed = rng.binomial(trials, np.choose(which, drawn))
    of_count = np.array([math.comb(c, k) / math.comb(trials, k) for c in range(trials + 1)])
    return of_count[passed], sum(share * moment(x, k) for share, x in parts)


def held(limits, truth):
    low, high = limits
    return float(np.mean((low <= truth + 1e-9) & (truth - 1e-9 <= high)))


def of_default(x, truth):
    center = x.mean(1)
    shares = np.full(x.shape[1], 1 / x.shape[1])
    return held(bounded_limits(center, shares, shares * (x - center[:, None]), 0.95), truth)


def of_bootstrap(x, truth):
    rng = np.random.default_rng(0)
    tasks = x.shape[1]
    found = []
    for values in x:
        kinds, counts = np.unique(values, return_counts=True)
        found.append(
            bca_limits(
                values, rng.multinomial(tasks, counts / tasks, RESAMPLES) @ kinds / tasks, 0.95
            )
        )
    return held(np.array(found).T, truth)


@pytest.mark.parametrize(("tasks", "trials"), [(20, 5), (50, 4), (100, 8)])
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("k", [1, 4])
def test_pass_pow_k_over_tasks_is_covered(name, k, tasks, trials):
    x, truth = simulated(name, tasks, trials, k)
    coverage = of_default(x, truth)
    assert coverage >= 0.93
    if tasks >= 100 and 0.2 <= truth <= 0.8:
        assert coverage <= 0.97


@pytest.mark.parametrize(
    ("name", "tasks", "trials", "truth", "default", "bootstrap"),
    ROWS,
    ids=[" ".join(x[:3]) for x in ROWS],
)
def test_the_coverages_in_the_table_are_right(name, tasks, trials, truth, default, bootstrap):
    x, of_population = simulated(name, int(tasks), int(trials), 4)
    assert (
        of_population,
        of_default(x, of_population),
        of_bootstrap(x[: REPEATS // 2], of_population),
    ) == (
        pytest.approx(float(truth), abs=0.0006),
        pytest.approx(float(default), abs=0.006),
        # half as many will do for what is not the default
        pytest.approx(float(bootstrap), abs=0.012),
    )


def test_the_table_has_what_is_simulated():
    assert {row[0] for row in ROWS} == {"mixed", "hard", "easy"}
