"""Judges held against human labels."""

from spanscore.calibration.labels import Label, Matched, label_of, match, read_rows
from spanscore.calibration.labels import read as read_labels
from spanscore.calibration.trust import (
    Calibration,
    Measure,
    PassRate,
    Point,
    calibration,
    counted_pairs,
    growth,
    measures,
    pass_rates,
    unsure,
)
from spanscore.calibration.verdicts import Verdict, clusters_of, estimated, passing

__all__ = [
    "Calibration",
    "Label",
    "Matched",
    "Measure",
    "PassRate",
    "Point",
    "Verdict",
    "calibration",
    "clusters_of",
    "counted_pairs",
    "estimated",
    "growth",
    "label_of",
    "match",
    "measures",
    "pass_rates",
    "passing",
    "read_labels",
    "read_rows",
    "unsure",
]
