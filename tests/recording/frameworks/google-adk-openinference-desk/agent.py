"""A front desk of Google's ADK that asks the parcel clerk, an agent as a tool, under
OpenInference.
"""

import asyncio

from conversation import DESK
from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from openinference.instrumentation.google_adk import GoogleADKInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
GoogleADKInstrumentor().instrument(tracer_provider=provider)

front, clerk = (
    {
        "name": x.name,
        "model": "gemini-2.5-flash",
        "instruction": x.instructions,
        "tools": list(x.tools),
    }
    for x in DESK.agents
)
asked = AgentTool(LlmAgent(**clerk, description="Knows where parcels are."))
desk = LlmAgent(**(front | {"tools": [*front["tools"], asked]}))
sessions = InMemorySessionService()
runner = Runner(agent=desk, app_name="shop", session_service=sessions)


async def main():
    for turn in {x.session: x for x in DESK.turns}.values():
        await sessions.create_session(app_name="shop", user_id=turn.user, session_id=turn.session)
    for turn in DESK.turns:
        message = types.Content(role="user", parts=[types.Part(text=turn.question)])
        async for _ in runner.run_async(
            user_id=turn.user, session_id=turn.session, new_message=message
        ):
            pass


asyncio.run(main())
provider.shutdown()
