"""A LiveKit agent that is talked to in text, without a room."""

import asyncio
import contextvars
import functools

from conversation import SHOP
from livekit.agents import Agent, AgentSession, function_tool
from livekit.agents.telemetry import set_tracer_provider
from livekit.plugins import openai
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
set_tracer_provider(provider)
(helper,) = SHOP.agents


def awaited(tool):
    @functools.wraps(tool)
    async def run(*args, **kwargs):
        return tool(*args, **kwargs)

    return function_tool(run)


class Helper(Agent):
    """The agent is named after its class, unless it has an id."""

    def __init__(self):
        super().__init__(
            instructions=helper.instructions,
            tools=[awaited(x) for x in helper.tools],
            id=helper.name,
        )


async def talk(turns):
    async with AgentSession(llm=openai.LLM(model="gpt-4o-mini")) as session:
        await session.start(Helper())
        for turn in turns:
            await session.run(user_input=turn.question)


for name in dict.fromkeys(x.session for x in SHOP.turns):
    contextvars.copy_context().run(asyncio.run, talk([x for x in SHOP.turns if x.session == name]))

provider.shutdown()
