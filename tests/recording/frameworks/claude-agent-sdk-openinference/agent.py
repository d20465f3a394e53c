"""An agent of the Claude Agent SDK under OpenInference: one Claude Code a session, its tools in
this process.
"""

import asyncio
import json
from itertools import groupby

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, create_sdk_mcp_server, tool
from conversation import SHOP, schema
from openinference.instrumentation import using_attributes
from openinference.instrumentation.claude_agent_sdk import ClaudeAgentSDKInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

spans = TracerProvider()
spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
ClaudeAgentSDKInstrumentor().instrument(tracer_provider=spans)
(agent,) = SHOP.agents


def offered(function):
    async def run(arguments):
        result = function(**arguments)
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        return {"content": [{"type": "text", "text": text}]}

    return tool(function.__name__, function.__doc__, schema(function))(run)


async def main():
    options = ClaudeAgentOptions(
        system_prompt=agent.instructions,
        model="claude-sonnet-4-5",
        tools=[],
        mcp_servers={
            "shop": create_sdk_mcp_server("shop", tools=[offered(x) for x in agent.tools])
        },
        allowed_tools=[f"mcp__shop__{x.__name__}" for x in agent.tools],
        setting_sources=[],
    )
    for (session, user), turns in groupby(SHOP.turns, lambda x: (x.session, x.user)):
        async with ClaudeSDKClient(options) as client:
            for turn in turns:
                with using_attributes(session_id=session, user_id=user):
                    await client.query(turn.question)
                    async for _ in client.receive_response():
                        pass


asyncio.run(main())
spans.shutdown()
