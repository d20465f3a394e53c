"""docs/statistics.md says what is so."""

import re
from pathlib import Path

import pytest

from bench.coverage import METHODS
from spanscore.stats import mean, rate

PAGE = (Path(__file__).parents[2] / "docs/statistics.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)


def width(estimate):
    return estimate.interval.high - estimate.interval.low


@pytest.mark.parametrize(("n", "half", "none", "even"), ROWS, ids=[row[0] for row in ROWS])
def test_the_widths_in_the_table_are_right(n, half, none, even):
    n = int(n)
    spread = mean([(place + 0.5) / n for place in range(n)])
    assert (width(rate(n // 2, n)), width(rate(0, n)), width(spread)) == (
        pytest.approx(float(half), abs=0.006),
        pytest.approx(float(none), abs=0.0006),
        pytest.approx(float(even), abs=0.006),
    )


def test_the_table_has_small_and_large_n():
    assert [int(row[0]) for row in ROWS] == [5, 10, 20, 50, 100, 200, 500, 1000]


def test_the_table_of_simulated_coverage_has_every_method():
    rows = re.findall(r"^\| `([\w-]+)` \| [^|]+ \| (\d+) \| [\d,]+ \|", PAGE, re.MULTILINE)
    assert rows == [(method, str(len(cells))) for method, cells in METHODS.items()]
