"""A front desk that hands the conversation over to a parcel clerk."""

from agents import Agent, Runner, function_tool, set_trace_processors
from conversation import DESK
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
set_trace_processors([])  # none to OpenAI
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)

front, clerk = (
    Agent(
        name=x.name,
        instructions=x.instructions,
        tools=[function_tool(y) for y in x.tools],
        model="gpt-4o-mini",
    )
    for x in DESK.agents
)
front.handoffs = [clerk]

said = []
for turn in DESK.turns:
    said.append({"role": "user", "content": turn.question})
    said = Runner.run_sync(front, said).to_input_list()

provider.shutdown()
