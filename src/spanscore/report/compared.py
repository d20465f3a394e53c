"""A comparison of two runs as a page shows it."""

from typing import Any

from spanscore.report.figures import estimate
from spanscore.report.results import Change, Comparison, Difference
from spanscore.report.texts import Texts

_MAX_CHANGES = 5_000
_MAX_NAMES = 500


def comparison(found: Comparison, texts: Texts) -> dict[str, Any]:
    """The comparison's JSON object in a report."""
    return {
        "baseline": found.baseline,
        "verdict": found.verdict,
        "differences": [_difference(x) for x in found.differences],
        "changes": [_change(x, texts) for x in found.changes[:_MAX_CHANGES]],
        "more_changes": max(0, len(found.changes) - _MAX_CHANGES),
        "only_in_baseline": [texts.line(x) for x in found.only_in_baseline[:_MAX_NAMES]],
        "only_in_own": [texts.line(x) for x in found.only_in_own[:_MAX_NAMES]],
        "remarks": [texts.text(x) for x in found.remarks],
    }


def _difference(found: Difference) -> dict[str, Any]:
    return {
        "name": found.name,
        "counted": found.counted,
        "baseline": estimate(found.baseline),
        "own": estimate(found.own),
        "difference": estimate(found.difference),
        "verdict": found.verdict,
        "unit": found.unit,
        "regression": found.regression,
        "note": found.note,
    }


def _change(found: Change, texts: Texts) -> dict[str, Any]:
    return {
        "name": texts.line(found.name),
        "baseline": found.baseline,
        "own": found.own,
        "measure": found.measure,
        "values": None if found.values is None else list(found.values),
        "verdict": found.verdict,
    }
