"""The parcel clerk: an agent of Pydantic AI in a tool of an MCP server."""

from conversation import DESK
from mcp.server.mcpserver import MCPServer
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings

provider = TracerProvider()
# the client ends the server when it is done
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))

_, clerk = DESK.agents
agent = Agent(
    "openai-chat:gpt-4o-mini",
    name=clerk.name,
    system_prompt=clerk.instructions,
    tools=list(clerk.tools),
)
server = MCPServer("clerk")


@server.tool()
async def parcel_clerk(request: str) -> str:
    """Ask the parcel clerk."""
    return (await agent.run(request)).output


server.run("stdio")
