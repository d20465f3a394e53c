"""A loop around the OpenAI SDK, traced by LangSmith's decorators and its wrapper of the client."""

import json

import langsmith
from conversation import SHOP, schema
from langsmith.wrappers import wrap_openai
from openai import OpenAI

client = wrap_openai(OpenAI())
(agent,) = SHOP.agents
offered = [
    {
        "type": "function",
        "function": {"name": x.__name__, "description": x.__doc__, "parameters": schema(x)},
    }
    for x in agent.tools
]
functions = {x.__name__: langsmith.traceable(x, run_type="tool") for x in agent.tools}
sessions = {}


@langsmith.traceable(name=agent.name)
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
    metadata = {"session_id": turn.session, "user_id": turn.user}
    answer(turn.question, langsmith_extra={"metadata": metadata})

langsmith.Client().flush()
