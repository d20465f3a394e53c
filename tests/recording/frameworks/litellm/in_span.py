"""A loop around LiteLLM's SDK inside a span of the application's, to which the callback writes
every call.
"""

import asyncio
import json
import os

import litellm
from conversation import SHOP, schema
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("shop")
litellm.callbacks = ["otel"]
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


async def answer(turn, messages):
    while True:
        reply = await litellm.acompletion(
            model="openai/gpt-4o-mini",
            api_base=os.environ["OPENAI_BASE_URL"],
            messages=messages,
            tools=offered,
            user=turn.user,
        )
        await asyncio.sleep(0.5)  # its callbacks run beside the calls
        message = reply.choices[0].message
        messages.append(message.model_dump(include={"role", "content", "tool_calls"}))
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            result = functions[call.function.name](**json.loads(call.function.arguments))
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call.id,
                    "content": json.dumps(result, ensure_ascii=False),
                }
            )


async def main():
    for turn in SHOP.turns:
        history = sessions.setdefault(
            turn.session, [{"role": "system", "content": agent.instructions}]
        )
        history.append({"role": "user", "content": turn.question})
        with tracer.start_as_current_span(agent.name) as span:
            span.set_attributes({"session.id": turn.session, "user.id": turn.user})
            await answer(turn, history)


asyncio.run(main())
provider.shutdown()
