"""CrewAI, instrumented by its event listener, with the OpenAI SDK instrumented beside it."""

import os

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}

from conversation import SHOP
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation import using_attributes
from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
CrewAIInstrumentor().instrument(tracer_provider=provider, use_event_listener=True)
OpenAIInstrumentor().instrument(tracer_provider=provider)

(helper,) = SHOP.agents
for turn in SHOP.turns:
    agent = Agent(
        role=helper.name,
        goal=helper.instructions,
        backstory="Works in a shop.",
        tools=[tool(x.__name__)(x) for x in helper.tools],
        llm=LLM(model="openai/gpt-4o-mini", base_url=os.environ["OPENAI_BASE_URL"], api_key="none"),
    )
    task = Task(description=turn.question, expected_output="An answer.", agent=agent)
    with using_attributes(session_id=turn.session, user_id=turn.user):
        Crew(agents=[agent], tasks=[task]).kickoff()

provider.shutdown()
