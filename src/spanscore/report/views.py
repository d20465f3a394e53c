"""One stored turn or session in the form that a report has it in, for a page that asks for one at a
time.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.report import rows, sessions, turns
from spanscore.report.rows import Turn
from spanscore.report.scored import Joined, Scored, join
from spanscore.report.texts import Texts


def trace_view(trace: AgentTrace, scores: Sequence[Evaluation]) -> dict[str, Any]:
    """The agent trace's `row`, `turn` and `metrics`; those of `scores` that are of another turn are
    left out.
    """
    texts, turn = Texts(), _turn(trace, join([trace], scores))
    numbers = _numbers(turn.scores)
    session = {} if trace.session_key is None else {"session": trace.session_key}
    return {
        "row": rows.row(turn, texts, numbers) | session,
        "turn": turns.turn(trace, turn.scores, texts),
        "metrics": _metrics(numbers),
    }


def session_view(
    key: str, traces: Sequence[AgentTrace], scores: Sequence[Evaluation]
) -> dict[str, Any]:
    """The session's `row`, `session`, `turns` and `metrics`.

    `scores` are its own and those of its `traces`.
    """
    texts, joined = Texts(), join(traces, scores)
    own = [_turn(x, joined) for x in sorted(traces, key=lambda x: (x.started_ns, x.id))]
    of_session = joined.of_session[key]
    numbers = _numbers([*of_session, *(score for turn in own for score in turn.scores)])
    row = rows.session_row(key, own, of_session, texts, numbers)
    return {
        "row": {**row, "turns": list(range(len(own)))},
        "session": sessions.session(key, own, of_session, texts),
        "turns": [rows.row(x, texts, numbers) for x in own],
        "metrics": _metrics(numbers),
    }


def _turn(trace: AgentTrace, joined: Joined) -> Turn:
    return Turn(
        trace.id, trace, tuple(joined.of_turn[trace.id]), trace.session_key, trace.user_input
    )


def _numbers(scores: Iterable[Scored]) -> dict[tuple[str, str | None], int]:
    """The place of each metric, what others gave under its source."""
    return {name: place for place, name in enumerate(dict.fromkeys(x.name for x in scores))}


def _metrics(numbers: dict[tuple[str, str | None], int]) -> list[dict[str, Any]]:
    return [{"metric": metric, "source": source} for metric, source in numbers]
