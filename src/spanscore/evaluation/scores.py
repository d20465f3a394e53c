"""The scores of a stored trace or session."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spanscore.evaluation.config import Overrides
from spanscore.evaluation.engine import Engine
from spanscore.evaluation.evaluations import parted, placed
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.store import records
from spanscore.store.lookup import SessionRecord
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


@dataclass(frozen=True, slots=True)
class FirstScores:
    """What is stored of a trace that was not evaluated before.

    `record` is the trace as `records.encode` prints it, `digest` that of `digest_of`. `decisions`
    are the labels of each decision of `evaluation.rules`.
    """

    record: str
    digest: str
    evaluations: Sequence[Evaluation]
    decisions: Sequence[Mapping[str, str]] = ()


async def evaluate_first(engine: Engine, trace: AgentTrace) -> list[Evaluation]:
    """The scores of a trace as its first revision.

    Not for a trace whose evaluation uses others: see `uses_others`.
    """
    target = trace.target
    ids = {
        "trace_id": target.trace_id,
        "span_id": target.span_id,
        "session_id": trace.session_id,
    }
    with about(**ids, tenant=trace.tenant):
        return placed(await engine.evaluate_trace(trace), (), engine.ranking, "trace")


def uses_others(engine: Engine, trace: AgentTrace) -> bool:
    """Whether the evaluation of a trace uses earlier turns of its session."""
    return engine.looks_back and trace.session_id is not None


def digest_of(trace: AgentTrace, record: str) -> str:
    """A digest of a trace but for its completeness: where it differs, the trace has changed."""
    if trace.completeness != "complete":
        record = records.encode(replace(trace, completeness="complete"))
    return hashlib.blake2b(record.encode(), digest_size=16).hexdigest()
