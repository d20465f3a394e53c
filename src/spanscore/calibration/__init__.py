"""Human labels beside scores: how far a judge can be trusted, and pass rates corrected for its
measured error.
"""

from spanscore.calibration.calibrating import (
    Calibration,
    Measure,
    calibration,
    counted_pairs,
    measures,
    unsure,
)
from spanscore.calibration.correcting import PassRate, pass_rates
from spanscore.calibration.growing import Point, growth
from spanscore.calibration.labels import Label, label_of, read_rows
from spanscore.calibration.labels import read as read_labels
from spanscore.calibration.matching import Matched, match
from spanscore.calibration.verdicts import Verdict
from spanscore.calibration.weighing import clusters_of, estimated, passing

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
