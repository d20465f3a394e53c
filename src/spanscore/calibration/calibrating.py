"""What labels tell about a judge: the measures with their intervals, and the calibration that is kept of them."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from spanscore.calibration.matching import Matched
from spanscore.calibration.verdicts import Judge
from spanscore.stats import (
    Confusion,
    Estimate,
    NotEstimableError,
    agreement,
    auc,
    best_threshold,
    confusion,
    corrected_rate,
    kappa,
    paired_difference,
    prediction_powered_mean,
    rate,
)

_SCHEMA = "spanscore.calibration/1"
_MAX_UNITS = 100_000
_JUDGE = ("metric", "name", "version", "model", "prompt_hash", "embedding", "threshold")


@dataclass(frozen=True, slots=True)
class Calibration:
    """A judge's errors as counted on human labels; `made_at_ns` is when, in Unix ns.

    `labelled` has what people say of each unit, at most the first 100,000: where they are scored again, they tell more
    than the judge's errors do.
    """

    judge: Judge
    confusion: Confusion
    made_at_ns: int
    labelled: Mapping[str, bool] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The same for the same judge: another prompt, model, version or threshold is another judge."""
        return hashlib.sha256(json.dumps(self.judge).encode()).hexdigest()

    @property
    def date(self) -> str:
        """The day on which it was made, in UTC."""
        return datetime.fromtimestamp(self.made_at_ns / 1e9, UTC).date().isoformat()

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        counts = {name: getattr(self.confusion, name) for name in Confusion.__dataclass_fields__}
        judge = dict(zip(_JUDGE, self.judge, strict=True))
        labels = {"passing": [x for x, passes in self.labelled.items() if passes]}
        labels["failing"] = [x for x, passes in self.labelled.items() if not passes]
        return {"schema": _SCHEMA, "judge": judge, "confusion": counts, "made_at_ns": self.made_at_ns, **labels}

    @classmethod
    def from_json(cls, data: Any) -> "Calibration | None":
        """What `to_json` gave; None for what another version wrote."""
        if data.get("schema") != _SCHEMA:
            return None
        judge: Any = tuple(data["judge"][name] for name in _JUDGE)
        labelled = dict.fromkeys(data["passing"], True) | dict.fromkeys(data["failing"], False)
        return cls(judge, Confusion(**data["confusion"]), data["made_at_ns"], labelled)


@dataclass(frozen=True, slots=True)
class Measure:
    """A named estimate, or the reason why there is none."""

    name: str
    estimate: Estimate | None
    why_not: str = ""


def calibration(matched: Matched, made_at_ns: int) -> Calibration:
    """The judge's errors on the labels."""
    labelled = {x.verdict.unit: x.passes for x in matched.pairs[:_MAX_UNITS]}
    return Calibration(matched.judge, _confusion(matched), made_at_ns, labelled)


def measures(matched: Matched, level: float) -> list[Measure]:
    """Everything that the labels tell about the judge, and the pass rates with them, in the order to print it."""
    table = _confusion(matched)
    labels, scores = [x.passes for x in matched.pairs], [x.verdict.value for x in matched.pairs]
    scale = _bounds(matched)
    asked: list[tuple[str, Callable[[], Estimate]]] = [
        ("agreement", lambda: table.agreement(level)),
        ("Cohen's kappa", lambda: table.kappa(level)),
        ("sensitivity", lambda: table.sensitivity(level)),
        ("specificity", lambda: table.specificity(level)),
        ("precision", lambda: table.precision(level)),
    ]
    if len({x.verdict.value for x in matched.pairs} | {x.value for x in matched.others}) > 2:
        asked += [
            ("AUC", lambda: auc(labels, scores, level=level)),
            ("best threshold", lambda: best_threshold(labels, scores, level=level, bounds=scale)),
            (
                "threshold of most agreement",
                lambda: best_threshold(labels, scores, by="agreement", level=level, bounds=scale),
            ),
        ]
    asked += list(_rates(matched, table, level))
    for one, other, a, b in matched.annotator_pairs():
        asked.append((f"agreement of {one} and {other}", partial(agreement, a, b, level=level)))
        asked.append((f"kappa of {one} and {other}", partial(kappa, a, b, level=level)))
    return [_measured(name, ask) for name, ask in asked]


def _rates(matched: Matched, table: Confusion, level: float) -> Iterator[tuple[str, Callable[[], Estimate]]]:
    """The pass rate by people, by the judge, and by both together."""
    labels = [float(x.passes) for x in matched.pairs]
    verdicts = [float(bool(x.verdict.passed)) for x in matched.pairs]
    others = [float(bool(x.passed)) for x in matched.others]
    passed, n = int(sum(verdicts) + sum(others)), len(verdicts) + len(others)
    unlabelled = int(sum(others))
    yield "pass rate by people, labelled", lambda: rate(int(sum(labels)), len(labels), level=level)
    yield "pass rate by the judge, all", lambda: rate(passed, n, level=level)
    if others:
        yield "pass rate corrected, unlabelled", lambda: corrected_rate(unlabelled, len(others), table, level=level)
    yield "pass rate prediction-powered, all", lambda: prediction_powered_mean(labels, verdicts, others, level=level)
    if matched.is_graded:
        grades, scores = [x.label for x in matched.pairs], [x.verdict.value for x in matched.pairs]
        rest = [x.value for x in matched.others]
        bounds = _bounds(matched)
        yield "grade, judge less people", lambda: paired_difference(grades, scores, level=level, bounds=bounds)
        yield (
            "mean grade prediction-powered, all",
            lambda: prediction_powered_mean(grades, scores, rest, level=level, bounds=bounds),
        )


def _bounds(matched: Matched) -> tuple[float, float]:
    """The scale of the scores, wide enough for them and the grades."""
    low, high = matched.pairs[0].verdict.scale if matched.pairs else (0.0, 1.0)
    given = [x.label for x in matched.pairs] if matched.is_graded else []
    given += [x.value for x in (*(pair.verdict for pair in matched.pairs), *matched.others)]
    return min([low, *given]), max([high, *given])


def _measured(name: str, ask: Callable[[], Estimate]) -> Measure:
    try:
        return Measure(name, ask())
    except NotEstimableError as reason:
        return Measure(name, None, str(reason))


def _confusion(matched: Matched) -> Confusion:
    pairs: Sequence[Any] = matched.pairs
    return confusion([x.passes for x in pairs], [bool(x.verdict.passed) for x in pairs])
