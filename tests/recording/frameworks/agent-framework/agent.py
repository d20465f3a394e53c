"""Microsoft Agent Framework with its own instrumentation, sensitive data on."""

import asyncio

from agent_framework import Agent
from agent_framework.observability import enable_instrumentation
from agent_framework.openai import OpenAIChatCompletionClient
from conversation import SHOP
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

trace.set_tracer_provider(provider)
enable_instrumentation(enable_sensitive_data=True)

(helper,) = SHOP.agents
agent = Agent(
    client=OpenAIChatCompletionClient(model="gpt-4o-mini"),
    name=helper.name,
    instructions=helper.instructions,
    tools=list(helper.tools),
)


async def main():
    sessions = {turn.session: agent.create_session(session_id=turn.session) for turn in SHOP.turns}
    for turn in SHOP.turns:
        await agent.run(turn.question, session=sessions[turn.session])


asyncio.run(main())
provider.shutdown()
