"""Microsoft Agent Framework: an agent that has another one as a tool."""

import asyncio

from agent_framework import Agent
from agent_framework.observability import enable_instrumentation
from agent_framework.openai import OpenAIChatCompletionClient
from conversation import DESK
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

trace.set_tracer_provider(provider)
enable_instrumentation(enable_sensitive_data=True)


def agent(said, tools):
    client = OpenAIChatCompletionClient(model="gpt-4o-mini")
    return Agent(client=client, name=said.name, instructions=said.instructions, tools=tools)


desk, clerk = DESK.agents
front_desk = agent(desk, [*desk.tools, agent(clerk, list(clerk.tools)).as_tool(arg_name="request")])


async def main():
    for turn in DESK.turns:
        await front_desk.run(turn.question)


asyncio.run(main())
provider.shutdown()
