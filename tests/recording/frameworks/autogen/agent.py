"""AutoGen: one assistant, alone or as a team of one, under its own telemetry or under
OpenInference's as well.
"""

import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient
from conversation import SHOP
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

(helper,) = SHOP.agents


def assistant():
    agent = AssistantAgent(
        helper.name,
        OpenAIChatCompletionClient(model="gpt-4o-mini"),
        tools=list(helper.tools),
        system_message=helper.instructions,
        max_tool_iterations=5,
    )
    return RoundRobinGroupChat([agent], max_turns=1) if "team" in sys.argv else agent


async def main():
    talks = {}
    for turn in SHOP.turns:
        if turn.session not in talks:
            talks[turn.session] = assistant()
        with using_attributes(session_id=turn.session, user_id=turn.user):
            await talks[turn.session].run(task=turn.question)


asyncio.run(main())
provider.shutdown()
