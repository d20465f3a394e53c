"""What is asked of a tool that shows scores natively, through an API of its own and not by OTLP."""

from collections.abc import Sequence
from typing import Any, Protocol

from spanscore.model.score import Evaluation


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
