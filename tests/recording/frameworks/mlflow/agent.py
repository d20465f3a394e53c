"""A loop around the OpenAI SDK, traced by MLflow's decorator and its autolog of OpenAI."""

import json

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
functions = {x.__name__: mlflow.trace(x, span_type=SpanType.TOOL) for x in agent.tools}
sessions = {}


@mlflow.trace(name=agent.name, span_type=SpanType.AGENT)
def answer(question):
    messages = sessions[turn.session]
    messages.append({"role": "user", "content": question})
    while True:
        reply = client.chat.completions.create(
            model="gpt-4o-mini", messages=messages, tools=offered
        )
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            result = functions[call.function.name](**json.loads(call.function.arguments))
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call.id,
                    "content": json.dumps(result, ensure_ascii=False),
                }
            )


for turn in SHOP.turns:
    sessions.setdefault(turn.session, [{"role": "system", "content": agent.instructions}])
    answer(turn.question)
