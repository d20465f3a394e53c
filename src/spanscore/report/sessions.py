"""Sessions and tests as a page shows them: their own scores, with the turns and steps that these
name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from spanscore.judge.passages import MAX_TURNS, Numbers
from spanscore.report.evidence import Place, Resolve
from spanscore.report.figures import figure
from spanscore.report.results import Case, Trial
from spanscore.report.rows import Turn
from spanscore.report.scored import Scored, as_json
from spanscore.report.texts import Texts
from spanscore.report.turns import Numbered, score

_MAX_REASONS = 50


def session(
    key: str, own: Sequence[Turn], scores: Sequence[Scored], texts: Texts
) -> dict[str, Any]:
    """The session's JSON object in a report; its scores name steps by the numbers of the whole
    conversation.
    """
    resolve = _resolve(own)
    return {
        "id": texts.line(_name(key, own), 300),
        "scores": [_score(x, own, resolve, texts) for x in scores],
    }


def case(
    found: Case, rows_of: Mapping[str, Sequence[int]], own: Mapping[int, Turn], texts: Texts
) -> dict[str, Any]:
    """The test's JSON object in a report.

    `rows_of` are the rows of turns by agent trace id and by trace id.
    """
    return {
        "name": texts.line(found.name, 300),
        "status": found.status,
        "reasons": [texts.text(x) for x in found.reasons[:_MAX_REASONS]],
        "detail": texts.text(found.detail),
        "figures": [figure(x) for x in found.figures],
        "trials": [_trial(x, rows_of, own, texts) for x in found.trials],
    }


def _trial(
    trial: Trial, rows_of: Mapping[str, Sequence[int]], own: Mapping[int, Turn], texts: Texts
) -> dict[str, Any]:
    rows = list(dict.fromkeys(row for name in trial.trace_ids for row in rows_of.get(name, ())))
    turns = [own[x] for x in rows]
    resolve = _resolve(turns)
    whole = [Scored.of(x) for x in trial.scores if as_json(x)["scope"] == "session"]
    found = {
        "status": trial.status,
        "reasons": [texts.text(x) for x in trial.reasons[:_MAX_REASONS]],
        "turns": rows,
        "scores": [_score(x, turns, resolve, texts) for x in whole],
        "score": trial.score,
        "took": None if trial.latency_s is None else trial.latency_s * 1e3,
        "session": texts.line(trial.session_id, 300) if trial.session_id else None,
        "input": texts.line(trial.user_input, 300) if trial.user_input else None,
    }
    return {name: value for name, value in found.items() if value not in (None, [])}


def _resolve(own: Sequence[Turn]) -> Resolve:
    """Finds steps by their number through all turns, and turns by theirs: from 0, as traces from
    1.
    """
    numbers = Numbers()
    steps: dict[int, Place] = {}
    for index, turn in enumerate(own):
        if turn.trace is None:
            continue
        if MAX_TURNS // 2 <= index < len(own) - MAX_TURNS // 2:
            numbers.skip(turn.trace)
            continue
        found = Numbered.of(turn.trace, numbers)
        steps |= {number: Place(row, turn.id) for number, row in found.of_number.items()}

    def resolve(word: str, number: int) -> Place | None:
        if word in {"turn", "trace"}:
            index = number if word == "turn" else number - 1
            return Place(None, own[index].id) if 0 <= index < len(own) else None
        return steps.get(number)

    return resolve


def _score(scored: Scored, own: Sequence[Turn], resolve: Resolve, texts: Texts) -> dict[str, Any]:
    """A score, with the turns that its metadata list by trace id besides those that its reason
    names.
    """
    found = score(scored, resolve, texts)
    metadata = as_json(scored.raw).get("metadata") or {}
    named = {
        str(x) for name in ("turn_trace_ids", "flagged_traces") for x in _listed(metadata.get(name))
    }
    places = [
        {"turn": x.id} for x in own if x.trace and not named.isdisjoint((x.id, *x.trace.trace_ids))
    ]
    if places:
        known = found.get("places", [])
        found["places"] = [*known, *(x for x in places if x not in known)]
    return found


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _name(key: str, own: Sequence[Turn]) -> str:
    return next((x.trace.session_id for x in own if x.trace and x.trace.session_id), key)
