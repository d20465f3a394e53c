"""An Agno team: a leader who asks a member."""

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.team import Team
from conversation import DESK
from openinference.instrumentation.agno import AgnoInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

AgnoInstrumentor().instrument(tracer_provider=provider)

desk, clerk = DESK.agents
team = Team(
    name=desk.name,
    model=OpenAIChat(id="gpt-4o-mini"),
    members=[
        Agent(
            name=clerk.name,
            model=OpenAIChat(id="gpt-4o-mini"),
            instructions=clerk.instructions,
            tools=list(clerk.tools),
            telemetry=False,
        )
    ],
    instructions=desk.instructions,
    tools=list(desk.tools),
    telemetry=False,
)

for turn in DESK.turns:
    team.run(turn.question, session_id=turn.session, user_id=turn.user)

provider.shutdown()
