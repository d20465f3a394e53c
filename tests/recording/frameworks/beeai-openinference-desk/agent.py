"""A front desk of BeeAI that hands over to a parcel clerk, under OpenInference's
instrumentation.
"""

import asyncio
import os

from beeai_framework.adapters.openai import OpenAIChatModel
from beeai_framework.agents.requirement import RequirementAgent
from beeai_framework.tools import tool
from beeai_framework.tools.handoff import HandoffTool
from conversation import DESK
from openinference.instrumentation import using_attributes
from openinference.instrumentation.beeai import BeeAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
BeeAIInstrumentor().instrument(tracer_provider=provider)

front, clerk = DESK.agents
llm = OpenAIChatModel(
    "gpt-4o-mini",
    base_url=os.environ["OPENAI_BASE_URL"],
    tool_choice_support={"none", "single", "auto", "required"},
    allow_parallel_tool_calls=True,
)


def made(agent, *more):
    tools = [*(tool(x) for x in agent.tools), *more]
    return RequirementAgent(llm=llm, tools=tools, name=agent.name, instructions=agent.instructions)


async def main():
    desk = made(
        front, HandoffTool(made(clerk), name=clerk.name, description="Ask the parcel clerk.")
    )
    for turn in DESK.turns:
        with using_attributes(session_id=turn.session, user_id=turn.user):
            await desk.run(turn.question)


asyncio.run(main())
provider.shutdown()
