"""A front desk that asks a parcel clerk: one agent delegates to another in a tool."""

from conversation import DESK
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))

front, clerk = DESK.agents
desk, asked = (
    Agent("openai-chat:gpt-4o-mini", name=x.name, system_prompt=x.instructions, tools=list(x.tools))
    for x in DESK.agents
)


@desk.tool_plain
async def parcel_clerk(request: str) -> str:
    """Ask the parcel clerk."""
    return (await asked.run(request)).output


said = []
for turn in DESK.turns:
    result = desk.run_sync(
        turn.question,
        message_history=said,
        conversation_id=turn.session,
        metadata={"user_id": turn.user, "session_id": turn.session},
    )
    said = result.all_messages()

provider.shutdown()
