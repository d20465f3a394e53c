"""An agent of Google's ADK under OpenInference's instrumentation."""

import asyncio

from conversation import SHOP
from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from openinference.instrumentation.google_adk import GoogleADKInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
GoogleADKInstrumentor().instrument(tracer_provider=provider)

(helper,) = SHOP.agents
agent = LlmAgent(
    name=helper.name,
    model="gemini-2.5-flash",
    instruction=helper.instructions,
    tools=list(helper.tools),
)
sessions = InMemorySessionService()
runner = Runner(agent=agent, app_name="shop", session_service=sessions)


async def main():
    for turn in {x.session: x for x in SHOP.turns}.values():
        await sessions.create_session(app_name="shop", user_id=turn.user, session_id=turn.session)
    for turn in SHOP.turns:
        message = types.Content(role="user", parts=[types.Part(text=turn.question)])
        async for _ in runner.run_async(
            user_id=turn.user, session_id=turn.session, new_message=message
        ):
            pass


asyncio.run(main())
provider.shutdown()
