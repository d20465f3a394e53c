"""A loop around the OpenAI SDK, as people write it who need no framework."""

import json

from conversation import SHOP, schema
from openai import OpenAI
from opentelemetry import _logs, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

spans = TracerProvider()
spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(spans)
logs = LoggerProvider()
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
_logs.set_logger_provider(logs)
OpenAIInstrumentor().instrument()

client = OpenAI()
(agent,) = SHOP.agents
functions = {x.__name__: x for x in agent.tools}
offered = [
    {
        "type": "function",
        "function": {"name": name, "description": x.__doc__, "parameters": schema(x)},
    }
    for name, x in functions.items()
]
sessions = {}

for turn in SHOP.turns:
    messages = sessions.setdefault(
        turn.session, [{"role": "system", "content": agent.instructions}]
    )
    messages.append({"role": "user", "content": turn.question})
    while True:
        answer = client.chat.completions.create(
            model="gpt-4o-mini", messages=messages, tools=offered
        )
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            result = functions[call.function.name](**json.loads(call.function.arguments))
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call.id,
                    "content": json.dumps(result, ensure_ascii=False),
                }
            )

spans.shutdown()
logs.shutdown()
