"""What an evaluation is of, and how it came to that, as the attributes that its spans and events
share.
"""

from collections.abc import Iterator

from google.protobuf.message import Message

from spanscore.export import wire, wording
from spanscore.model.score import Evaluation


class Provenance:
    """Encodes these attributes for one kind of message: a span or a log record."""

    def __init__(self, kind: type[Message]) -> None:
        self._run = wire.text_attribute(kind, "spanscore.run.id")
        self._sampling = wire.Double(kind, "spanscore.sampling")
        self._rule = wire.text_attribute(kind, "spanscore.rule")
        self._agent_trace_id = wire.text_attribute(kind, "spanscore.agent_trace_id")
        self._of_session = wire.text_attribute(kind, wording.OF_SESSION)
        self._latency = wire.Double(kind, wording.LATENCY)
        self._session_id = wire.text_attribute(kind, "session.id")
        self._conversation_id = wire.text_attribute(kind, "gen_ai.conversation.id")

    def __call__(self, evaluation: Evaluation) -> Iterator[bytes]:
        """The parts of the message: the run or rule, the chance of being drawn, the agent trace and
        the session.
        """
        if evaluation.run is not None:
            yield self._run(evaluation.run)
        if evaluation.sampling < 1:
            yield self._sampling(evaluation.sampling)
        if evaluation.rule is not None:
            yield self._rule(evaluation.rule)
        if evaluation.scope == "trace":
            yield self._agent_trace_id(evaluation.subject_id)
            if evaluation.session_id is not None:
                yield self._of_session(evaluation.session_id)
        if evaluation.latency_s is not None:
            yield self._latency(evaluation.latency_s)
        if session_id := wording.session(evaluation):
            yield from (self._session_id(session_id), self._conversation_id(session_id))
