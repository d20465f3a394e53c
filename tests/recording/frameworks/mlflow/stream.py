"""The loop around the OpenAI SDK of agent.py, its answers streamed, under MLflow's decorator and
autolog.
"""

import json
import re

import mlflow
from conversation import SHOP, schema
from mlflow.entities import SpanType
from openai import OpenAI

mlflow.openai.autolog()
client = OpenAI()
(agent,) = SHOP.agents
offered = [
    {
        "type": "function",
        "function": {"name": x.__name__, "description": x.__doc__, "parameters": schema(x)},
    }
    for x in agent.tools
]
functions = {x.__name__: x for x in agent.tools}
sessions = {}


def streamed(messages):
    """A model's message, put together from the chunks of its stream."""
    said, calls = "", {}
    for chunk in client.chat.completions.create(
        model="gpt-4o-mini",
        messages=messages,
        tools=offered,
        stream=True,
        stream_options={"include_usage": True},
    ):
        for choice in chunk.choices:
            said += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                call = calls.setdefault(piece.index, {"id": piece.id, "type": "function"})
                function = call.setdefault(
                    "function", {"name": piece.function.name, "arguments": ""}
                )
                function["arguments"] += piece.function.arguments or ""
    return {"role": "assistant", "content": said or None} | (
        {"tool_calls": [*calls.values()]} if calls else {}
    )


@mlflow.trace(name=agent.name, span_type=SpanType.AGENT)
def answer(question):
    """Yields the answer word by word."""
    messages = sessions[turn.session]
    messages.append({"role": "user", "content": question})
    while True:
        message = streamed(messages)
        messages.append(message)
        if "tool_calls" not in message:
            yield from re.findall(r"\S+\s*", message["content"])
            return
        for call in message["tool_calls"]:
            result = functions[call["function"]["name"]](
                **json.loads(call["function"]["arguments"])
            )
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "content": json.dumps(result, ensure_ascii=False),
                }
            )


for turn in SHOP.turns:
    sessions.setdefault(turn.session, [{"role": "system", "content": agent.instructions}])
    list(answer(turn.question))
