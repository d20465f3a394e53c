"""LangChain's agent under OpenLIT."""

import os

import openlit
from conversation import SHOP
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

openlit.init(
    otlp_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"], service_name="shop", disable_batch=True
)

(helper,) = SHOP.agents
agent = create_agent(
    ChatOpenAI(model="gpt-4o-mini"),
    [tool(x) for x in helper.tools],
    system_prompt=helper.instructions,
    name=helper.name,
    checkpointer=InMemorySaver(),
)
for turn in SHOP.turns:
    question = {"messages": [{"role": "user", "content": turn.question}]}
    agent.invoke(question, {"configurable": {"thread_id": turn.session}})
