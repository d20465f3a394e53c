"""Scores as a report needs them, whether they come as values or as JSON, and what they are scores
of.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spanscore.model.external import spans_of
from spanscore.model.score import Evaluation, reaches
from spanscore.model.trace import AgentTrace
from spanscore.report.results import Score

FAIL, ERROR, PASS, UNSCORED = "fail", "error", "pass", "none"
ORDER = (FAIL, ERROR, PASS, UNSCORED)
"""The states of what was scored, in the order in which a reader should see them."""


def as_json(score: Score) -> Mapping[str, Any]:
    """The score's JSON object."""
    return score.to_json() if isinstance(score, Evaluation) else score


@dataclass(frozen=True, slots=True)
class Scored:
    """One score: what decides where it is shown. `passed` is None where there is no verdict.

    `source` is None where spanscore measured, else who gave the score ("human", another evaluator's
    name).
    """

    raw: Score
    metric: str
    status: str
    passed: bool | None
    source: str | None = None

    @classmethod
    def of(cls, raw: Score) -> "Scored":
        """The score of a value or a JSON object.

        Raises KeyError, TypeError or ValueError where it is none.
        """
        if isinstance(raw, Evaluation):
            passed = {"pass": True, "fail": False}.get(raw.label or "", raw.passed)
            return cls(raw, raw.metric, raw.status, passed, raw.evaluator.source)
        source = (raw.get("evaluator") or {}).get("source")
        return cls(
            raw,
            str(raw["metric"]),
            str(raw["status"]),
            _passed(raw),
            None if source is None else str(source),
        )

    @property
    def name(self) -> tuple[str, str | None]:
        """What scores of one kind share: nobody else's are counted with spanscore's own."""
        return self.metric, self.source


@dataclass(slots=True)
class Joined:
    """Scores by what they are of: the id of an agent trace, the key of a session, or an evaluated
    span.
    """

    of_turn: defaultdict[str, list[Scored]] = field(default_factory=lambda: defaultdict(list))
    of_session: defaultdict[str, list[Scored]] = field(default_factory=lambda: defaultdict(list))
    strays: defaultdict[tuple[str, str], list[Scored]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @property
    def all(self) -> list[Scored]:
        """Every score."""
        groups = (self.of_turn, self.of_session, self.strays)
        return [x for group in groups for own in group.values() for x in own]


def join(traces: Sequence[AgentTrace], scores: Iterable[Score]) -> Joined:
    """Scores by their turns and sessions; those of turns that are not among `traces` by trace id
    and span id.

    Where several turns share a span and the score does not say of which one it is, each metric's
    first score is of the first turn, and so on, as they are written. What somebody else gave to any
    span of one turn is of that turn. Of several revisions the newest counts.
    """
    places = _Places(traces)
    found = Joined()
    for raw in newest(scores):
        scored = Scored.of(raw)
        scope, subject, session, target = _where(raw)
        if scope == "session":
            found.of_session[session].append(scored)
        elif (turn := places.turn_of(subject, target, scored)) is not None:
            found.of_turn[turn].append(scored)
        else:
            found.strays[target].append(scored)
    return found


class _Places:
    """Finds the turn that a score is of."""

    def __init__(self, traces: Sequence[AgentTrace]) -> None:
        self._known = {x.id for x in traces}
        self._of_target: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._of_trace: defaultdict[str, list[AgentTrace]] = defaultdict(list)
        self._seen: Counter[tuple[Any, ...]] = Counter()
        for trace in traces:
            self._of_target[trace.target.trace_id, trace.target.span_id].append(trace.id)
            for trace_id in trace.trace_ids:
                self._of_trace[trace_id].append(trace)

    def turn_of(self, subject: str, target: tuple[str, str], scored: Scored) -> str | None:
        """The id of the agent trace."""
        if subject in self._known:
            return subject
        if scored.source is not None:
            return self._with_span(*target)
        if turns := self._of_target.get(target):
            place = self._seen[target, scored.name]
            self._seen[target, scored.name] += 1
            return turns[min(place, len(turns) - 1)]
        return None

    def _with_span(self, trace_id: str, span_id: str) -> str | None:
        """The one turn of an OTel trace that has a span; the only one whichever span it is; else
        None.
        """
        turns = self._of_trace.get(trace_id, [])
        found = turns if len(turns) == 1 else [x for x in turns if span_id in spans_of(x)]
        return found[0].id if len(found) == 1 else None


def newest(scores: Iterable[Score]) -> list[Score]:
    """The scores without those that a later one takes the place of, in their order.

    That is one of a later revision; of what somebody else gave, the last that the same author gave.
    """
    items = list({id(x): x for x in scores}.values())
    if all(_rank(x) <= (1, 0) for x in items):
        return items
    latest: dict[tuple[Any, ...], tuple[int, int]] = {}
    for item in items:
        key = _identity(item)
        latest[key] = max(latest.get(key, (0, 0)), _rank(item))
    return [x for x in items if _rank(x) == latest[_identity(x)]]


def state(scores: Iterable[Scored]) -> str:
    """What a turn or session came to: it fails where one score does, and passes where one does and
    none fails.

    By what spanscore measured: what others say is shown beside it.
    """
    own = (x for x in scores if x.source is None)
    found = {
        FAIL if x.passed is False else PASS if x.passed else ERROR if x.status == "failed" else ""
        for x in own
    }
    return next((x for x in ORDER if x in found), UNSCORED)


def _where(raw: Score) -> tuple[str, str, str, tuple[str, str]]:
    """Scope, agent trace id ("" where it is not known), session key, and the evaluated span."""
    if isinstance(raw, Evaluation):
        session = raw.subject_id if raw.scope == "session" else ""
        return raw.scope, raw.subject_id, session, (raw.target.trace_id, raw.target.span_id)
    session = str(raw["session_key"] or "")
    return (
        str(raw["scope"]),
        str(raw["subject_id"]),
        session,
        (str(raw["trace_id"]), str(raw["span_id"])),
    )


def _identity(raw: Score) -> tuple[Any, ...]:
    if isinstance(raw, Evaluation):
        by = raw.evaluator
        return (*_where(raw), raw.metric, by.name, by.source, by.author)
    given = raw.get("evaluator") or {}
    return (*_where(raw), str(raw["metric"]), *(given.get(x) for x in ("name", "source", "author")))


def _rank(raw: Score) -> tuple[int, int]:
    """The revision; of what somebody else gave also the time."""
    if isinstance(raw, Evaluation):
        return raw.revision, raw.evaluated_at_ns if raw.is_external else 0
    is_external = (raw.get("evaluator") or {}).get("source") is not None
    return int(raw.get("revision") or 1), int(raw.get("evaluated_at_ns") or 0) if is_external else 0


def _passed(score: Mapping[str, Any]) -> bool | None:
    if score["status"] != "scored":
        return None
    if score.get("label") in {"pass", "fail"}:
        return bool(score["label"] == "pass")
    value, threshold = score.get("value"), score.get("threshold")
    if not isinstance(value, int | float) or not isinstance(threshold, int | float):
        return None
    return reaches(value, threshold)
