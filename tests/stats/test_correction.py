"""A corrected pass rate's interval holds the true rate as often as it says, and what cannot be corrected is refused."""

import numpy as np
import pytest

from spanscore.stats import Confusion, NotEstimableError, corrected_rate
from spanscore.stats.correction import corrected_limits

REPLICATIONS = 4000
JUDGES = [(0.95, 0.95), (0.9, 0.8), (0.8, 0.7), (0.7, 0.9)]


def held(n, labels, rate, judge, share=0.5):
    """How often the interval holds the rate: `n` units judged, and other `labels`, of which a `share` passes."""
    rng = np.random.default_rng(n + labels)
    sensitivity, specificity = judge
    passes = rng.binomial(labels, share, REPLICATIONS)
    fails = labels - passes
    true_pass, true_fail = rng.binomial(passes, sensitivity), rng.binomial(fails, specificity)
    passed = rng.binomial(n, rate * sensitivity + (1 - rate) * (1 - specificity), REPLICATIONS)
    told = (passes > 0) & (fails > 0)
    told[told] = (true_pass[told] / passes[told] + true_fail[told] / fails[told]) > 1
    counts = (x[told] for x in (true_pass, passes - true_pass, fails - true_fail, true_fail))
    low, high = corrected_limits(passed[told], n, tuple(counts), 0.95)
    return ((low <= rate) & (rate <= high)).mean()


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("labels", [200, 600])
@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("judge", JUDGES, ids=str)
def test_the_interval_covers(n, labels, rate, judge):
    assert 0.93 <= held(n, labels, rate, judge) <= 0.97


@pytest.mark.parametrize(("n", "labels", "share"), [(20, 20, 0.5), (50, 40, 0.8), (300, 40, 0.5), (1000, 100, 0.8)])
@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5, 0.95])
@pytest.mark.parametrize("judge", [*JUDGES, (0.65, 0.65)], ids=str)
def test_the_interval_covers_with_few_labels_or_a_rate_near_its_bounds(n, labels, share, rate, judge):
    assert held(n, labels, rate, judge, share) >= 0.93


def test_a_worked_example():
    # By the formulas of Lang and Reiczigel 2014, by hand: 60 of 100 pass; 45 and 40 of 50 labels are right.
    found = corrected_rate(60, 100, Confusion(45, 5, 10, 40))
    assert found.value == pytest.approx((0.6 + 0.8 - 1) / 0.7)
    z2 = 1.959964**2
    seen, se, sp = (60 + z2 / 2) / (100 + z2), 46 / 52, 41 / 52
    rate = (seen + sp - 1) / (se + sp - 1)
    of_se, of_sp = se * (1 - se) / 52, sp * (1 - sp) / 52
    error = (seen * (1 - seen) / (100 + z2) + rate**2 * of_se + (1 - rate) ** 2 * of_sp) ** 0.5 / (se + sp - 1)
    center = rate + 2 * z2 * (rate * of_se - (1 - rate) * of_sp)
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (center - z2**0.5 * error, center + z2**0.5 * error), abs=1e-6
    )


def test_few_labels_make_the_interval_wider():
    few, many = (corrected_rate(60, 1000, Confusion(9 * x, x, x, 9 * x)).interval for x in (1, 20))
    assert few.high - few.low > many.high - many.low


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (Confusion(10, 0, 0, 0), "no label says fail"),
        (Confusion(0, 0, 0, 10), "no label says pass"),
        (Confusion(20, 0, 20, 0), "no better than chance: it passes 100% of what passes and 100% of what fails"),
        (Confusion(1, 9, 9, 1), "no better than chance"),
    ],
)
def test_what_no_correction_can_mend_is_refused(table, why):
    with pytest.raises(NotEstimableError, match=why):
        corrected_rate(40, 100, table)


def test_a_judge_that_may_be_no_better_than_chance_is_noted():
    found = corrected_rate(50, 100, Confusion(6, 4, 5, 5))
    assert found.note == "the labels leave it open whether the judge is better than chance"
    assert found.interval.high - found.interval.low > 0.9
