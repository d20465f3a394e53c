"""A Swarm of AutoGen: two agents that hand over to each other, each in its own model's words."""

import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.conditions import TextMessageTermination
from autogen_agentchat.teams import Swarm
from autogen_ext.models.openai import OpenAIChatCompletionClient
from conversation import DESK
from openinference.instrumentation import using_attributes
from openinference.instrumentation.autogen_agentchat import AutogenAgentChatInstrumentor
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

trace.set_tracer_provider(provider)
if "openinference" in sys.argv:
    AutogenAgentChatInstrumentor().instrument(tracer_provider=provider)

desk, clerk = DESK.agents


def assistant(agent, handoffs):
    return AssistantAgent(
        agent.name,
        OpenAIChatCompletionClient(model="gpt-4o-mini"),
        tools=list(agent.tools),
        handoffs=handoffs,
        system_message=agent.instructions,
        max_tool_iterations=5,
    )


async def main():
    for turn in DESK.turns:
        team = Swarm(
            [assistant(desk, [Handoff(target=clerk.name)]), assistant(clerk, [])],
            termination_condition=TextMessageTermination(clerk.name)
            | TextMessageTermination(desk.name),
        )
        with using_attributes(session_id=turn.session, user_id=turn.user):
            await team.run(task=turn.question)


asyncio.run(main())
provider.shutdown()
