"""Scores as verdicts to calibrate."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from spanscore.model.score import Evaluation, reaches
from spanscore.stats import Estimate, effective_number, mean

Judge: TypeAlias = tuple[str, str, str, str | None, str | None, str | None, float | None]
"""What a calibration holds for: metric, evaluator's name, version, model, prompt hash and
embedding, and threshold.
"""


def judge_of(evaluation: Evaluation) -> Judge:
    """Who scored, as a calibration has it."""
    by, threshold = evaluation.evaluator, evaluation.threshold
    passes_from = None if threshold is None else float(threshold)
    named = (evaluation.metric, by.name, by.version, by.model, by.prompt_hash, by.embedding)
    return (*named, passes_from)


def key_of(judge: Judge) -> str:
    """The same for the same judge: another prompt, model, version or threshold is another judge."""
    return hashlib.sha256(json.dumps(judge).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Verdict:
    """One score: `value` on `scale`, passed where it reaches `threshold`, or as its label says
    where it has none.

    `share` is the chance with which what was scored had been drawn, 1 where everything is scored;
    `aliases` are further ids of a trace, such as its agent trace id.
    """

    judge: Judge
    trace_id: str
    session_id: str | None
    is_session: bool
    value: float
    scale: tuple[float, float]
    passed: bool | None
    revision: int = 1
    share: float = 1.0
    span_id: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """What was scored, the same in all files and runs: several turns can share a trace."""
        if self.is_session:
            return f"session {self.session_id}"
        return f"trace {self.trace_id}/{self.span_id}"

    @property
    def names(self) -> tuple[str, ...]:
        """The ids by which a label may name it."""
        own = (self.session_id or "",) if self.is_session else (self.trace_id, *self.aliases)
        return tuple(dict.fromkeys(own))

    @property
    def metric(self) -> str:
        """What was measured."""
        return self.judge[0]

    @property
    def threshold(self) -> float | None:
        """The value from which on it passes."""
        return self.judge[6]

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Verdict | None":
        """The verdict of an evaluation; None where nothing was scored."""
        found = cls.of_json(evaluation.to_json())
        is_trace = found is not None and not found.is_session
        return replace(found, aliases=(evaluation.subject_id,)) if found and is_trace else found

    @classmethod
    def of_json(cls, score: Mapping[str, Any]) -> "Verdict | None":
        """The verdict of a score as JSON; None where it is skipped or failed.

        Raises KeyError, TypeError or ValueError where it is no score.
        """
        if score["status"] != "scored":
            return None
        by, threshold = score["evaluator"], score["threshold"]
        value = _number(score["value"])
        low, high = (_number(x) for x in score["scale"])
        if not low < high:
            raise ValueError(f"the scale {low:g}..{high:g} has no width")
        facts = (by[x] for x in ("name", "version", "model", "prompt_hash", "embedding"))
        share = _number(score.get("sampling") or 1.0)
        if not 0 < share <= 1:
            raise ValueError(f"sampling {share:g} is no share above 0, up to 1")
        passed = {"pass": True, "fail": False}.get(score["label"] or "")
        if passed is None and threshold is not None:
            passed = reaches(value, _number(threshold))
        return cls(
            judge=(score["metric"], *facts, None if threshold is None else _number(threshold)),
            trace_id=str(score["trace_id"]),
            session_id=score["session_id"],
            is_session=score["scope"] == "session",
            value=value,
            scale=(low, high),
            passed=passed,
            revision=int(score.get("revision", 1)),
            share=share,
            span_id=str(score.get("span_id") or ""),
        )


def _number(value: Any) -> float:
    """`true`, `"0.8"`, NaN and infinities are no numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def clusters_of(verdicts: Sequence[Verdict]) -> list[str] | None:
    """For each verdict what is independent of the others: its session, or a trace that belongs to
    none.

    None where no session has more than one of them, so that all are independent.
    """
    sessions = [x.session_id for x in verdicts if x.session_id is not None and not x.is_session]
    if len(set(sessions)) == len(sessions):
        return None
    return [x.unit if x.session_id is None else f"session {x.session_id}" for x in verdicts]


def weights_of(verdicts: Sequence[Verdict]) -> list[float] | None:
    """The inverse of the share by which each was drawn; None where all were drawn by the same."""
    weights = [1 / x.share for x in verdicts]
    return weights if len(set(weights)) > 1 else None


def estimated(
    values: Sequence[float],
    verdicts: Sequence[Verdict],
    level: float,
    bounds: tuple[float, float] = (0, 1),
) -> Estimate:
    """The mean of what `verdicts` have as `values`, weighted by their shares, clustered by their
    sessions.
    """
    weights, clusters = weights_of(verdicts), clusters_of(verdicts)
    return mean(values, level=level, weights=weights, clusters=clusters, bounds=bounds)


def passing(verdicts: Sequence[Verdict]) -> list[float]:
    """1 for each that passes, 0 for the others."""
    return [float(bool(x.passed)) for x in verdicts]


def counted(verdicts: Sequence[Verdict]) -> tuple[float, float]:
    """How many pass and how many there are, in independent units of equal weight that would tell as
    much.
    """
    passed, weights = passing(verdicts), weights_of(verdicts)
    n = effective_number(passed, weights=weights, clusters=clusters_of(verdicts))
    each = weights or [1.0] * len(passed)
    return n * (sum(w * x for w, x in zip(each, passed, strict=True)) / sum(each)), n
