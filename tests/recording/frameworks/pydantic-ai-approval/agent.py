"""An agent of Pydantic AI, one tool of which a person approves: the run ends with the call, another
one goes on.
"""

import asyncio

from conversation import SHOP
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.models.instrumented import InstrumentationSettings

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))

(helper,) = SHOP.agents
agent = Agent(
    "openai-chat:gpt-4o-mini",
    name=helper.name,
    instructions=helper.instructions,
    tools=[Tool(x, requires_approval=x.__name__ == "reserve") for x in helper.tools],
    output_type=[str, DeferredToolRequests],
)


async def main():
    said = {}
    for turn in SHOP.turns:
        known = {"conversation_id": turn.session, "metadata": {"user_id": turn.user}}
        result = await agent.run(turn.question, message_history=said.get(turn.session), **known)
        while isinstance(result.output, DeferredToolRequests):
            approved = DeferredToolResults(
                approvals={x.tool_call_id: True for x in result.output.approvals}
            )
            result = await agent.run(
                message_history=result.all_messages(), deferred_tool_results=approved, **known
            )
        said[turn.session] = result.all_messages()


asyncio.run(main())
provider.shutdown()
