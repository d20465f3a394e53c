"""A Strands agent, exported as AWS's distribution does it on Bedrock AgentCore, but to any
endpoint.
"""

import os

from amazon.opentelemetry.distro.llo_handler import LLOHandler
from conversation import SHOP
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from strands import Agent, tool
from strands.models.openai import OpenAIModel

logs = LoggerProvider()
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
handler = LLOHandler(logs)


class Exporter(OTLPSpanExporter):
    """What the distribution's own exporter does before it signs a request to AWS."""

    def export(self, spans):
        return super().export(handler.process_spans(spans))


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(Exporter()))
trace.set_tracer_provider(provider)

(helper,) = SHOP.agents
said = {}
for turn in SHOP.turns:
    agent = Agent(
        name=helper.name,
        model=OpenAIModel(
            client_args={"base_url": os.environ["OPENAI_BASE_URL"], "api_key": "none"},
            model_id="gpt-4o-mini",
        ),
        system_prompt=helper.instructions,
        tools=[tool(x) for x in helper.tools],
        messages=said.get(turn.session, []),
        trace_attributes={"session.id": turn.session, "user.id": turn.user},
        callback_handler=None,
    )
    agent(turn.question)
    said[turn.session] = agent.messages

provider.shutdown()
logs.shutdown()
