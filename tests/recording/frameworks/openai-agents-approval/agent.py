"""An agent of the OpenAI Agents SDK, one tool of which a person approves: the run halts at the call
and is resumed.
"""

import asyncio

from agents import Agent, Runner, SQLiteSession, function_tool, set_trace_processors
from conversation import SHOP
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
set_trace_processors([])
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)

(helper,) = SHOP.agents
tools = [
    function_tool(x, strict_mode=False, needs_approval=x.__name__ == "reserve")
    for x in helper.tools
]
agent = Agent(name=helper.name, instructions=helper.instructions, model="gpt-5", tools=tools)


async def main():
    sessions = {turn.session: SQLiteSession(turn.session) for turn in SHOP.turns}
    for turn in SHOP.turns:
        session = sessions[turn.session]
        result = await Runner.run(agent, turn.question, session=session)
        while result.interruptions:
            state = result.to_state()
            for call in result.interruptions:
                state.approve(call)
            result = await Runner.run(agent, state, session=session)


asyncio.run(main())
provider.shutdown()
