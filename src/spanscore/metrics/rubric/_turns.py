"""What the rules judge looks at for a criterion: each turn's evidence, with what the turns before it said."""

from collections.abc import Sequence
from dataclasses import replace

from spanscore.metrics._evidence import Evidence
from spanscore.metrics.rubric._criterion import ACCEPTABLE, Criterion
from spanscore.model.json import Json, dumps
from spanscore.model.score import Score
from spanscore.model.trace import AgentTrace, PastMessage, Session

_MAX_TURNS_BACK = 20
_MAX_CHARS = 5_000
"""Of one text of an earlier turn, no more than this is looked at."""


def evidence_of(session: Session) -> list[Evidence]:
    """The evidence of each turn. Where a turn has no history, that is the 20 turns before it, as far as they go."""
    found: list[Evidence] = []
    for index, trace in enumerate(session.traces):
        earlier = session.traces[max(0, index - _MAX_TURNS_BACK) : index]
        told = tuple(message for before in earlier for message in _messages(before))
        found.append(Evidence(replace(trace, history=(*trace.history, *told))))
    return found


def ruled(criterion: Criterion, level: int, reason: str, turns: Sequence[int], failure_code: str) -> Score:
    """The score of a criterion by the rules; `failure_code` counts only where the level is below acceptable."""
    failed = level < ACCEPTABLE
    facts = {"turns": sorted(set(turns)), "failure_code": failure_code if failed else None}
    return Score(float(level), reason, facts, criterion.label(level))


def _messages(trace: AgentTrace) -> list[PastMessage]:
    texts: list[tuple[str, Json]] = [("user", trace.user_input)]
    texts += [("tool", call.result) for call in trace.tool_calls or ()]
    texts.append(("assistant", trace.final_output))
    return [PastMessage(role, _text(value)) for role, value in texts if value]


def _text(value: Json) -> str:
    return (value if isinstance(value, str) else dumps(value))[:_MAX_CHARS]
