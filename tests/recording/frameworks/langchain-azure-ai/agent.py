"""LangChain's agent under the tracer of langchain-azure-ai."""

from conversation import SHOP
from langchain.agents import create_agent
from langchain_azure_ai.callbacks.tracers import AzureAIOpenTelemetryTracer
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracer = AzureAIOpenTelemetryTracer(provider_name="openai", name="shop")

(helper,) = SHOP.agents
agent = create_agent(
    ChatOpenAI(model="gpt-4o-mini"),
    tools=[tool(x) for x in helper.tools],
    system_prompt=helper.instructions,
    name=helper.name,
)
said = {turn.session: [] for turn in SHOP.turns}
for turn in SHOP.turns:
    answer = agent.invoke(
        {"messages": [*said[turn.session], {"role": "user", "content": turn.question}]},
        {"callbacks": [tracer], "metadata": {"thread_id": turn.session, "user_id": turn.user}},
    )
    said[turn.session] = answer["messages"]

provider.shutdown()
