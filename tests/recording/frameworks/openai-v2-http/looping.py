"""A loop around the OpenAI SDK, as people write it who need no framework."""

import json

from conversation import schema
from openai import OpenAI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

spans = TracerProvider()
spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(spans)
OpenAIInstrumentor().instrument()
client = OpenAI()


class Loop:
    """An agent: its instructions, its tools and what was said so far."""

    def __init__(self, instructions, tools):
        self.messages = [{"role": "system", "content": instructions}]
        self.functions = {x.__name__: x for x in tools}
        self.offered = [
            {
                "type": "function",
                "function": {"name": name, "description": x.__doc__, "parameters": schema(x)},
            }
            for name, x in self.functions.items()
        ]

    def ask(self, question):
        """The answer, after all the tools that the model asked for."""
        self.messages.append({"role": "user", "content": question})
        while True:
            answer = client.chat.completions.create(
                model="gpt-4o-mini", messages=self.messages, tools=self.offered
            )
            message = answer.choices[0].message
            self.messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content
            for call in message.tool_calls:
                result = self.functions[call.function.name](**json.loads(call.function.arguments))
                said = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
                self.messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
