"""CrewAI: a front desk that delegates to a parcel clerk; only CrewAI itself is instrumented."""

import os

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}

from conversation import DESK
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation import using_attributes
from openinference.instrumentation.crewai import CrewAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
CrewAIInstrumentor().instrument(tracer_provider=provider)


def made(agent, *, delegates):
    return Agent(
        role=agent.name,
        goal=agent.instructions,
        backstory="Works in a shop.",
        tools=[tool(x.__name__)(x) for x in agent.tools],
        llm=LLM(model="openai/gpt-4o-mini", base_url=os.environ["OPENAI_BASE_URL"], api_key="none"),
        allow_delegation=delegates,
    )


desk, clerk = DESK.agents

for turn in DESK.turns:
    front = made(desk, delegates=True)
    task = Task(description=turn.question, expected_output="An answer.", agent=front)
    with using_attributes(session_id=turn.session, user_id=turn.user):
        Crew(agents=[front, made(clerk, delegates=False)], tasks=[task]).kickoff()

provider.shutdown()
