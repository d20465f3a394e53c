"""A loop around the Anthropic SDK under Traceloop's SDK, without a span of the application's
own.
"""

import json
import os

from anthropic import Anthropic
from conversation import SHOP, schema
from traceloop.sdk import Traceloop

Traceloop.init(
    app_name="shop",
    api_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"],
    api_key="none",
    disable_batch=True,
)
client = Anthropic()
(agent,) = SHOP.agents
functions = {x.__name__: x for x in agent.tools}
offered = [
    {"name": name, "description": x.__doc__, "input_schema": schema(x)}
    for name, x in functions.items()
]
sessions = {}


def answer(messages):
    while True:
        reply = client.messages.create(
            model="claude-sonnet-4-5",
            max_tokens=1000,
            system=agent.instructions,
            messages=messages,
            tools=offered,
        )
        messages.append(
            {
                "role": "assistant",
                "content": [x.model_dump(exclude_none=True) for x in reply.content],
            }
        )
        calls = [x for x in reply.content if x.type == "tool_use"]
        if not calls:
            return
        results = [json.dumps(functions[x.name](**x.input), ensure_ascii=False) for x in calls]
        content = [
            {"type": "tool_result", "tool_use_id": x.id, "content": result}
            for x, result in zip(calls, results, strict=True)
        ]
        messages.append({"role": "user", "content": content})


for turn in SHOP.turns:
    messages = sessions.setdefault(turn.session, [])
    messages.append({"role": "user", "content": turn.question})
    Traceloop.set_association_properties({"session_id": turn.session, "user_id": turn.user})
    answer(messages)
