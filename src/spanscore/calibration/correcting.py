"""Pass rates with what a kept calibration makes of them: the one place that says when one holds,
and when not.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spanscore.calibration.calibrating import Calibration
from spanscore.calibration.verdicts import Judge, Verdict
from spanscore.calibration.weighing import clusters_of, counted, estimated, passing, weights_of
from spanscore.stats import Estimate, NotEstimableError, corrected_rate, prediction_powered_mean


@dataclass(frozen=True, slots=True)
class PassRate:
    """The share of a metric's verdicts that pass, by the judge and corrected for its measured
    error.

    `note` says which calibration that rests on, or why there is no correction; it is empty where
    the metric was never calibrated.
    """

    metric: str
    judged: Estimate
    corrected: Estimate | None
    note: str

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        corrected = None if self.corrected is None else self.corrected.to_json()
        return {
            "metric": self.metric,
            "judged": self.judged.to_json(),
            "corrected": corrected,
            "note": self.note,
        }


def pass_rates(
    verdicts: Iterable[Verdict], calibrations: Sequence[Calibration], *, level: float = 0.95
) -> list[PassRate]:
    """The pass rates of each judge in `verdicts`, those without a verdict left out.

    Traces of one session count as one unit, and a sampled one by the inverse of its share.
    """
    groups: defaultdict[Judge, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.passed is not None:
            groups[verdict.judge].append(verdict)
    return [_pass_rate(judge, found, calibrations, level) for judge, found in groups.items()]


def _pass_rate(
    judge: Judge, verdicts: Sequence[Verdict], calibrations: Sequence[Calibration], level: float
) -> PassRate:
    judged = estimated(passing(verdicts), verdicts, level)
    of_metric = [x for x in calibrations if x.judge[0] == judge[0]]
    found = next((x for x in of_metric if x.judge == judge), None)
    if found is None:
        return PassRate(judge[0], judged, None, _not_applied(judge, of_metric))
    try:
        corrected, on = _corrected(judged, verdicts, found, level)
    except NotEstimableError as reason:
        return PassRate(
            judge[0], judged, None, f"not corrected by the {_described(found)}: {reason}"
        )
    return PassRate(
        judge[0], judged, corrected, f"{on}; {corrected.note}" if corrected.note else on
    )


def _corrected(
    judged: Estimate, verdicts: Sequence[Verdict], found: Calibration, level: float
) -> tuple[Estimate, str]:
    """The rate and what it rests on.

    By the labels of the very units where most of them are among these, which then count one each:
    Rogan and Gladen's estimate is for units other than the labelled.
    """
    among = [x for x in verdicts if x.unit in found.labelled]
    if 2 * len(among) >= len(found.labelled) and len(among) > 1 and weights_of(verdicts) is None:
        rest = [x for x in verdicts if x.unit not in found.labelled]
        clusters = clusters_of([*among, *rest])
        powered = prediction_powered_mean(
            [float(found.labelled[x.unit]) for x in among],
            passing(among),
            passing(rest),
            level=level,
            clusters=(clusters[: len(among)], clusters[len(among) :]) if clusters else None,
        )
        return powered, f"{_described(found)}, {len(among)} of them of these; prediction-powered"
    corrected = corrected_rate(
        *counted(verdicts), found.confusion, level=level, design_effects=found.design_effects
    )
    return replace(corrected, n=judged.n), f"{_described(found)}; Rogan-Gladen"


def _described(found: Calibration) -> str:
    return (
        f"calibration of {found.date}, {found.confusion.n:.0f}"
        f" label{'s' * (found.confusion.n != 1)}"
    )


def _not_applied(judge: Judge, of_metric: Sequence[Calibration]) -> str:
    """Why the calibrations of the same metric do not hold, by what the nearest differs in."""
    if not of_metric:
        return ""
    names = ("metric", "evaluator", "version", "model", "prompt", "embedding", "threshold")
    nearest = min(of_metric, key=lambda x: sum(a != b for a, b in zip(x.judge, judge, strict=True)))
    differs = [name for name, a, b in zip(names, nearest.judge, judge, strict=True) if a != b]
    return f"not corrected: the calibration of {nearest.date} is of another {' and '.join(differs)}"
