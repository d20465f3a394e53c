"""A front desk that transfers to its sub-agent, the parcel clerk."""

import asyncio

from conversation import DESK
from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

front, clerk = DESK.agents


async def main():
    for session, turns in {
        x.session: [y for y in DESK.turns if y.session == x.session] for x in DESK.turns
    }.items():
        sessions = InMemorySessionService()
        for turn in turns:
            # the desk anew for each question: else who was transferred to answers the next one
            desk = LlmAgent(
                name=front.name,
                model="gemini-2.5-flash",
                instruction=front.instructions,
                tools=list(front.tools),
                sub_agents=[
                    LlmAgent(
                        name=clerk.name,
                        model="gemini-2.5-flash",
                        instruction=clerk.instructions,
                        description="Knows where parcels are.",
                        tools=list(clerk.tools),
                        disallow_transfer_to_parent=True,
                    )
                ],
            )
            runner = Runner(agent=desk, app_name="shop", session_service=sessions)
            if turn is turns[0]:
                await sessions.create_session(
                    app_name="shop", user_id=turn.user, session_id=session
                )
            message = types.Content(role="user", parts=[types.Part(text=turn.question)])
            async for _ in runner.run_async(
                user_id=turn.user, session_id=session, new_message=message
            ):
                pass


asyncio.run(main())
provider.shutdown()
