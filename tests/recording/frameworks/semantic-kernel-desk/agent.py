"""Semantic Kernel's hand-off between two agents, each in a trace of its own that links to the
message it answers.
"""

import asyncio
import logging
import os

from conversation import DESK
from openai import AsyncOpenAI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from semantic_kernel.agents import ChatCompletionAgent, HandoffOrchestration, OrchestrationHandoffs
from semantic_kernel.agents.runtime import InProcessRuntime
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

service = OpenAIChatCompletion(
    ai_model_id="gpt-4o-mini", async_client=AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"])
)


def made(agent):
    functions = {
        x.__name__: kernel_function(x, name=x.__name__, description=x.__doc__) for x in agent.tools
    }
    plugins = [KernelPlugin.from_object("shop", functions)]
    description = f"Answers as the {agent.name}."
    return ChatCompletionAgent(
        service=service,
        name=agent.name,
        description=description,
        instructions=agent.instructions,
        plugins=plugins,
    )


async def main():
    for turn in DESK.turns:
        desk, clerk = map(made, DESK.agents)
        handoffs = OrchestrationHandoffs().add(source_agent=desk.name, target_agent=clerk.name)
        orchestration = HandoffOrchestration(members=[desk, clerk], handoffs=handoffs)
        runtime = InProcessRuntime()
        runtime.start()
        answer = await orchestration.invoke(task=turn.question, runtime=runtime)
        await asyncio.wait([asyncio.ensure_future(answer.get())], timeout=3)
        await runtime.stop_when_idle()


asyncio.run(main())
provider.shutdown()
logs.shutdown()
