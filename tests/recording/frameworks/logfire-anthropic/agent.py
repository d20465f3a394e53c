"""A loop around the Anthropic SDK under Logfire's instrumentation, with streamed answers."""

import json

import logfire
from anthropic import Anthropic
from conversation import SHOP, schema

logfire.configure(send_to_logfire=False, console=False, service_name="shop", scrubbing=False)
client = Anthropic()
logfire.instrument_anthropic(client)

(agent,) = SHOP.agents
functions = {x.__name__: x for x in agent.tools}
offered = [
    {"name": name, "description": x.__doc__, "input_schema": schema(x)}
    for name, x in functions.items()
]
sessions = {}


def answer(messages):
    while True:
        request = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 1000,
            "system": agent.instructions,
            "tools": offered,
        }
        with client.messages.stream(messages=messages, **request) as stream:
            reply = stream.get_final_message()
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
    history = sessions.setdefault(turn.session, [])
    history.append({"role": "user", "content": turn.question})
    with logfire.span(
        "answer {clerk}", clerk=turn.user, **{"session.id": turn.session, "user.id": turn.user}
    ):
        answer(history)

logfire.shutdown()
