"""Agents' traces of one span each, as they are sent and as files record them."""

import json

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SECOND_NS = 10**9


def request_of(number, *, service="shop", session=None, resource=(), start_ns=None):
    """A trace of one agent span, as it is sent."""
    start_ns = start_ns or (number + 1) * 60 * SECOND_NS
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "clerk",
        "gen_ai.input.messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": f"Order {number}?"}]}]
        ),
        "gen_ai.output.messages": json.dumps(
            [
                {
                    "role": "assistant",
                    "parts": [{"type": "text", "content": f"Sent {number}."}],
                    "finish_reason": "stop",
                }
            ]
        ),
        **({"gen_ai.conversation.id": session} if session else {}),
    }
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    for key, value in {"service.name": service, **dict(resource)}.items():
        group.resource.attributes.add(key=key).value.string_value = value
    span = group.scope_spans.add().spans.add(
        trace_id=(number + 1).to_bytes(16, "big"),
        span_id=(number + 1).to_bytes(8, "big"),
        name="invoke_agent clerk",
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + SECOND_NS,
    )
    for key, value in attributes.items():
        span.attributes.add(key=key).value.string_value = value
    return request


def lines_of(requests):
    """The requests as a file of JSON lines has them."""
    return "\n".join(json_format.MessageToJson(x, indent=None) for x in requests)
