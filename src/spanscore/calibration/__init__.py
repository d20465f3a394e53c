"""Judges held against human labels."""

from spanscore.calibration.certificate import Certificate, Certificates, certificates_in
from spanscore.calibration.inputs import InputWatch
from spanscore.calibration.labels import (
    Label,
    Matched,
    label_of,
    match,
    read as read_labels,
    read_rows,
)
from spanscore.calibration.trust import (
    Calibration,
    Measure,
    PassRate,
    Point,
    calibration,
    calibrations,
    counted_pairs,
    growth,
    measures,
    pass_rates,
    unsure,
)
from spanscore.calibration.verdicts import Verdict, clusters_of, estimated, judge_of, passing

__all__ = [
    "Calibration",
    "Certificate",
    "Certificates",
    "InputWatch",
    "Label",
    "Matched",
    "Measure",
    "PassRate",
    "Point",
    "Verdict",
    "calibration",
    "calibrations",
    "certificates_in",
    "clusters_of",
    "counted_pairs",
    "estimated",
    "growth",
    "judge_of",
    "label_of",
    "match",
    "measures",
    "pass_rates",
    "passing",
    "read_labels",
    "read_rows",
    "unsure",
]
