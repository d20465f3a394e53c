"""The services' view of a running spanscore."""

from collections.abc import Sequence
from typing import Protocol

from spanscore.api.analytics import Stored
from spanscore.api.listing import Lists
from spanscore.api.requests import not_found
from spanscore.control.monitors import Monitors
from spanscore.control.runs import Runs
from spanscore.evaluation.config import Overrides
from spanscore.judge.config import Certificate
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.store.annotation import Annotation
from spanscore.store.calibrations import Labels
from spanscore.store.given_scores import GivenScores
from spanscore.threads import in_thread


class Backend(Lists, Stored, Protocol):
    """What the services need of a running spanscore.

    A `trace_id` is the id of an agent trace or of an OpenTelemetry trace, 32 lower-case hex digits.
    Those that only look up are called in threads. What another than the `tenant` has is not there.
    """

    runs: Runs
    """The evaluation runs over what is stored."""

    trace_url: str
    """`page.trace_url` of the configuration."""

    has_judge: bool
    """Whether a model is configured that judges."""

    required_of_judges: Certificate | None
    """What a judge's certificate has to meet; None where none is required."""

    monitors: Monitors
    """The monitors of the configuration and of the store."""

    annotation: Annotation
    """Who labels what next."""

    labels: Labels
    """What people labelled, beside what a judge says of the same."""

    given: GivenScores
    """The scores that people, programs and other evaluators gave."""

    def trace(self, trace_id: str, *, tenant: str) -> AgentTrace | None:
        """The agent trace stored under `trace_id`; None where there is none."""
        ...

    def why_not_stored(self, trace_id: str, *, tenant: str) -> str:
        """Why nothing is stored of an OTel trace, where that is known; else "". Called in the event
        loop.
        """
        ...

    def evaluations(
        self,
        *,
        tenant: str,
        trace_id: str | None = None,
        session_id: str | None = None,
        run: str = "",
    ) -> Sequence[Evaluation]:
        """The newest revision of each score of one trace or session, or of those that an evaluation
        run made of it.
        """
        ...

    def score(self, uid: str, *, tenant: str) -> Evaluation | None:
        """The score with this uid, of whatever revision; None where there is none."""
        ...

    async def evaluate(
        self,
        *,
        tenant: str,
        trace_id: str | None = None,
        session_id: str | None = None,
        overrides: Overrides | None = None,
    ) -> Sequence[Evaluation]:
        """Evaluate a stored trace or session now, store the scores as its next revision and export
        them.

        Gives none where nothing is stored under that id. Raises InputError when `overrides` cannot
        be met, RetryableError when it is too busy.
        """
        ...


async def find_trace(backend: Backend, trace_id: str, *, tenant: str) -> AgentTrace:
    """The agent trace under an id. Raises NotFoundError."""
    trace = await in_thread(backend.trace, trace_id, tenant=tenant)
    if trace is None:
        raise not_found(trace_id, backend.why_not_stored(trace_id, tenant=tenant))
    return trace


async def require_subject(
    backend: Backend, *, tenant: str, trace_id: str | None = None, session_id: str | None = None
) -> None:
    """Raise NotFoundError unless something is stored under the id: no scores of a trace that is
    known are no error.
    """
    if trace_id is not None:
        await find_trace(backend, trace_id, tenant=tenant)
    elif session_id is not None:
        found = await in_thread(backend.evaluations, tenant=tenant, session_id=session_id)
        if not found:
            raise not_found(session_id)
