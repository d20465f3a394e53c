"""From a session as it is stored to its scores: nothing is read or written, so that any process can
do it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spanscore.evaluation.config import Overrides
from spanscore.evaluation.engine import Engine
from spanscore.evaluation.placing import parted, placed
from spanscore.model.score import Evaluation
from spanscore.store.reading import SessionRecord
from spanscore.telemetry import about


@dataclass(frozen=True, slots=True)
class SessionScores:
    """The scores of one session that are news, and those that got no answer, as the ones before
    them did.

    `session_key` and `until_row` are of the `SessionRecord` that was evaluated; `until_row` is 0
    where only what somebody asked for was.
    """

    news: list[Evaluation]
    in_vain: list[Evaluation]
    session_key: str = ""
    until_row: int = 0


@dataclass(slots=True)
class BatchScores:
    """What became of sessions that were evaluated together, by their keys.

    `failed` contains the error of each session that cannot be evaluated, by the session's key.
    `for_server` are those that only the server can evaluate.
    """

    keys: Sequence[str] = ()
    scores: list[SessionScores] = field(default_factory=list)
    failed: dict[str, Exception] = field(default_factory=dict)
    for_server: Sequence[str] = ()


async def session_scores(
    engine: Engine,
    found: SessionRecord,
    overrides: Overrides | None = None,
    *,
    external: Iterable[Evaluation] = (),
) -> SessionScores:
    """Evaluate a session as its next revision. `external` are the scores that others gave."""
    signals: dict[str, dict[str, Evaluation]] = {}
    for score in found.scores:
        if score.scope == "trace":
            signals.setdefault(score.subject_id, {})[score.metric] = score
    with about(session_id=found.session.session_id, tenant=found.session.tenant):
        scored = await engine.evaluate_session(
            found.session,
            signals,
            overrides,
            revision=found.revision + 1,
            external=external,
            before=found.scores,
        )
    news, in_vain = parted(scored, found.scores if overrides is None else ())
    news = placed(news, found.scores, engine.ranking, "session")
    until_row = found.until_row if overrides is None else 0
    return SessionScores(news, in_vain, found.session.id, until_row)
