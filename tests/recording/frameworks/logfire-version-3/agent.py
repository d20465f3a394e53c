"""A loop around the OpenAI SDK under Logfire's instrumentation, version 3, each turn in a span of
the application's.
"""

import json

import logfire
from conversation import SHOP, schema
from openai import OpenAI

logfire.configure(send_to_logfire=False, console=False, service_name="shop", scrubbing=False)
client = OpenAI()
logfire.instrument_openai(client)

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


def answer(messages):
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
    history = sessions.setdefault(turn.session, [{"role": "system", "content": agent.instructions}])
    history.append({"role": "user", "content": turn.question})
    with logfire.span(
        "answer {clerk}", clerk=turn.user, **{"session.id": turn.session, "user.id": turn.user}
    ):
        answer(history)

logfire.force_flush()
