"""A loop around the OpenAI SDK under OpenLIT."""

import json
import os

import openlit
from conversation import SHOP, schema
from openai import OpenAI

openlit.init(
    otlp_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"],
    application_name="shop",
    disable_batch=True,
)

client = OpenAI()
(agent,) = SHOP.agents
functions = {x.__name__: x for x in agent.tools}
offered = [
    {
        "type": "function",
        "function": {"name": name, "description": x.__doc__, "parameters": schema(x)},
    }
    for name, x in functions.items()
]
sessions = {}


@openlit.trace
def answer(question):
    messages = sessions.setdefault(
        turn.session, [{"role": "system", "content": agent.instructions}]
    )
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
    answer(turn.question)
