"""A loop around the OpenAI SDK under Laminar."""

import json
import os
from urllib.parse import urlsplit

from conversation import SHOP, schema
from lmnr import Laminar, observe

address = urlsplit(os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"])
Laminar.initialize(
    project_api_key="none",
    base_url=f"{address.scheme}://{address.hostname}",
    http_port=address.port,
    force_http=True,
    disable_batch=True,
)
from openai import OpenAI  # noqa: E402  # Laminar has to be first

client = OpenAI()
(agent,) = SHOP.agents
offered = [
    {
        "type": "function",
        "function": {"name": x.__name__, "description": x.__doc__, "parameters": schema(x)},
    }
    for x in agent.tools
]
functions = {x.__name__: observe(name=x.__name__, span_type="TOOL")(x) for x in agent.tools}
sessions = {}


@observe(name=agent.name)
def answer(question):
    Laminar.set_trace_session_id(turn.session)
    Laminar.set_trace_user_id(turn.user)
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

Laminar.flush()
