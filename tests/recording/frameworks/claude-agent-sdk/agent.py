"""An agent of the Claude Agent SDK: one Claude Code a session, its tools in this process, its own
telemetry.
"""

import asyncio
import json
import os
from itertools import groupby

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, create_sdk_mcp_server, tool
from conversation import SHOP, schema

(agent,) = SHOP.agents


def offered(function):
    async def run(arguments):
        result = function(**arguments)
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        return {"content": [{"type": "text", "text": text}]}

    return tool(function.__name__, function.__doc__, schema(function))(run)


def options(session, user):
    return ClaudeAgentOptions(
        system_prompt=agent.instructions,
        model="claude-sonnet-4-5",
        tools=[],
        mcp_servers={
            "shop": create_sdk_mcp_server("shop", tools=[offered(x) for x in agent.tools])
        },
        allowed_tools=[f"mcp__shop__{x.__name__}" for x in agent.tools],
        setting_sources=[],
        env={**os.environ, "OTEL_RESOURCE_ATTRIBUTES": f"session.id={session},user.id={user}"},
    )


async def main():
    for (session, user), turns in groupby(SHOP.turns, lambda x: (x.session, x.user)):
        async with ClaudeSDKClient(options(session, user)) as client:
            for turn in turns:
                await client.query(turn.question)
                async for _ in client.receive_response():
                    pass


asyncio.run(main())
