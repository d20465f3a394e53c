"""An agent on the OpenAI Agents SDK, recorded by OpenInference's instrumentation of it.

pip install . -r examples/openai_agents/requirements.txt
python examples/openai_agents/agent.py    # a scripted model answers, unless OPENAI_API_KEY is set
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from agents import Agent, Runner, function_tool
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
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
OpenAIAgentsInstrumentor().instrument()
scoring = spanscore.instrument(metrics=METRICS, on_scores=show)


@function_tool
def find_order(order_id: str) -> dict:
    """Find an order by its number."""
    return {"order_id": order_id, "total_usd": 59.90, "status": "lost on its way"}


@function_tool
def refund(order_id: str, amount_usd: float) -> dict:
    """Pay the price of an order back."""
    return {"order_id": order_id, "refunded_usd": amount_usd}


agent = Agent(
    name="shop",
    instructions="You help a shop's customers.",
    model=os.environ.get("MODEL", "gpt-4o-mini"),
    tools=[find_order, refund],
)
with model_server.serving():
    print(Runner.run_sync(agent, " ".join(sys.argv[1:]) or QUESTION).final_output)
scoring.shutdown()  # waits for the scores, which `show` prints
