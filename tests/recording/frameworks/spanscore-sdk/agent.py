"""A loop around the OpenAI SDK that records itself with spanscore's SDK."""

import json

from conversation import SHOP, schema
from openai import OpenAI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import spanscore

spans = TracerProvider()
spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(spans)

client = OpenAI()
(agent,) = SHOP.agents
tools = {x.__name__: spanscore.tool(x) for x in agent.tools}
offered = [
    {
        "type": "function",
        "function": {"name": name, "description": x.__doc__, "parameters": schema(x)},
    }
    for name, x in tools.items()
]
sessions = {}

for asked in SHOP.turns:
    messages = sessions.setdefault(
        asked.session, [{"role": "system", "content": agent.instructions}]
    )
    messages.append({"role": "user", "content": asked.question})
    with spanscore.turn(
        messages,
        session_id=asked.session,
        user_id=asked.user,
        tools=tools.values(),
        agent_name=agent.name,
    ) as turn:
        turn.expect(asked.steps[-1].text, tools=[(x.name, x.arguments) for x in asked.calls])
        while True:
            with spanscore.model_call(
                "gpt-4o-mini", messages, provider="openai", tools=tools.values()
            ) as call:
                answer = client.chat.completions.create(
                    model="gpt-4o-mini", messages=messages, tools=offered
                )
                call.answer(answer)
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            if message.content:
                turn.plan(message.content)
            for wanted in message.tool_calls:
                result = tools[wanted.function.name](**json.loads(wanted.function.arguments))
                content = json.dumps(result, ensure_ascii=False)
                messages.append({"role": "tool", "tool_call_id": wanted.id, "content": content})
        turn.answer(message.content)
        if asked is SHOP.turns[0]:
            spanscore.record_score(
                "helpful", True, comment="It looked for another one.", author="clerk-0042"
            )

spans.shutdown()
