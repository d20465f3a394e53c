"""A loop around the Mistral SDK under OpenInference's instrumentation, in an agent of the
application's.
"""

import json
import os

from conversation import SHOP, schema
from mistralai.client import Mistral
from openinference.instrumentation import TracerProvider, using_attributes
from openinference.instrumentation.mistralai import MistralAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor

spans = TracerProvider()
spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
MistralAIInstrumentor().instrument(tracer_provider=spans)
tracer = spans.get_tracer("shop")

client = Mistral(api_key="none", server_url=os.environ["MISTRAL_URL"])
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


@tracer.agent(name=agent.name)
def answer(question):
    messages = sessions.setdefault(
        turn.session, [{"role": "system", "content": agent.instructions}]
    )
    messages.append({"role": "user", "content": question})
    while True:
        reply = client.chat.complete(model="mistral-small-latest", messages=messages, tools=offered)
        message = reply.choices[0].message
        calls = [
            {"id": x.id, "function": {"name": x.function.name, "arguments": x.function.arguments}}
            for x in message.tool_calls or ()
        ]
        messages.append(
            {"role": "assistant", "content": message.content or "", "tool_calls": calls or None}
        )
        if not calls:
            return message.content
        for call in calls:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            result = functions[name](**arguments)
            content = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
            messages.append(
                {"role": "tool", "tool_call_id": call["id"], "name": name, "content": content}
            )


for turn in SHOP.turns:
    with using_attributes(session_id=turn.session, user_id=turn.user):
        answer(turn.question)

spans.shutdown()
