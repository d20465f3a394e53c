"""An agent of Google's ADK, one tool of which a person confirms: the run halts at the call, the
next one goes on.
"""

import asyncio

from conversation import SHOP
from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool
from google.genai import types
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

(helper,) = SHOP.agents
agent = LlmAgent(
    name=helper.name,
    model="gemini-2.5-flash",
    instruction=helper.instructions,
    tools=[FunctionTool(x, require_confirmation=x.__name__ == "reserve") for x in helper.tools],
)
sessions = InMemorySessionService()
runner = Runner(agent=agent, app_name="shop", session_service=sessions)
ASKED = "adk_request_confirmation"


async def answered(turn, part):
    """What is asked of the user meanwhile, each with a yes."""
    message = types.Content(role="user", parts=[part])
    asked = []
    async for event in runner.run_async(
        user_id=turn.user, session_id=turn.session, new_message=message
    ):
        asked += [x for x in event.get_function_calls() if x.name == ASKED]
    return [
        types.FunctionResponse(id=x.id, name=ASKED, response={"confirmed": True}) for x in asked
    ]


async def main():
    for turn in {x.session: x for x in SHOP.turns}.values():
        await sessions.create_session(app_name="shop", user_id=turn.user, session_id=turn.session)
    for turn in SHOP.turns:
        pending = await answered(turn, types.Part(text=turn.question))
        while pending:
            pending = await answered(turn, types.Part(function_response=pending[0]))


asyncio.run(main())
provider.shutdown()
