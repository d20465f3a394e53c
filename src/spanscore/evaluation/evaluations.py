"""What was measured as evaluations: with its subject, metric, scale and threshold."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spanscore.evaluation.attempt import Attempt
from spanscore.evaluation.measured import Measured, given
from spanscore.evaluation.readable import readable
from spanscore.evaluation.valued import valued
from spanscore.metrics import Metric
from spanscore.model.record import changed
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session


class Graded(NamedTuple):
    """What was measured under the name of a metric, on a scale; `threshold` None: its score gets no
    label.
    """

    metric: str
    scale: tuple[float, float]
    threshold: float | None
    measured: Measured


def graded(metrics: Iterable[Metric], measured: Mapping[str, Measured]) -> list[Graded]:
    """What was measured of each of `metrics`, which `measured` has by name, with the threshold that
    applies to it.
    """
    return [_graded(metric, measured[metric.name]) for metric in metrics]


def evaluations(
    found: Iterable[Graded], subject: AgentTrace | Session, *, revision: int, now_ns: int
) -> list[Evaluation]:
    """`found` as evaluations of `subject`; those of a session have the target of its last trace."""
    if isinstance(subject, AgentTrace):
        return [_evaluation(x, subject, revision, now_ns) for x in found]
    return [_of_whole(_evaluation(x, subject.traces[-1], revision, now_ns), subject) for x in found]


def _graded(metric: Metric, measured: Measured) -> Graded:
    with Attempt(f"the threshold of {metric.name}") as attempt:
        threshold = metric.threshold_for(measured.evaluator.embedding)
        return Graded(metric.name, metric.scale, threshold, measured)
    return Graded(
        metric.name, metric.scale, None, measured._replace(outcome=given(attempt.outcome))
    )


def _evaluation(found: Graded, trace: AgentTrace, revision: int, now_ns: int) -> Evaluation:
    outcome, evaluator, usage = found.measured
    if evaluator.kind == "LLM":
        outcome = readable(outcome)
    return Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric=found.metric,
        outcome=valued(outcome, found.metric, found.scale),
        threshold=found.threshold,
        scale=found.scale,
        evaluator=evaluator,
        target=trace.target,
        session_id=trace.session_id,
        session_key=trace.session_key,
        agent_name=trace.agent_name,
        service_name=trace.service_name,
        usage=usage,
        revision=revision,
        evaluated_at_ns=now_ns,
        trial=trace.trial,
    )


def _of_whole(of_last: Evaluation, session: Session) -> Evaluation:
    """What was measured on a session, from the same as if it were of its last trace."""
    return changed(
        of_last,
        scope="session",
        subject_id=session.id,
        session_id=session.session_id,
        session_key=session.id,
        first_trace_id=session.traces[0].target.trace_id,
    )
