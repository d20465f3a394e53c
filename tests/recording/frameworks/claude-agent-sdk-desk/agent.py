"""The Claude Agent SDK: a front desk that asks a parcel clerk, a sub-agent of Claude Code's."""

import asyncio
import json
import os

from claude_agent_sdk import (
    AgentDefinition,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    create_sdk_mcp_server,
    tool,
)
from conversation import DESK, schema

desk, clerk = DESK.agents


def offered(function):
    async def run(arguments):
        result = function(**arguments)
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        return {"content": [{"type": "text", "text": text}]}

    return tool(function.__name__, function.__doc__, schema(function))(run)


def names(agent):
    return [f"mcp__shop__{x.__name__}" for x in agent.tools]


OPTIONS = ClaudeAgentOptions(
    system_prompt=desk.instructions,
    model="claude-sonnet-4-5",
    tools=["Agent"],
    agents={
        clerk.name: AgentDefinition(
            description="Knows where parcels are.",
            prompt=clerk.instructions,
            tools=names(clerk),
            model="inherit",
        )
    },
    mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[offered(x) for x in DESK.tools])},
    allowed_tools=["Agent", *names(desk), *names(clerk)],
    setting_sources=[],
    env=dict(os.environ),
)


async def main():
    async with ClaudeSDKClient(OPTIONS) as client:
        for turn in DESK.turns:
            await client.query(turn.question)
            async for _ in client.receive_response():
                pass


asyncio.run(main())
