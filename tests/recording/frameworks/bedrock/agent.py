"""A loop around Bedrock's Converse API."""

import json

import boto3
from conversation import SHOP, schema
from opentelemetry import _logs, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.botocore import BotocoreInstrumentor
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
BotocoreInstrumentor().instrument()

(agent,) = SHOP.agents
functions = {x.__name__: x for x in agent.tools}
offered = [
    {"toolSpec": {"name": name, "description": x.__doc__, "inputSchema": {"json": schema(x)}}}
    for name, x in functions.items()
]
client = boto3.client("bedrock-runtime", region_name="eu-central-1")
sessions = {}


def block(result):
    return (
        {"json": result}
        if isinstance(result, dict)
        else {"text": json.dumps(result, ensure_ascii=False)}
    )


for turn in SHOP.turns:
    messages = sessions.setdefault(turn.session, [])
    messages.append({"role": "user", "content": [{"text": turn.question}]})
    while True:
        answer = client.converse(
            modelId="anthropic.claude-sonnet-4-5-20250929-v1:0",
            system=[{"text": agent.instructions}],
            messages=messages,
            toolConfig={"tools": offered},
        )["output"]["message"]
        messages.append(answer)
        calls = [x["toolUse"] for x in answer["content"] if "toolUse" in x]
        if not calls:
            break
        results = [
            {
                "toolResult": {
                    "toolUseId": x["toolUseId"],
                    "content": [block(functions[x["name"]](**x["input"]))],
                }
            }
            for x in calls
        ]
        messages.append({"role": "user", "content": results})

spans.shutdown()
logs.shutdown()
