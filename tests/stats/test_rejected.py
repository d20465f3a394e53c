"""How often the intervals that docs/statistics.md turns down hold the truth at worst, by adding up
all outcomes.
"""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from spanscore.stats.differences import agresti_caffo_limits, tango_limits

PAGE = (Path(__file__).parents[2] / "docs/statistics.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| (\d[^|]*) \| (0\.\d+) \|$", PAGE, re.MULTILINE)
TRUTHS = np.arange(0.01, 1, 0.02)
Z = 1.959964


def worst_difference(limits, n, m):
    """Over all pairs of TRUTHS."""
    low, high = limits(n, m)
    chances_a, chances_b = (binom.pmf(np.arange(k + 1), k, TRUTHS[:, None]) for k in (n, m))
    return min(
        a @ ((low <= q - p + 1e-9) & (q - p - 1e-9 <= high)) @ b
        for (p, a), (q, b) in itertools.product(
            *(zip(TRUTHS, x, strict=True) for x in (chances_a, chances_b))
        )
    )


def wilsons_added(n, m):
    (a, a_low, a_high), (b, b_low, b_high) = (
        np.array(
            [
                (c / k, (x := binomtest(c, k).proportion_ci(method="wilson")).low, x.high)
                for c in range(k + 1)
            ]
        ).T
        for k in (n, m)
    )
    a, a_low, a_high = a[:, None], a_low[:, None], a_high[:, None]
    return b - a - np.hypot(b - b_low, a_high - a), b - a + np.hypot(b_high - b, a - a_low)


def agresti_caffo(n, m):
    return agresti_caffo_limits((np.arange(n + 1)[:, None], n), (np.arange(m + 1), m), 0.95)


def worst_paired(n):
    """Where all change is one way, by a share among TRUTHS."""
    limits = np.array([tango_limits(c, 0, n, 0.95) for c in range(n + 1)])
    held = (limits[:, :1] <= TRUTHS + 1e-9) & (limits[:, 1:] >= TRUTHS - 1e-9)
    return (binom.pmf(np.arange(n + 1)[:, None], n, TRUTHS) * held).sum(0).min()


def lang_and_reiczigel(n, passes, fails, rate, judge):
    """How often their limits (2014, Preventive Veterinary Medicine 113, 13-22) hold the rate."""
    counts = np.meshgrid(*(np.arange(k + 1.0) for k in (n, passes, fails)), indexing="ij")
    (x, _), (se, se_error), (fp, fp_error) = shrunk = [
        ((c + add / 2) / (k + add), k + add)
        for c, k, add in zip(counts, (n, passes, fails), (Z * Z, 2, 2), strict=True)
    ]
    x_error, se_error, fp_error = (share * (1 - share) / k for share, k in shrunk)
    gain = np.maximum(se - fp, 1e-9)
    value = (x - fp) / gain
    half = Z * np.sqrt(x_error + value**2 * se_error + (1 - value) ** 2 * fp_error) / gain
    center = value + 2 * Z * Z * (value * se_error - (1 - value) * fp_error)
    chances = np.einsum(
        "i,j,k->ijk",
        *(
            binom.pmf(np.arange(k + 1), k, share)
            for k, share in (
                (n, rate * judge[0] + (1 - rate) * judge[1]),
                (passes, judge[0]),
                (fails, judge[1]),
            )
        ),
    )
    told = counts[1] / passes - counts[2] / fails > 1e-9
    held = (np.clip(center - half, 0, 1) <= rate) & (rate <= np.clip(center + half, 0, 1))
    return (chances * told * held).sum() / (chances * told).sum()


def worst(method, sizes):
    n = [int(x) for x in re.findall(r"\d+", sizes)]
    if method.startswith("square and add"):
        return worst_difference(wilsons_added, *n)
    if method.startswith("Agresti and Caffo"):
        return worst_difference(agresti_caffo, *n)
    if method.startswith("Tango"):
        return worst_paired(*n)
    return lang_and_reiczigel(*n, 0.5, (1.0, 0.0))


@pytest.mark.parametrize(
    ("method", "sizes", "coverage"), ROWS, ids=[f"{x[0]}, {x[1]}" for x in ROWS]
)
def test_the_coverages_of_rejected_methods_are_right(method, sizes, coverage):
    assert worst(method, sizes) == pytest.approx(float(coverage), abs=0.0006)


def test_the_table_has_all_methods():
    assert len({x[0] for x in ROWS}) == 4
