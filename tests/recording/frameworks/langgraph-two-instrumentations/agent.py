"""A LangChain agent in a web request, with an instrumentation of LangChain and one of the model's
SDK beside it.
"""

import asyncio
import os

from conversation import SHOP
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from openinference.instrumentation import using_attributes
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)  # Anthropic's SDK has spans of its own
for instrumentor in (LangChainInstrumentor(), OpenAIInstrumentor(), AnthropicInstrumentor()):
    instrumentor.instrument(tracer_provider=provider)
tracer = provider.get_tracer("web")

streaming = bool(os.environ.get("STREAMING"))
MODELS = {
    "openai": lambda: ChatOpenAI(model="gpt-4o-mini", streaming=streaming),
    "anthropic": lambda: ChatAnthropic(model="claude-3-5-haiku-latest", streaming=streaming),
}
(helper,) = SHOP.agents
agent = create_agent(
    MODELS[os.environ["PROVIDER"]](),
    tools=list(helper.tools),
    system_prompt=helper.instructions,
    checkpointer=InMemorySaver(),
    name=helper.name,
)


async def main() -> None:
    for turn in SHOP.turns:
        attributes = using_attributes(session_id=turn.session, user_id=turn.user)
        with tracer.start_as_current_span("POST /chat"), attributes:
            await agent.ainvoke(
                {"messages": [{"role": "user", "content": turn.question}]},
                {"configurable": {"thread_id": turn.session}},
            )


asyncio.run(main())
provider.shutdown()
