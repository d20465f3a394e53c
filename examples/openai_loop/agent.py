"""An agent on the plain openai SDK: a loop that calls the model, then the tools that it asks for,
until it answers.

pip install . -r examples/openai_loop/requirements.txt
python examples/openai_loop/agent.py    # a scripted model answers, unless OPENAI_API_KEY is set
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from openai import OpenAI
from openinference.instrumentation.openai import OpenAIInstrumentor
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
OpenAIInstrumentor().instrument()
scoring = spanscore.instrument(metrics=METRICS, on_scores=show)


@spanscore.tool
def find_order(order_id: str) -> dict:
    """Find an order by its number."""
    return {"order_id": order_id, "total_usd": 59.90, "status": "lost on its way"}


@spanscore.tool
def refund(order_id: str, amount_usd: float) -> dict:
    """Pay the price of an order back."""
    return {"order_id": order_id, "refunded_usd": amount_usd}


TOOLS = {"find_order": find_order, "refund": refund}
PARAMETERS = {
    "find_order": {"order_id": {"type": "string"}},
    "refund": {"order_id": {"type": "string"}, "amount_usd": {"type": "number"}},
}
OFFERED = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": TOOLS[name].__doc__,
            "parameters": {
                "type": "object",
                "properties": parameters,
                "required": list(parameters),
            },
        },
    }
    for name, parameters in PARAMETERS.items()
]


def answer(question: str) -> str:
    client = OpenAI()
    messages = [
        {"role": "system", "content": "You help a shop's customers."},
        {"role": "user", "content": question},
    ]
    while True:
        model = os.environ.get("MODEL", "gpt-4o-mini")
        message = (
            client.chat.completions.create(model=model, messages=messages, tools=OFFERED)
            .choices[0]
            .message
        )
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for call in message.tool_calls:
            result = TOOLS[call.function.name](**json.loads(call.function.arguments))
            messages.append(
                {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}
            )


question = " ".join(sys.argv[1:]) or QUESTION
with (
    model_server.serving(),
    spanscore.turn(input=question, agent_name="shop", tools=OFFERED) as turn,
):
    print(turn.answer(answer(question)))
scoring.shutdown()  # waits for the scores, which `show` prints
