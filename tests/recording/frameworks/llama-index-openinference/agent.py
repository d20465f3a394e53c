"""LlamaIndex's FunctionAgent, under one of three instrumentations."""

import asyncio
import os
import sys

from conversation import SHOP
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAI
from llama_index.observability.otel import LlamaIndexOpenTelemetry
from openinference.instrumentation import using_attributes
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor as OpenInference
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor as OpenLLMetry
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

if "openinference" in sys.argv:
    OpenInference().instrument(tracer_provider=provider)
elif "openllmetry" in sys.argv:
    OpenLLMetry().instrument(tracer_provider=provider)
    OpenAIInstrumentor().instrument(tracer_provider=provider)
else:
    LlamaIndexOpenTelemetry(tracer_provider=provider).start_registering()

(helper,) = SHOP.agents
agent = FunctionAgent(
    name=helper.name,
    tools=list(helper.tools),
    llm=OpenAI(model="gpt-4o-mini", api_base=os.environ["OPENAI_BASE_URL"]),
    system_prompt=helper.instructions,
    streaming=False,
)


async def main():
    contexts = {turn.session: Context(agent) for turn in SHOP.turns}
    for turn in SHOP.turns:
        with using_attributes(session_id=turn.session, user_id=turn.user):
            await agent.run(user_msg=turn.question, ctx=contexts[turn.session])


asyncio.run(main())
provider.shutdown()
