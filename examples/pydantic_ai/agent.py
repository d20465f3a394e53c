"""An agent on Pydantic AI, recorded by the instrumentation that it brings.

pip install . -r examples/pydantic_ai/requirements.txt
python examples/pydantic_ai/agent.py    # a scripted model answers, unless OPENAI_API_KEY is set
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent

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
scoring = spanscore.instrument(metrics=METRICS, on_scores=show)
Agent.instrument_all()
MODEL = f"openai:{os.environ.get('MODEL', 'gpt-4o-mini')}"
agent = Agent(name="shop", instructions="You help a shop's customers.")


@agent.tool_plain
def find_order(order_id: str) -> dict:
    """Find an order by its number."""
    return {"order_id": order_id, "total_usd": 59.90, "status": "lost on its way"}


@agent.tool_plain
def refund(order_id: str, amount_usd: float) -> dict:
    """Pay the price of an order back."""
    return {"order_id": order_id, "refunded_usd": amount_usd}


with model_server.serving():
    print(agent.run_sync(" ".join(sys.argv[1:]) or QUESTION, model=MODEL).output)
scoring.shutdown()  # waits for the scores, which `show` prints
