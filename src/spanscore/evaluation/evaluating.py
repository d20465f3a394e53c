"""Run metrics on a trace or a session by one procedure, and make evaluations of their outcomes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from spanscore.evaluation.evaluations import Graded, evaluations, graded
from spanscore.evaluation.procedure import Procedure
from spanscore.evaluation.rubric import Rubric
from spanscore.metrics import Metric
from spanscore.metrics.rubric import NOTHING_EXPECTED, Expected
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session


@dataclass(frozen=True, slots=True)
class Evaluating:
    """Makes the evaluations of one revision, by one procedure."""

    procedure: Procedure
    revision: int
    clock_ns: Callable[[], int]

    async def by_metrics(
        self,
        metrics: Sequence[Metric],
        subject: AgentTrace | Session,
        earlier: Sequence[AgentTrace] = (),
    ) -> list[Evaluation]:
        """The evaluations of a trace, or of a session by a judge.

        `earlier` are the session's turns before the trace.
        """
        measured = await self.procedure.measuring.measured(metrics, subject, earlier)
        return self.evaluations(graded(metrics, measured), subject)

    async def by_rubric(
        self,
        rubric: Rubric,
        subject: AgentTrace | Session,
        expected: Expected = NOTHING_EXPECTED,
    ) -> list[Evaluation]:
        """The evaluations of a rubric's criteria, and the overall one as the last."""
        found = await self.procedure.grading.graded(rubric, as_session(subject), expected)
        return self.evaluations(found, subject)

    def evaluations(
        self, found: Iterable[Graded], subject: AgentTrace | Session
    ) -> list[Evaluation]:
        """Outcomes as evaluations of a trace or a session, made now."""
        return evaluations(found, subject, revision=self.revision, now_ns=self.clock_ns())


def as_session(subject: AgentTrace | Session) -> Session:
    """A session as it is, and a trace as a session of its own."""
    if isinstance(subject, Session):
        return subject
    return Session(subject.session_id or "", (subject,))
