"""A run as one self-contained HTML file."""

from spanscore.report.page import MAX_BYTES, page, save
from spanscore.report.results import (
    Case,
    Change,
    Comparison,
    Difference,
    Figure,
    Results,
    Score,
    Trial,
    as_json,
    of_run,
)

__all__ = [
    "MAX_BYTES",
    "Case",
    "Change",
    "Comparison",
    "Difference",
    "Figure",
    "Results",
    "Score",
    "Trial",
    "as_json",
    "of_run",
    "page",
    "save",
]
