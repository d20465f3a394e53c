"""An agent with the real SDK and exporter: `python agent.py ENDPOINT TURNS SENT [--twice]
[--plain]`.

Each turn is a trace of its own: an agent span over two model calls, a tool call and a database span
without any GenAI attribute, and a log record; two turns are a session. What it hands to the
exporter is written to the file SENT, a span a line. `--twice` exports every batch twice, as an SDK
does whose answer was lost. `--plain` leaves GenAI out. With `--nested` another agent calls the
agent. `--metrics` sends a metric too.
"""

import argparse
import base64
import json
import logging
from pathlib import Path

from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class Noted(SpanExporter):
    """The real exporter; what goes through it is noted once it was taken."""

    def __init__(self, endpoint, sent, times):
        self._exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=600)
        self._sent = sent
        self._times = times

    def export(self, spans):
        results = {self._exporter.export(spans) for _ in range(self._times)}
        if results == {SpanExportResult.SUCCESS}:
            with self._sent.open("a") as file:
                file.write(
                    base64.b64encode(encode_spans(spans).SerializeToString()).decode() + "\n"
                )
        return (
            SpanExportResult.SUCCESS
            if results == {SpanExportResult.SUCCESS}
            else SpanExportResult.FAILURE
        )

    def shutdown(self):
        self._exporter.shutdown()


def said(role, **part):
    return {"role": role, "parts": [part]}


def turn(tracer, number, log):
    """One turn as the GenAI conventions write it."""
    question = said("user", type="text", content=f"What is the weather in city {number}?")
    call = said(
        "assistant",
        type="tool_call",
        id=f"call_{number}",
        name="get_weather",
        arguments={"city": str(number)},
    )
    found = said("tool", type="tool_call_response", id=f"call_{number}", response="sunny")
    answer = said("assistant", type="text", content=f"It is sunny in city {number}.")
    shared = {"gen_ai.conversation.id": f"session-{number // 2}", "user.id": "user-7"}
    with tracer.start_as_current_span("invoke_agent weather") as agent:
        agent.set_attributes(
            {**shared, "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather"}
        )
        model(tracer, [question], call)
        with tracer.start_as_current_span("execute_tool get_weather") as tool:
            tool.set_attributes(
                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}
            )
            tool.set_attribute("gen_ai.tool.call.id", f"call_{number}")
            tool.set_attribute("gen_ai.tool.call.arguments", json.dumps({"city": str(number)}))
            tool.set_attribute("gen_ai.tool.call.result", "sunny")
            with tracer.start_as_current_span("SELECT weather") as query:
                query.set_attribute("db.system.name", "postgresql")
        model(tracer, [question, call, found], answer)
        log.warning("turn %s", number)


def nested(tracer, number, log):
    """The same, by an agent that another one hands the question to."""
    with tracer.start_as_current_span("invoke_agent concierge") as agent:
        agent.set_attributes(
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "concierge"}
        )
        agent.set_attribute("gen_ai.conversation.id", f"session-{number // 2}")
        turn(tracer, number, log)


def model(tracer, given, produced):
    with tracer.start_as_current_span("chat gpt-4o-mini") as span:
        span.set_attributes(
            {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini"}
        )
        span.set_attribute("gen_ai.input.messages", json.dumps(given))
        span.set_attribute("gen_ai.output.messages", json.dumps([produced]))
        span.set_attributes({"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20})


def plain(tracer):
    with (
        tracer.start_as_current_span("GET /health") as span,
        tracer.start_as_current_span("SELECT 1"),
    ):
        span.set_attribute("http.request.method", "GET")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint")
    parser.add_argument("turns", type=int)
    parser.add_argument("sent", type=Path)
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--nested", action="store_true")
    parser.add_argument("--metrics", action="store_true")
    args = parser.parse_args()
    resource = Resource.create({"service.name": "plain" if args.plain else "weather-agent"})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(
        BatchSpanProcessor(
            Noted(args.endpoint, args.sent, 2 if args.twice else 1), schedule_delay_millis=100
        )
    )
    logs = LoggerProvider(resource=resource)
    logs.add_log_record_processor(
        SimpleLogRecordProcessor(
            OTLPLogExporter(endpoint=args.endpoint, insecure=True, timeout=600)
        )
    )
    set_logger_provider(logs)
    log = logging.getLogger("agent")
    log.addHandler(LoggingHandler(logger_provider=logs))
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(endpoint=args.endpoint, insecure=True)
    )
    meters = MeterProvider([reader] if args.metrics else [], resource=resource)
    meters.get_meter("weather").create_counter("turns").add(args.turns)
    tracer = provider.get_tracer("weather")
    for number in range(args.turns):
        if args.plain:
            plain(tracer)
        else:
            (nested if args.nested else turn)(tracer, number, log)
    provider.shutdown()
    logs.shutdown()
    meters.shutdown()


if __name__ == "__main__":
    main()
