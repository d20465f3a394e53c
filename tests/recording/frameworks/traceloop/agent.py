"""A loop around the OpenAI SDK under Traceloop's SDK, with its decorators."""

import json
import os

from conversation import SHOP, schema
from openai import OpenAI
from traceloop.sdk import Traceloop
from traceloop.sdk.decorators import agent as traced_agent, tool, workflow

Traceloop.init(
    app_name="shop",
    api_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"],
    api_key="none",
    disable_batch=True,
)
client = OpenAI()
(agent,) = SHOP.agents
offered = [
    {
        "type": "function",
        "function": {"name": x.__name__, "description": x.__doc__, "parameters": schema(x)},
    }
    for x in agent.tools
]
functions = {x.__name__: tool(name=x.__name__)(x) for x in agent.tools}
sessions = {}


@workflow(name="shop")
def handle(question):
    Traceloop.set_association_properties({"session_id": turn.session, "user_id": turn.user})
    return answer(question)


@traced_agent(name=agent.name)
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
    handle(turn.question)
