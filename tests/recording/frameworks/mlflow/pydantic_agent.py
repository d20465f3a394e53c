"""Pydantic AI's agent under MLflow's autolog."""

import mlflow
from conversation import SHOP
from pydantic_ai import Agent

mlflow.pydantic_ai.autolog()
(helper,) = SHOP.agents
agent = Agent(
    "openai-chat:gpt-4o-mini",
    name=helper.name,
    instructions=helper.instructions,
    tools=list(helper.tools),
)
histories = {}
for turn in SHOP.turns:
    run = agent.run_sync(turn.question, message_history=histories.get(turn.session))
    histories[turn.session] = run.all_messages()
