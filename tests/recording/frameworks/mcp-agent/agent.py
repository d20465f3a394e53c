"""A front desk of LangGraph that asks a parcel clerk, who is an agent behind an MCP server in
another process.

LangChain's spans are not the current ones, so that MCP has no trace context to pass on.
"""

import asyncio
import os
import sys

from conversation import DESK
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from mcp import Client, StdioServerParameters
from openinference.instrumentation import using_attributes
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)
front, _ = DESK.agents


async def main():
    server = StdioServerParameters(
        command=sys.executable, args=["clerk.py"], env={**os.environ, "OTEL_SERVICE_NAME": "clerk"}
    )
    async with Client(server) as clerk:

        @tool
        async def parcel_clerk(request: str) -> str:
            """Ask the parcel clerk."""
            result = await clerk.call_tool("parcel_clerk", {"request": request})
            return result.content[0].text

        desk = create_agent(
            ChatOpenAI(model="gpt-4o-mini"),
            tools=[*front.tools, parcel_clerk],
            system_prompt=front.instructions,
            checkpointer=InMemorySaver(),
            name=front.name,
        )
        for turn in DESK.turns:
            with using_attributes(session_id=turn.session, user_id=turn.user):
                said = {"messages": [{"role": "user", "content": turn.question}]}
                await desk.ainvoke(said, {"configurable": {"thread_id": turn.session}})


asyncio.run(main())
provider.shutdown()
