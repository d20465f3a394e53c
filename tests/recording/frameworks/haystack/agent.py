"""Haystack's Agent in a pipeline, under its own tracer, or under OpenInference's."""

import os
import sys

from conversation import SHOP
from haystack import Pipeline, tracing
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
from openinference.instrumentation import using_attributes
from openinference.instrumentation.haystack import HaystackInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

if "openinference" in sys.argv:
    HaystackInstrumentor().instrument(tracer_provider=provider)
else:
    tracing.enable_tracing(OpenTelemetryTracer(provider.get_tracer("warehouse")))
    tracing.tracer.is_content_tracing_enabled = True

(helper,) = SHOP.agents
agent = Agent(
    chat_generator=OpenAIChatGenerator(
        model="gpt-4o-mini", api_base_url=os.environ["OPENAI_BASE_URL"]
    ),
    tools=[create_tool_from_function(x) for x in helper.tools],
    system_prompt=helper.instructions,
)
pipeline = Pipeline()
pipeline.add_component(helper.name, agent)

said = {turn.session: [] for turn in SHOP.turns}
for turn in SHOP.turns:
    messages = [*said[turn.session], ChatMessage.from_user(turn.question)]
    with using_attributes(session_id=turn.session, user_id=turn.user):
        answer = pipeline.run({helper.name: {"messages": messages}})[helper.name]
    said[turn.session] = [x for x in answer["messages"] if not x.is_from("system")]

provider.shutdown()
