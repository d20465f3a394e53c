"""An Agno agent that keeps the conversation in memory."""

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat
from conversation import SHOP
from openinference.instrumentation.agno import AgnoInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

AgnoInstrumentor().instrument(tracer_provider=provider)

(helper,) = SHOP.agents
agent = Agent(
    name=helper.name,
    model=OpenAIChat(id="gpt-4o-mini"),
    tools=list(helper.tools),
    instructions=helper.instructions,
    db=InMemoryDb(),
    add_history_to_context=True,
    telemetry=False,
)

for turn in SHOP.turns:
    agent.run(turn.question, session_id=turn.session, user_id=turn.user)

provider.shutdown()
