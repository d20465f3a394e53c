"""A loop around the OpenAI SDK under AgentOps: its decorators and its instrumentation, exported to
another endpoint.
"""

import json
import os

import agentops
import openai
from agentops.sdk.decorators import agent, tool, trace
from conversation import SHOP, schema

endpoint = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
agentops.init(
    api_key="00000000-0000-4000-8000-000000000000",
    endpoint=endpoint,
    exporter_endpoint=f"{endpoint}/v1/traces",
    auto_start_session=False,
    log_session_replay_url=False,
)
client = openai.OpenAI()
(helper,) = SHOP.agents
offered = [
    {
        "type": "function",
        "function": {"name": x.__name__, "description": x.__doc__, "parameters": schema(x)},
    }
    for x in helper.tools
]
functions = {x.__name__: tool(x) for x in helper.tools}
sessions = {}


@agent(name=helper.name)
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


@trace
def handle(question):
    return answer(question)


for turn in SHOP.turns:
    sessions.setdefault(turn.session, [{"role": "system", "content": helper.instructions}])
    handle(turn.question)
