"""What a criterion of the rubric judge is, and the metric that bears its scores."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from spanscore.metrics._base import Metric, Threshold
from spanscore.model.score import ScopeKind, Skip
from spanscore.model.trace import AgentTrace, Session

PREFIX = "rubric."
HIGHEST = 5
ACCEPTABLE = 3
LABELS = ("critical_fail", "fail", "poor", "acceptable", "good", "excellent")
"""What each score of a scored criterion is called, from 0 to 5."""

Kind: TypeAlias = Literal["scored", "binary"]


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that the rubric judge scores.

    `levels` says what each score means, from 0 to 5; of a `binary` criterion those from 3 on are a
    pass, and it may have a text for 0 and 5 alone. `weight` 0 means that it counts only where a
    weight is given. `needs` are the facts of every turn without which there is nothing to judge,
    `needs_once` those that one turn must have. `no_occasion` says when the criterion does not apply
    to a session, which the judge may then answer; None: it always applies. Nor does it where no
    turn has any of a fact in `nothing_without`, which the judge is not asked then.
    """

    id: str
    display_name: str
    description: str
    tier: str
    weight: float
    levels: tuple[str | None, ...]
    kind: Kind = "scored"
    needs: tuple[str, ...] = ("user_input", "final_output")
    needs_once: tuple[str, ...] = ()
    no_occasion: str | None = None
    nothing_without: tuple[str, ...] = ()
    in_defaults: bool = False

    @property
    def metric(self) -> str:
        """The name under which it is scored."""
        return f"{PREFIX}{self.id}"

    def unmeasurable(self, session: Session) -> Skip | None:
        """Why `session` cannot be scored on this: a fact was not recorded or arrived cut, or it
        does not apply.
        """
        several = len(session.traces) > 1
        for index, trace in enumerate(session.traces):
            for fact in self.needs:
                if lack := _lack(trace, fact):
                    return Skip(
                        f"{f'Turn {index}' if several else 'The trace'} {lack.reason}", lack.cause
                    )
        for fact in self.needs_once:
            lacks = [lack for trace in session.traces if (lack := _lack(trace, fact))]
            if len(lacks) == len(session.traces):
                return Skip(
                    f"{'The session' if several else 'The trace'} {lacks[0].reason}", lacks[0].cause
                )
        for fact in self.nothing_without:
            if not any(getattr(trace, fact) for trace in session.traces):
                return Skip(
                    f"There are no {fact.replace('_', ' ')} to judge.", cause="not_applicable"
                )
        return None

    def label(self, score: int) -> str:
        """What `score` is called.

        >>> Criterion("tone", "Tone", "Is it kind?", "delivery", 0.1, ("",) * 6).label(4)
        'good'
        """
        if self.kind == "binary":
            return "pass" if score >= ACCEPTABLE else "fail"
        return LABELS[score]


@dataclass(frozen=True)
class RubricMetric(Metric):
    """A score of the rubric judge, on a session, or on a trace that belongs to none.

    What runs, with which weights, and whose models judge is said under `evaluation.rubric`.
    """

    scope: ClassVar[ScopeKind] = "session"
    run: ClassVar[Literal["trace", "session"]] = "session"
    scale: ClassVar[tuple[float, float]] = (0.0, float(HIGHEST))
    method: ClassVar[str] = "judge"

    threshold: Threshold = float(ACCEPTABLE)


@dataclass(frozen=True)
class Criterial(RubricMetric):
    """A criterion of the project's own."""

    criterion: ClassVar[Criterion]


def weighed(scores: Iterable[tuple[float, float]]) -> float:
    """`100 * sum(weight * score / 5)` over (weight, score), with the weights brought to a sum of 1.

    Rounded to 9 places, for what binary floats add is nothing that anybody scored.

    >>> weighed([(0.7, 4), (0.1, 4), (0.1, 4), (0.1, 5)])
    82.0
    """
    pairs = list(scores)
    total = math.fsum(weight for weight, _ in pairs)
    return round(100 * math.fsum(weight * score for weight, score in pairs) / (total * HIGHEST), 9)


def _lack(trace: AgentTrace, fact: str) -> Skip | None:
    """Why a trace cannot be scored for want of `fact`; the reason lacks its subject."""
    if getattr(trace, fact) is None:
        return Skip(f"did not record {fact}.", "not_recorded")
    return (
        Skip(f"has a {fact} that arrived cut or redacted.", "damaged")
        if fact in trace.damaged
        else None
    )
