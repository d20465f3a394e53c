"""An agent on LangGraph, recorded by OpenInference's instrumentation of LangChain.

pip install . -r examples/langgraph/requirements.txt
python examples/langgraph/agent.py    # a scripted model answers, unless OPENAI_API_KEY is set
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import spanscore

sys.path.append(str(Path(__file__).parents[1]))
import model_server

METRICS = ("task_completion", "check.arguments_match_schema", "check.arguments_grounded")
QUESTION = "I want my money back for order SO-4821."


def show(scores: Sequence[spanscore.Evaluation]) -> None:
    for score in scores:
        print(f"{score.metric:30} {score.label or score.status:8} {score.reason}")


# yours, with its exporters, by which the scores leave too
trace.set_tracer_provider(TracerProvider())
LangChainInstrumentor().instrument()
scoring = spanscore.instrument(metrics=METRICS, on_scores=show)


@tool
def find_order(order_id: str) -> dict:
    """Find an order by its number."""
    return {"order_id": order_id, "total_usd": 59.90, "status": "lost on its way"}


@tool
def refund(order_id: str, amount_usd: float) -> dict:
    """Pay the price of an order back."""
    return {"order_id": order_id, "refunded_usd": amount_usd}


TOOLS = [find_order, refund]


def ask_model(state: MessagesState) -> dict:
    model = ChatOpenAI(model=os.environ.get("MODEL", "gpt-4o-mini")).bind_tools(TOOLS)
    return {
        "messages": [
            model.invoke([SystemMessage("You help a shop's customers."), *state["messages"]])
        ]
    }


graph = StateGraph(MessagesState)
graph.add_node("model", ask_model)
graph.add_node("tools", ToolNode(TOOLS))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")
agent = graph.compile(name="shop")

question = " ".join(sys.argv[1:]) or QUESTION
with model_server.serving():
    print(agent.invoke({"messages": [HumanMessage(question)]})["messages"][-1].content)
scoring.shutdown()  # waits for the scores, which `show` prints
