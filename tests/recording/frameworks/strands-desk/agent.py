"""A front desk that asks a parcel clerk, an agent given to it as a tool."""

import os

from conversation import DESK
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from strands import Agent, ToolContext, tool
from strands.models.openai import OpenAIModel

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

front, clerk = DESK.agents


def made(agent, turn, *more, messages=()):
    return Agent(
        name=agent.name,
        model=OpenAIModel(
            client_args={"base_url": os.environ["OPENAI_BASE_URL"], "api_key": "none"},
            model_id="gpt-4o-mini",
        ),
        system_prompt=agent.instructions,
        tools=[*(tool(x) for x in agent.tools), *more],
        messages=list(messages),
        trace_attributes={"session.id": turn.session, "user.id": turn.user},
        callback_handler=None,
    )


@tool(context=True)
def parcel_clerk(request: str, tool_context: ToolContext) -> str:
    """Ask the parcel clerk."""
    return str(made(clerk, tool_context.invocation_state["turn"])(request)).strip()


said = []
for turn in DESK.turns:
    desk = made(front, turn, parcel_clerk, messages=said)
    desk(turn.question, invocation_state={"turn": turn})
    said = desk.messages

provider.shutdown()
