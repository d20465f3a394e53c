"""A ChatCompletionAgent of Semantic Kernel: spans, and its messages as log records."""

import asyncio
import logging
import os

from conversation import SHOP
from openai import AsyncOpenAI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import KernelPlugin, kernel_function

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

trace.set_tracer_provider(provider)
logs = LoggerProvider()
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
handler = LoggingHandler(logger_provider=logs)
handler.addFilter(logging.Filter("semantic_kernel"))
logging.getLogger().addHandler(handler)
logging.getLogger().setLevel(logging.INFO)

(helper,) = SHOP.agents
functions = [kernel_function(x, name=x.__name__, description=x.__doc__) for x in helper.tools]
service = OpenAIChatCompletion(
    ai_model_id="gpt-4o-mini", async_client=AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"])
)
agent = ChatCompletionAgent(
    service=service,
    name=helper.name,
    instructions=helper.instructions,
    plugins=[KernelPlugin.from_object("shop", {x.__name__: x for x in functions})],
)


async def main():
    threads = dict.fromkeys(turn.session for turn in SHOP.turns)
    for turn in SHOP.turns:
        answer = await agent.get_response(messages=turn.question, thread=threads[turn.session])
        threads[turn.session] = answer.thread


asyncio.run(main())
provider.shutdown()
logs.shutdown()
