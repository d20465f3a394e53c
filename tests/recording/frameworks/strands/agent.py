"""A Strands agent; its own tracer exports through whatever provider there is."""

import os

from conversation import SHOP
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from strands import Agent, tool
from strands.models.openai import OpenAIModel

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
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
