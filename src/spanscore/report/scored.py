"""Scores as a report needs them, whether they come as values or as JSON, and what they are scores of."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spanscore.model.score import Evaluation, reaches
from spanscore.model.trace import AgentTrace
from spanscore.report.results import Score

FAIL, ERROR, PASS, UNSCORED = "fail", "error", "pass", "none"
ORDER = (FAIL, ERROR, PASS, UNSCORED)
"""The states of what was scored, in the order in which a reader should see them."""


def as_json(score: Score) -> Mapping[str, Any]:
    """The score's JSON object, with `subject_id` where that is known."""
    return {**score.to_json(), "subject_id": score.subject_id} if isinstance(score, Evaluation) else score


@dataclass(frozen=True, slots=True)
class Scored:
    """One score: what decides where it is shown. `passed` is None where there is no verdict."""

    raw: Score
    metric: str
    status: str
    passed: bool | None

    @classmethod
    def of(cls, raw: Score) -> "Scored":
        """The score of a value or a JSON object. Raises KeyError, TypeError or ValueError where it is none."""
        if isinstance(raw, Evaluation):
            return cls(raw, raw.metric, raw.status, raw.passed)
        return cls(raw, str(raw["metric"]), str(raw["status"]), _passed(raw))


@dataclass(slots=True)
class Joined:
    """Scores by what they are of: the id of an agent trace, the key of a session, or neither is known."""

    of_turn: defaultdict[str, list[Scored]] = field(default_factory=lambda: defaultdict(list))
    of_session: defaultdict[str, list[Scored]] = field(default_factory=lambda: defaultdict(list))
    strays: defaultdict[tuple[str, str], list[Scored]] = field(default_factory=lambda: defaultdict(list))


def join(traces: Sequence[AgentTrace], scores: Iterable[Score]) -> Joined:
    """Scores by their turns and sessions; those of turns that are not among `traces` by trace id and span id.

    Where several turns share a span and the score does not say of which one it is, each metric's first score is of the
    first turn, and so on, as they are written. Of several revisions the newest counts.
    """
    known = {x.id for x in traces}
    by_target: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for trace in traces:
        by_target[trace.target.trace_id, trace.target.span_id].append(trace.id)
    found = Joined()
    seen: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for raw in newest(scores):
        scored = Scored.of(raw)
        scope, subject, session, target = _where(raw)
        if scope == "session":
            found.of_session[session].append(scored)
        elif subject in known:
            found.of_turn[subject].append(scored)
        elif turns := by_target.get(target):
            place = seen[(*target, scored.metric)]
            seen[(*target, scored.metric)] += 1
            found.of_turn[turns[min(place, len(turns) - 1)]].append(scored)
        else:
            found.strays[target].append(scored)
    return found


def newest(scores: Iterable[Score]) -> list[Score]:
    """The scores without those that a later revision takes the place of, in their order."""
    items = list(scores)
    if all(_revision(x) <= 1 for x in items):
        return items
    latest: dict[tuple[Any, ...], int] = {}
    for item in items:
        key = _identity(item)
        latest[key] = max(latest.get(key, 0), _revision(item))
    return [x for x in items if _revision(x) == latest[_identity(x)]]


def state(scores: Iterable[Scored]) -> str:
    """What a turn or session came to: it fails where one score does, and passes where one does and none fails."""
    found = {FAIL if x.passed is False else PASS if x.passed else ERROR if x.status == "failed" else "" for x in scores}
    return next((x for x in ORDER if x in found), UNSCORED)


def _where(raw: Score) -> tuple[str, str, str, tuple[str, str]]:
    """Scope, agent trace id ("" where it is not known), session key, and the evaluated span."""
    if isinstance(raw, Evaluation):
        session = raw.subject_id if raw.scope == "session" else ""
        return raw.scope, raw.subject_id, session, (raw.target.trace_id, raw.target.span_id)
    session = str(raw.get("session_key") or raw.get("session_id") or "")
    return str(raw["scope"]), str(raw.get("subject_id") or ""), session, (str(raw["trace_id"]), str(raw["span_id"]))


def _identity(raw: Score) -> tuple[Any, ...]:
    by = raw.evaluator.name if isinstance(raw, Evaluation) else str((raw.get("evaluator") or {}).get("name"))
    metric = raw.metric if isinstance(raw, Evaluation) else str(raw["metric"])
    return (*_where(raw), metric, by)


def _revision(raw: Score) -> int:
    return raw.revision if isinstance(raw, Evaluation) else int(raw.get("revision") or 1)


def _passed(score: Mapping[str, Any]) -> bool | None:
    if score["status"] != "scored":
        return None
    if score.get("label") in {"pass", "fail"}:
        return bool(score["label"] == "pass")
    value, threshold = score.get("value"), score.get("threshold")
    if not isinstance(value, int | float) or not isinstance(threshold, int | float):
        return None
    return reaches(value, threshold)
