"""An agent without any framework, that records itself with spanscore's SDK and is scored in its own
process.

pip install 'spanscore[judge]' python examples/handwritten/agent.py
# a scripted model, and checks that need none OPENAI_API_KEY=... python
examples/handwritten/agent.py "Fly me to Rome"    # OpenAI's models, one of them as the judge
"""

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import spanscore

sys.path.append(str(Path(__file__).parents[1]))
import model_server

MODEL = os.environ.get("MODEL", "gpt-4o-mini")
HAS_KEY = bool(os.environ.get("OPENAI_API_KEY"))
INSTRUCTIONS = "You are the help desk of a shop. Look orders up before you say anything of them."
CHECKS = [
    "check.answer_present",
    "check.arguments_grounded",
    "check.arguments_match_schema",
    "check.errors_recovered",
    "check.tools_on_offer",
]
MAX_REQUESTS = 10


@spanscore.tool
def find_order(order_id: str) -> dict[str, Any]:
    """Look up an order of the shop."""
    return {"order_id": order_id, "item": "kettle", "price_usd": 59.9, "status": "delivered"}


@spanscore.tool
def refund(order_id: str, amount_usd: float) -> dict[str, Any]:
    """Give the money of an order back."""
    return {"order_id": order_id, "refunded_usd": amount_usd}


@spanscore.tool
def search_flights(destination: str) -> list[dict[str, str]]:
    """Find flights to a city."""
    return [{"flight": "LH 454", "to": destination, "departs": "09:20"}]


@spanscore.tool
def book(flight: str) -> dict[str, str]:
    """Book a seat on a flight."""
    return {"flight": flight, "seat": "14A"}


TOOLS = {tool.__name__: tool for tool in (find_order, refund, search_flights, book)}
PARAMETERS = {
    "find_order": {"order_id": "string"},
    "refund": {"order_id": "string", "amount_usd": "number"},
    "search_flights": {"destination": "string"},
    "book": {"flight": "string"},
}
OFFERED = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": tool.__doc__,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": kind} for key, kind in PARAMETERS[name].items()},
                "required": list(PARAMETERS[name]),
            },
        },
    }
    for name, tool in TOOLS.items()
]


def ask_model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The model's next message."""
    body = json.dumps({"model": MODEL, "messages": messages, "tools": OFFERED}).encode()
    headers = {
        "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
        "content-type": "application/json",
    }
    base = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    request = urllib.request.Request(f"{base}/chat/completions", body, headers)  # noqa: S310 - the base is the caller's
    with spanscore.model_call(MODEL, messages, provider="openai", tools=OFFERED) as call:
        with urllib.request.urlopen(request) as answered:  # noqa: S310 - likewise
            response: dict[str, Any] = call.answer(json.load(answered))
        message: dict[str, Any] = response["choices"][0]["message"]
        return message


def answer(question: str, session_id: str | None = None) -> spanscore.Turn:
    """One turn of the agent: models and tools are asked until the model has an answer."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": question},
    ]
    with spanscore.turn(
        messages, session_id=session_id, tools=TOOLS.values(), agent_name="help desk"
    ) as turn:
        for _ in range(MAX_REQUESTS):
            message = ask_model(messages)
            messages.append(message)
            if not message.get("tool_calls"):
                turn.answer(message["content"])
                break
            if message["content"] and len(messages) == 3:
                turn.plan(message["content"])
            messages += [run(call) for call in message["tool_calls"]]
    print(f"user:  {question}\nagent: {messages[-1]['content']}\n")
    return turn


def run(call: dict[str, Any]) -> dict[str, Any]:
    """Run the tool that the model asked for; the message with its result."""
    function = call["function"]
    try:
        result = TOOLS[function["name"]](**json.loads(function["arguments"]))
    except Exception as error:  # noqa: BLE001 - the model is told, and may do better
        result = {"error": str(error)}
    return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}


def main() -> None:
    """Answer the questions that are given, or two of a shop's customer, and show the scores."""
    # your own has exporters; here the scores alone are shown
    trace.set_tracer_provider(TracerProvider())
    found: list[spanscore.Evaluation] = []
    scoring = spanscore.instrument(
        judge=MODEL if HAS_KEY else None,
        metrics=None if HAS_KEY else CHECKS,
        on_scores=found.extend,
    )
    questions = sys.argv[1:] or ["I want my money back for order 4821.", "Where is my order 4822?"]
    with model_server.serving():
        turns = [answer(question, "chat-7") for question in questions]
    spanscore.record_score(
        "helpful", True, comment="That was quick.", author="customer", trace=turns[0]
    )
    scoring.shutdown()
    show(found)


def show(found: list[spanscore.Evaluation]) -> None:
    """The scores, one a line."""
    for each in sorted(found, key=lambda x: (x.target.start_ns, x.metric)):
        value = "" if each.value is None else f"{each.value:.2f}"
        print(f"{each.metric:32} {value:5} {each.label or each.status:8} {each.reason[:80]}")


if __name__ == "__main__":
    main()
