"""The trace that `spanscore doctor` sends: one small turn of an agent, under ids of its own."""

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.otlp import encode

SERVICE = "spanscore-doctor"
_MS = 10**6


@dataclass(frozen=True, slots=True)
class Probe:
    """One turn: an agent's span that lasted a moment."""

    trace_id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    span_id: bytes = field(default_factory=lambda: secrets.token_bytes(8))
    ended_ns: int = field(default_factory=time.time_ns)

    def request(self, *, content: bool, emitted: bool) -> bytes:
        """The span as an export request.

        Without `content` no judge has anything to judge in it. What is marked as `emitted` by
        spanscore is evaluated by none.
        """
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": SERVICE,
        }
        if content:
            attributes["gen_ai.input.messages"] = _messages("user", "Does the round trip work?")
            attributes["gen_ai.output.messages"] = _messages(
                "assistant", "Yes, the round trip works."
            )
        if emitted:
            attributes["spanscore.emitted"] = True
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add()
        encode.fill(group.resource.attributes, {"service.name": SERVICE})
        scoped = group.scope_spans.add()
        scoped.scope.name = "spanscore" if emitted else SERVICE
        span = scoped.spans.add(
            trace_id=self.trace_id,
            span_id=self.span_id,
            name=f"invoke_agent {SERVICE}",
            kind=1,
            start_time_unix_nano=self.ended_ns - _MS,
            end_time_unix_nano=self.ended_ns,
        )
        encode.fill(span.attributes, attributes)
        return request.SerializeToString()


def _messages(role: str, content: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])
