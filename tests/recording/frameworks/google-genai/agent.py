"""Chats of Google's Gen AI SDK, which calls the functions itself."""

from conversation import SHOP
from google import genai
from google.genai import types
from opentelemetry import _logs, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.google_genai import GoogleGenAiSdkInstrumentor
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
GoogleGenAiSdkInstrumentor().instrument()

client = genai.Client()
(helper,) = SHOP.agents
config = types.GenerateContentConfig(
    system_instruction=helper.instructions, tools=list(helper.tools)
)
chats = {}
for turn in SHOP.turns:
    chat = chats.setdefault(
        turn.session, client.chats.create(model="gemini-2.5-flash", config=config)
    )
    chat.send_message(turn.question)

spans.shutdown()
logs.shutdown()
