"""LangChain's agent with Langfuse's callback handler."""

from conversation import SHOP
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langfuse import get_client
from langfuse.langchain import CallbackHandler
from langgraph.checkpoint.memory import InMemorySaver

(helper,) = SHOP.agents
agent = create_agent(
    ChatOpenAI(model="gpt-4o-mini"),
    [tool(x) for x in helper.tools],
    system_prompt=helper.instructions,
    name=helper.name,
    checkpointer=InMemorySaver(),
)
for turn in SHOP.turns:
    agent.invoke(
        {"messages": [{"role": "user", "content": turn.question}]},
        {
            "callbacks": [CallbackHandler()],
            "configurable": {"thread_id": turn.session},
            "metadata": {"langfuse_session_id": turn.session, "langfuse_user_id": turn.user},
        },
    )
get_client().flush()
