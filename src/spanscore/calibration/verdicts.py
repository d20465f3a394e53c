"""Scores as calibration sees them: what was scored, by whom, and whether it passed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from spanscore.model.score import Evaluation, reaches

Judge: TypeAlias = tuple[str, str, str, str | None, str | None, str | None, float | None]
"""What a calibration holds for: metric, evaluator's name, version, model, prompt hash and embedding, and threshold."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One score: `value` on `scale`, passed where it reaches `threshold`, or as its label says where it has none.

    `share` is the chance with which what was scored had been drawn, 1 where everything is scored; `aliases` are further
    ids of a trace, such as its agent trace id.
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
        return f"session {self.session_id}" if self.is_session else f"trace {self.trace_id}/{self.span_id}"

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
        value = float(score["value"])
        low, high = (float(x) for x in score["scale"])
        if not math.isfinite(value) or not low < high:
            raise ValueError(f"value {value} on the scale {low}..{high}")
        named = (score["metric"], by["name"], by["version"], by["model"], by["prompt_hash"], by["embedding"])
        passed = {"pass": True, "fail": False}.get(score["label"] or "")
        if passed is None and threshold is not None:
            passed = reaches(value, threshold)
        return cls(
            judge=(*named, None if threshold is None else float(threshold)),
            trace_id=str(score["trace_id"]),
            session_id=score["session_id"],
            is_session=score["scope"] == "session",
            value=value,
            scale=(low, high),
            passed=passed,
            revision=int(score.get("revision", 1)),
            share=float(score.get("sampling") or 1.0),
            span_id=str(score.get("span_id") or ""),
        )
