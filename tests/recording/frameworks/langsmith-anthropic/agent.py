"""A loop around the Anthropic SDK, traced by LangSmith's decorators and its wrapper of the
client.
"""

import json

import langsmith
from anthropic import Anthropic
from conversation import SHOP, schema
from langsmith.wrappers import wrap_anthropic

client = wrap_anthropic(Anthropic())
(agent,) = SHOP.agents
functions = {x.__name__: langsmith.traceable(x, run_type="tool") for x in agent.tools}
offered = [
    {"name": x.__name__, "description": x.__doc__, "input_schema": schema(x)} for x in agent.tools
]
sessions = {}


@langsmith.traceable(name=agent.name)
def answer(question):
    messages = sessions[turn.session]
    messages.append({"role": "user", "content": question})
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
            return reply.content[0].text
        results = [json.dumps(functions[x.name](**x.input), ensure_ascii=False) for x in calls]
        content = [
            {"type": "tool_result", "tool_use_id": x.id, "content": result}
            for x, result in zip(calls, results, strict=True)
        ]
        messages.append({"role": "user", "content": content})


for turn in SHOP.turns:
    sessions.setdefault(turn.session, [])
    metadata = {"session_id": turn.session, "user_id": turn.user}
    answer(turn.question, langsmith_extra={"metadata": metadata})

langsmith.Client().flush()
