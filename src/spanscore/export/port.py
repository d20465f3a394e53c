"""The ports of exporters, tools and outbox."""

from collections.abc import Sequence
from typing import Any, Protocol

from spanscore.errors import PermanentError, RetryableError
from spanscore.model.score import Evaluation
from spanscore.model.span import Headers
from spanscore.otlp.signal import Signal


class UndeliveredError(RetryableError):
    """Not delivered this time.

    `requested_wait_s` is how long the backend asked us to wait, in seconds; None where it did not.
    `maybe_delivered`: the request may have arrived all the same: the connection broke, or the
    answer did not come in time.
    """

    def __init__(
        self, message: str, *, requested_wait_s: float | None = None, maybe_delivered: bool = False
    ) -> None:
        super().__init__(
            message, retry_after_s=1.0 if requested_wait_s is None else requested_wait_s
        )
        self.requested_wait_s = requested_wait_s
        self.maybe_delivered = maybe_delivered


class FaultError(UndeliveredError):
    """The backend failed at what it was given (HTTP 500, gRPC INTERNAL): that may pass, or come
    back each time.
    """

    def __init__(self, message: str, *, requested_wait_s: float | None = None) -> None:
        super().__init__(message, requested_wait_s=requested_wait_s, maybe_delivered=True)


class UnsupportedSignalError(PermanentError):
    """The backend has no place for this signal at all."""


class Exporter(Protocol):
    """One place that requests are sent to."""

    async def send(self, signal: Signal, body: bytes, headers: Headers = ()) -> str | None:
        """Send one export request, serialised; returns None, or the backend's words on what
        of it was not taken.

        `headers` are those that it came with, for an authenticator to choose from.

        Raises UndeliveredError where sending again may help, UnsupportedSignalError where the
        backend does not know the signal, another PermanentError where it refused the request.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and files. Calling it again does nothing."""
        ...


class Sink(Protocol):
    """One tool.

    What is filed twice replaces itself, and a later revision replaces the one before it.
    """

    async def file(
        self, evaluations: Sequence[Evaluation], *, final: bool = False
    ) -> Sequence[Evaluation]:
        """File scores, failures, and that a session rests on no signal; returns those whose place
        is not there yet.

        The place is a span, a trace or a session of the tool.

        With `final` they are not asked about again: what can be filed in another place than the
        best one now is.

        Raises UndeliveredError where trying again may help, UnsupportedSignalError where the tool
        has no place for scores at all, another PermanentError where it refused what it was given.
        """
        ...

    async def close(self) -> None:
        """Let go of connections. Calling it again does nothing."""
        ...


def provenance(evaluation: Evaluation) -> dict[str, Any]:
    """What a score rests on, for a tool's metadata: flat, and only what is known."""
    evaluator = evaluation.evaluator
    facts: dict[str, Any] = {
        "spanscore.uid": evaluation.uid,
        "spanscore.scope": evaluation.scope,
        "spanscore.agent_trace_id": evaluation.subject_id if evaluation.scope == "trace" else None,
        "spanscore.revision": evaluation.revision,
        "spanscore.threshold": evaluation.threshold,
        "spanscore.evaluator.name": evaluator.name,
        "spanscore.evaluator.version": evaluator.version,
        "spanscore.evaluator.model": evaluator.model,
        "spanscore.evaluator.prompt_hash": evaluator.prompt_hash,
        "spanscore.evaluator.embedding": evaluator.embedding,
        "spanscore.evaluator.certified": evaluator.certified,
        "session.id": evaluation.session_id,
    }
    return {name: value for name, value in facts.items() if value is not None}


def what_it_replaces(evaluation: Evaluation) -> tuple[str, str, str]:
    """What an evaluation has in common with its other revisions, and with nothing else."""
    return evaluation.scope, evaluation.subject_id, evaluation.metric


def by_what_they_replace(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """The evaluations, in their order, of which none is replaced by a later one among them."""
    newest = {what_it_replaces(x): x for x in evaluations}
    newest_ids = set(map(id, newest.values()))
    return [x for x in evaluations if id(x) in newest_ids]
