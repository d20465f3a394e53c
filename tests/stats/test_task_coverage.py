"""docs/statistics.md's table of intervals over tasks."""

import re
from pathlib import Path

import pytest

from bench.coverage import METHODS, pass_pow, simulated

PAGE = (Path(__file__).parents[2] / "docs/statistics.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| (\w+) \| (\d+ x \d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE
)


@pytest.mark.parametrize(("name", "truth"), sorted({(x[0], x[2]) for x in ROWS}))
def test_the_truths_in_the_table_are_right(name, truth):
    assert pass_pow(name, 4) == pytest.approx(float(truth), abs=0.0006)


# All nine rows take a minute; these are where the two differ the most and the least. The standard
# error is .03 at most.
@pytest.mark.parametrize(
    "row", [x for x in ROWS if x[:2] in {("hard", "20 x 5"), ("mixed", "20 x 5")}]
)
def test_the_coverages_in_the_table_are_right(row):
    cell = f"{row[0]}, {row[1]}, k 4"
    found = [
        simulated(METHODS[method][cell], cell, 250, seed=1).coverage
        for method in ("pass-pow-k", "pass-pow-k-bootstrap")
    ]
    assert found == pytest.approx([float(x) for x in row[3:]], abs=0.06)


def test_the_table_has_what_is_simulated():
    assert [f"{x[0]}, {x[1]}, k 4" for x in ROWS] == list(METHODS["pass-pow-k-bootstrap"])
