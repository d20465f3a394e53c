"""The scores of a trace as if it had not been evaluated before: nothing is read or written, so that
any process can make them before it is known whether the store contains the trace.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spanscore.evaluation.engine import Engine
from spanscore.evaluation.placing import placed
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.store import records
from spanscore.telemetry import about


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
