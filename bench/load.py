"""A load of realistic agent traces as ready OTLP requests: the same bytes for the same arguments,
on every machine.

A trace is ten spans by the GenAI semantic conventions: the agent, four calls of a model with
messages and tool definitions, four tool calls, and one HTTP span that knows nothing of GenAI; about
1.7 KB a span. Five traces make a session.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

SPANS_PER_TRACE = 10
TRACES_PER_REQUEST = 10
TRACES_PER_SESSION = 5
ROUNDS = 4

_US = 1000
_VOCABULARY = """
    account address agent amount basket billing cancel card carrier change charge claim colour
    confirm courier credit customer damaged date delay delivery deposit discount email exchange
    expired express gift invoice item label late letter limit lost manager method missing monday
    note notice number office open order package paid parcel partial payment pending phone
    pickup policy postcode price promised quantity receipt refund reminder repair replace
    request return review route shelf shipment shipped shop size stock store street supplier
    support tax terms ticket total track tuesday update voucher warehouse warranty weight the
    the the and and to to of of for with from was is on
""".split()  # noqa: SIM905 - a text is easier to read and to change than a list of a hundred strings
_INSTRUCTIONS = json.dumps(
    [{"type": "text", "content": "You help the customers of a shop. Look things up; never guess."}]
)


class Load:
    """A stream of traces; `start_ns` is when the first one began, Unix time in nanoseconds."""

    def __init__(self, *, start_ns: int, seed: int = 7) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a load must repeat, not be secret
        self._start_ns = start_ns
        self._tools = json.dumps([self._tool(i) for i in range(ROUNDS)])

    def requests(self, traces: int) -> Iterator[bytes]:
        """`traces` traces, ten to a request, encoded."""
        for first in range(0, traces, TRACES_PER_REQUEST):
            request = ExportTraceServiceRequest()
            resource_spans = request.resource_spans.add()
            _set(resource_spans.resource, {"service.name": "shop-agent"})
            scope_spans = resource_spans.scope_spans.add()
            scope_spans.scope.name = "bench.load"
            for number in range(first, min(first + TRACES_PER_REQUEST, traces)):
                self._add_trace(scope_spans, number)
            yield request.SerializeToString()

    def _add_trace(self, scope_spans: ScopeSpans, number: int) -> None:
        """Spans in the order in which they end, as an SDK sends them: the root last."""
        trace_id, root_id = self._random.randbytes(16), self._random.randbytes(8)
        start_ns = self._start_ns + number * 1000 * _US
        session = {"gen_ai.conversation.id": f"session-{number // TRACES_PER_SESSION}"}
        question = f"{self._text(70)} O{number + 1000}"
        messages = [_message("user", {"type": "text", "content": question})]

        def add(
            name: str,
            begin_us: int,
            end_us: int,
            parent: bytes,
            attributes: dict[str, Any],
            kind: Any,
        ) -> bytes:
            span = scope_spans.spans.add(
                trace_id=trace_id,
                span_id=self._random.randbytes(8) if parent else root_id,
                parent_span_id=parent,
                name=name,
                kind=kind,
                start_time_unix_nano=start_ns + begin_us * _US,
                end_time_unix_nano=start_ns + end_us * _US,
            )
            _set(span, attributes)
            return span.span_id

        for i in range(ROUNDS):
            call_id, arguments = (
                f"call_{number}_{i}",
                {"order_id": f"O{number + 1000}", "limit": i + 1},
            )
            call = {
                "type": "tool_call",
                "id": call_id,
                "name": f"look_up_{i}",
                "arguments": arguments,
            }
            answer = _message("assistant", {"type": "text", "content": self._text(60)}, call)
            asked = {
                **session,
                **self._model_call(messages, [answer | {"finish_reason": "tool_call"}]),
            }
            begin_us = i * 200
            add(
                "chat gpt-4o-mini",
                begin_us + 1,
                begin_us + 100,
                root_id,
                asked,
                Span.SPAN_KIND_CLIENT,
            )
            result = self._text(600)
            tool = _tool_call(call, result)
            name = f"execute_tool {call['name']}"
            tool_id = add(
                name, begin_us + 101, begin_us + 199, root_id, tool, Span.SPAN_KIND_INTERNAL
            )
            response = {"type": "tool_call_response", "id": call_id, "response": result}
            messages += [answer, _message("tool", response)]
        http = {
            "http.request.method": "GET",
            "url.full": "http://shop/orders",
            "http.response.status_code": 200,
        }
        add("GET", 720, 760, tool_id, http, Span.SPAN_KIND_CLIENT)
        root = {
            **session,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "shop",
            "gen_ai.input.messages": json.dumps(messages[:1]),
            "gen_ai.output.messages": json.dumps(
                [_message("assistant", {"type": "text", "content": self._text(200)})]
            ),
        }
        add("invoke_agent shop", 0, 900, b"", root, Span.SPAN_KIND_INTERNAL)

    def _model_call(
        self, messages: list[dict[str, Any]], answers: list[dict[str, Any]]
    ) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.system_instructions": _INSTRUCTIONS,
            "gen_ai.tool.definitions": self._tools,
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps(answers),
            "gen_ai.usage.input_tokens": 100 * len(messages),
            "gen_ai.usage.output_tokens": 20,
        }

    def _tool(self, number: int) -> dict[str, Any]:
        properties = {"order_id": {"type": "string"}, "limit": {"type": "integer"}}
        schema = {"type": "object", "properties": properties, "required": ["order_id"]}
        return {
            "type": "function",
            "name": f"look_up_{number}",
            "description": self._text(60),
            "parameters": schema,
        }

    def _text(self, chars: int) -> str:
        return " ".join(self._random.choices(_VOCABULARY, k=chars // 7))


def _message(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def _tool_call(call: dict[str, Any], result: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call["name"],
        "gen_ai.tool.call.id": call["id"],
        "gen_ai.tool.call.arguments": json.dumps(call["arguments"]),
        "gen_ai.tool.call.result": result,
    }


def _set(holder: Any, attributes: dict[str, Any]) -> None:
    for key, value in attributes.items():
        attribute = holder.attributes.add(key=key)
        if isinstance(value, int):
            attribute.value.int_value = value
        else:
            attribute.value.string_value = value
