"""OpenAI's Agents SDK under Logfire's instrumentation."""

import os

import logfire
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
)
from conversation import SHOP
from openai import AsyncOpenAI

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "0"
logfire.configure(send_to_logfire=False, console=False, service_name="shop", scrubbing=False)
logfire.instrument_openai_agents()

(helper,) = SHOP.agents
chat = os.environ.get("MODEL_API") == "chat"
agent = Agent(
    name=helper.name,
    instructions=helper.instructions,
    model=OpenAIChatCompletionsModel("gpt-4o-mini", AsyncOpenAI()) if chat else "gpt-4o-mini",
    tools=[function_tool(x) for x in helper.tools],
)
sessions = {}

for turn in SHOP.turns:
    session = sessions.setdefault(turn.session, SQLiteSession(turn.session))
    config = RunConfig(
        workflow_name="shop", group_id=turn.session, trace_metadata={"user_id": turn.user}
    )
    Runner.run_sync(agent, turn.question, session=session, run_config=config)

logfire.shutdown()
