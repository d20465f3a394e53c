"""What labels tell about a judge: the measures with their intervals, and the calibration that is kept of them."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
    prediction_powered_mean,
    rate,
)

_SCHEMA = "spanscore.calibration/1"
_JUDGE = ("metric", "name", "version", "model", "prompt_hash", "embedding", "threshold")


@dataclass(frozen=True, slots=True)
class Calibration:
    """A judge's errors as counted on human labels; `made_at_ns` is when, in Unix ns."""

    judge: Judge
    confusion: Confusion
    made_at_ns: int

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
        return {"schema": _SCHEMA, "judge": judge, "confusion": counts, "made_at_ns": self.made_at_ns}

    @classmethod
    def from_json(cls, data: Any) -> "Calibration | None":
        """What `to_json` gave; None for what another version wrote."""
        if data.get("schema") != _SCHEMA:
            return None
        judge: Any = tuple(data["judge"][name] for name in _JUDGE)
        return cls(judge, Confusion(**data["confusion"]), data["made_at_ns"])


@dataclass(frozen=True, slots=True)
class Measure:
    """A named estimate, or the reason why there is none."""

    name: str
    estimate: Estimate | None
    why_not: str = ""


def calibration(matched: Matched, made_at_ns: int) -> Calibration:
    """The judge's errors on the labels."""
    return Calibration(matched.judge, _confusion(matched), made_at_ns)


def measures(matched: Matched, level: float) -> list[Measure]:
    """Everything that the labels tell about the judge, and the pass rates with them, in the order to print it."""
    table = _confusion(matched)
    labels, scores = [x.passes for x in matched.pairs], [x.verdict.value for x in matched.pairs]
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
            ("best threshold", lambda: best_threshold(labels, scores, level=level)),
            ("threshold of most agreement", lambda: best_threshold(labels, scores, by="agreement", level=level)),
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
    yield "pass rate by people, labelled", lambda: rate(int(sum(labels)), len(labels), level=level)
    yield "pass rate by the judge, all", lambda: rate(passed, n, level=level)
    yield "pass rate corrected, all", lambda: corrected_rate(passed, n, table, level=level)
    yield "pass rate prediction-powered, all", lambda: prediction_powered_mean(labels, verdicts, others, level=level)
    if matched.is_graded:
        grades, scores = [x.label for x in matched.pairs], [x.verdict.value for x in matched.pairs]
        rest = [x.value for x in matched.others]
        bounds = _bounds(matched)
        yield (
            "mean grade prediction-powered, all",
            lambda: prediction_powered_mean(grades, scores, rest, level=level, bounds=bounds),
        )


def _bounds(matched: Matched) -> tuple[float, float]:
    """The scale of the scores, wide enough for the grades."""
    low, high = matched.pairs[0].verdict.scale if matched.pairs else (0.0, 1.0)
    grades = [x.label for x in matched.pairs]
    return min([low, *grades]), max([high, *grades])


def _measured(name: str, ask: Callable[[], Estimate]) -> Measure:
    try:
        return Measure(name, ask())
    except NotEstimableError as reason:
        return Measure(name, None, str(reason))


def _confusion(matched: Matched) -> Confusion:
    pairs: Sequence[Any] = matched.pairs
    return confusion([x.passes for x in pairs], [bool(x.verdict.passed) for x in pairs])
