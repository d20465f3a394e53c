"""How often 95 % intervals hold the truth: by 4,000 simulated data sets each, or exactly, over all that can be."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from spanscore.stats import Confusion, auc, corrected_rate
from spanscore.stats.means import bounded_limits
from spanscore.stats.pairs import paired_rate_limits
from spanscore.stats.passing import unbiased_pass_pow_k
from spanscore.stats.prediction import powered_limits
from spanscore.stats.rates import rate_limits

REPEATS = 4000
NOISE = 0.007  # two standard errors of a simulated coverage of 93 or 97 %


def held(limits, truth):
    low, high = limits
    return float(np.mean((low <= truth + 1e-12) & (truth - 1e-12 <= high)))


def assert_covers(coverage, n, truth, noise=NOISE):
    """For n >= 100 and a truth of .2 to .8 93-97 %, else at least 93 %."""
    assert coverage >= 0.93 - noise
    if n >= 100 and 0.2 <= truth <= 0.8:
        assert coverage <= 0.97 + noise


def of_means(x):
    shares = np.full(x.shape[1], 1 / x.shape[1])
    center = x @ shares
    return bounded_limits(center, shares, shares * (x - center[:, None]), 0.95)


@pytest.mark.parametrize("n", [1, 2, 5, 10, 30, 100])
def test_a_rate_is_covered_at_every_truth(n):
    limits = np.array([rate_limits(c, n, 0.95) for c in range(n + 1)])
    truths = np.linspace(0.001, 0.999, 999)
    chances = binom.pmf(np.arange(n + 1)[:, None], n, truths)
    inside = (limits[:, :1] <= truths) & (truths <= limits[:, 1:])
    coverage = (chances * inside).sum(0)
    for truth, share in zip(truths, coverage, strict=True):
        assert_covers(share, n, truth, noise=0)


SCORES = {
    "uniform": (lambda rng, size: rng.random(size), 0.5),
    "bell": (lambda rng, size: rng.beta(2, 2, size), 0.5),
    "high": (lambda rng, size: rng.beta(8, 2, size), 0.8),
    "U": (lambda rng, size: rng.beta(0.5, 0.5, size), 0.5),
    "five grades": (lambda rng, size: rng.choice(5, size, p=[0.1, 0.1, 0.2, 0.3, 0.3]) / 4, 0.65),
    "mostly 1": (lambda rng, size: np.where(rng.random(size) < 0.9, 1, rng.random(size)), 0.95),
    "rarely 0": (lambda rng, size: np.where(rng.random(size) < 0.05, 0, 0.9), 0.855),
    "nearly always 1": (lambda rng, size: (rng.random(size) < 0.99).astype(float), 0.99),
    "near 0": (lambda rng, size: rng.beta(0.1, 0.9, size), 0.1),
}


@pytest.mark.parametrize("n", [2, 5, 20, 100])
@pytest.mark.parametrize("name", SCORES)
def test_a_mean_of_bounded_scores_is_covered(name, n):
    draw, truth = SCORES[name]
    limits = of_means(draw(np.random.default_rng(n), (REPEATS, n)))
    assert_covers(held(limits, truth), n, truth)


@pytest.mark.parametrize(("n", "rates"), [(30, (0.3, 0.8)), (150, (0.3, 0.8)), (150, (0.02, 0.1))])
def test_a_weighted_rate_is_covered(n, rates):
    """Two strata of which the first is drawn four times as often, weighted back to their true halves."""
    rng = np.random.default_rng(n)
    many = rng.random((REPEATS, n)) < 0.8
    passed = (rng.random((REPEATS, n)) < np.where(many, *rates)).astype(float)
    weights = np.where(many, 0.5 / 0.8, 0.5 / 0.2)
    shares = weights / weights.sum(1, keepdims=True)
    center = (shares * passed).sum(1)
    truth = sum(rates) / 2
    assert held(bounded_limits(center, shares, shares * (passed - center[:, None]), 0.95), truth) >= 0.93 - NOISE


@pytest.mark.parametrize("sessions", [10, 40, 120])
def test_a_rate_of_turns_in_sessions_is_covered(sessions):
    rng = np.random.default_rng(sessions)
    turns = rng.integers(1, 7, (REPEATS, sessions))
    passed = rng.binomial(turns, rng.beta(1.5, 1, (REPEATS, sessions)))
    shares = turns / turns.sum(1, keepdims=True)
    center = passed.sum(1) / turns.sum(1)
    pulls = passed / turns.sum(1, keepdims=True) - shares * center[:, None]
    assert_covers(held(bounded_limits(center, shares, pulls, 0.95), 0.6), sessions, 0.6)


@pytest.mark.parametrize("n", [5, 30, 100])
@pytest.mark.parametrize("chances", [(0.25, 0.25), (0.1, 0.3), (0.05, 0.05), (0.0, 0.05)])
def test_a_paired_difference_of_rates_is_covered(n, chances):
    drawn = np.random.default_rng(n).multinomial(n, [*chances, 1 - sum(chances)], REPEATS)[:, :2]
    tables, counts = np.unique(drawn, axis=0, return_counts=True)
    limits = np.array([paired_rate_limits(int(gained), int(lost), n, 0.95) for gained, lost in tables])
    truth = chances[0] - chances[1]
    inside = (limits[:, 0] <= truth + 1e-12) & (truth - 1e-12 <= limits[:, 1])
    assert counts @ inside / REPEATS >= 0.93 - NOISE


@pytest.mark.parametrize("n", [5, 20, 100])
def test_a_paired_difference_of_scores_is_covered(n):
    rng = np.random.default_rng(n)
    task = rng.random((REPEATS, n))
    a, b = (0.5 * task + 0.5 * rng.beta(k, 2, (REPEATS, n)) for k in (2, 4))
    low, high = of_means((b - a + 1) / 2)
    assert held((low * 2 - 1, high * 2 - 1), (4 / 6 - 0.5) / 2) >= 0.93 - NOISE


@pytest.mark.parametrize(("n", "m"), [(5, 10), (10, 10), (40, 25)])
def test_an_unpaired_difference_of_rates_is_covered_at_every_pair_of_truths(n, m):
    a, b = (np.array([rate_limits(c, k, 0.95) for c in range(k + 1)]) for k in (n, m))
    x, y = np.arange(n + 1)[:, None] / n, np.arange(m + 1) / m
    low = y - x - np.hypot(y - b[:, 0], a[:, 1:] - x)
    high = y - x + np.hypot(b[:, 1] - y, x - a[:, :1])
    grid = (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.98)
    worst = min(
        binom.pmf(np.arange(n + 1), n, p)
        @ ((low <= q - p + 1e-12) & (q - p - 1e-12 <= high))
        @ binom.pmf(np.arange(m + 1), m, q)
        for p in grid
        for q in grid
    )
    assert worst >= 0.92  # 0.927 at worst, near 0 and 1


@pytest.mark.parametrize(("n", "errors"), [(12, (0.8, 0.9)), (100, (0.7, 0.8))])
def test_kappa_is_covered(n, errors):
    sensitivity, specificity = errors
    cells = np.array([sensitivity, 1 - sensitivity, 1 - specificity, specificity]) / 2
    truth = (cells[0] + cells[3] - 0.5) / 0.5
    tables, counts = np.unique(np.random.default_rng(n).multinomial(n, cells, REPEATS), axis=0, return_counts=True)
    usable = np.array([0 < x[0] + x[1] < n and 0 < x[0] + x[2] < n for x in tables])
    inside = [truth in Confusion(*map(int, x)).kappa().interval for x in tables[usable]]
    assert_covers(counts[usable] @ np.array(inside) / counts[usable].sum(), n, truth)


@pytest.mark.parametrize(("passing", "failing", "spread"), [(8, 12, 1.0), (30, 70, 1.0), (50, 50, 2.0)])
def test_an_area_is_covered(passing, failing, spread):
    rng = np.random.default_rng(passing)
    labels = [True] * passing + [False] * failing
    high, low = rng.normal(1.2, spread, (REPEATS, passing)), rng.normal(0, 1, (REPEATS, failing))
    truth = float(norm.cdf(1.2 / np.hypot(1, spread)))
    inside = [truth in auc(labels, [*x, *y]).interval for x, y in zip(high, low, strict=True)]
    assert_covers(np.mean(inside), passing + failing, truth)


@pytest.mark.parametrize(("n", "labels", "truth"), [(20, 24, 0.4), (60, 30, 0.05), (120, 100, 0.5), (120, 100, 0.95)])
def test_a_corrected_rate_is_covered(n, labels, truth):
    """Both the labels and the units are drawn anew each time."""
    rng = np.random.default_rng(n)
    passing, failing = labels // 2, labels - labels // 2
    passed = rng.binomial(n, truth * 0.9 + (1 - truth) * 0.2, REPEATS)
    right, wrong = rng.binomial(passing, 0.9, REPEATS), rng.binomial(failing, 0.2, REPEATS)
    drawn, counts = np.unique(np.stack((passed, right, wrong)), axis=1, return_counts=True)
    inside = [
        truth in corrected_rate(int(c), n, Confusion(int(x), int(passing - x), int(y), int(failing - y))).interval
        for c, x, y in drawn.T
        if x / passing - y / failing > 0.45
    ]
    usable = drawn[1] / passing - drawn[2] / failing > 0.45
    assert_covers(counts[usable] @ np.array(inside) / counts[usable].sum(), n, truth)


@pytest.mark.parametrize(
    ("labels", "others", "truth"), [(10, 100, 0.5), (40, 400, 0.9), (120, 1000, 0.4), (120, 60, 0.7)]
)
def test_a_prediction_powered_rate_is_covered(labels, others, truth):
    rng = np.random.default_rng(labels)
    passes = rng.random((REPEATS, labels + others)) < truth
    says = (rng.random(passes.shape) < np.where(passes, 0.9, 0.25)).astype(float)
    y = passes[:, :labels].astype(float)
    _, limits = powered_limits(y, says[:, :labels], says[:, labels:], 0.95)
    assert_covers(held(limits, truth), labels, truth)


@pytest.mark.parametrize("tasks", [10, 30, 100])
def test_pass_pow_k_over_tasks_is_covered(tasks):
    rng = np.random.default_rng(tasks)
    passed = rng.binomial(4, rng.beta(0.6, 0.6, (REPEATS, tasks)))
    values = np.array([unbiased_pass_pow_k(4, c, 2) for c in range(5)])[passed]
    truth = (0.6 / 1.2) * (1.6 / 2.2)
    assert_covers(held(of_means(values), truth), tasks, truth)
