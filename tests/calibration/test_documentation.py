"""docs/calibration.md says what is so: its labels are read, its widths are right."""

import re
from pathlib import Path

import pytest

from spanscore.calibration import read_labels
from spanscore.stats import Confusion, corrected_rate, rate

PAGE = (Path(__file__).parents[2] / "docs" / "calibration.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE
)


def width(estimate):
    return pytest.approx(estimate.interval.high - estimate.interval.low, abs=0.006)


def judge(half, sensitivity, specificity):
    right, refused = round(half * sensitivity), round(half * specificity)
    return Confusion(right, half - right, half - refused, refused)


def test_the_labels_that_are_shown_are_read(written):
    (block,) = re.findall(r"```csv\n(.*?)```", PAGE, re.DOTALL)
    assert [x.value for x in read_labels(written(block, "labels.csv"))] == [1, 0]


@pytest.mark.parametrize("row", ROWS, ids=[x[0] for x in ROWS])
def test_the_widths_in_the_table_are_right(row):
    labels, *widths = (float(x) for x in row)
    exact, lenient = judge(int(labels) // 2, 0.95, 0.95), judge(int(labels) // 2, 0.9, 0.7)
    assert widths == [
        width(corrected_rate(150, 300, exact)),
        width(corrected_rate(180, 300, lenient)),
        width(exact.kappa()),
        width(lenient.kappa()),
    ]


def test_the_table_has_few_and_many_labels():
    assert [int(x[0]) for x in ROWS] == [20, 50, 100, 200, 500, 1000]


def test_the_corrected_rate_that_is_shown_is_right():
    """Of the lenient judge of tau2_verdicts.csv: all verdicts, and its errors on 100 labels."""
    line = re.findall(
        r"by the judge (.*) \[(.*), (.*)\], n = 278; corrected (.*) \[(.*), (.*)\] \(", PAGE
    )[0]
    judged, corrected = rate(193, 278), corrected_rate(193, 278, Confusion(45, 1, 23, 31))
    found = [y for x in (judged, corrected) for y in (x.value, x.interval.low, x.interval.high)]
    assert [float(x) for x in line] == pytest.approx(found, abs=0.005)
