"""The parcel clerk: an agent of LangGraph that an A2A server runs, on the port it is told."""

import sys

import uvicorn
from a2a.helpers.proto_helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface
from conversation import DESK
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from starlette.applications import Starlette

provider = TracerProvider()
# uvicorn ends the process when it is terminated
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
LangChainInstrumentor().instrument(tracer_provider=provider)

port = int(sys.argv[1])
_, clerk = DESK.agents
agent = create_agent(
    ChatOpenAI(model="gpt-4o-mini"),
    tools=list(clerk.tools),
    system_prompt=clerk.instructions,
    name=clerk.name,
)


class Clerk(AgentExecutor):
    """Runs the agent for each message."""

    async def execute(self, context, event_queue):
        said = {"messages": [{"role": "user", "content": context.get_user_input()}]}
        answer = (await agent.ainvoke(said))["messages"][-1].content
        await event_queue.enqueue_event(new_text_message(answer, context_id=context.context_id))

    async def cancel(self, context, event_queue):
        raise NotImplementedError


card = AgentCard(
    name=clerk.name,
    description="Knows where parcels are.",
    version="1",
    capabilities=AgentCapabilities(streaming=False),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    supported_interfaces=[
        AgentInterface(
            url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0"
        )
    ],
)
handler = DefaultRequestHandler(
    agent_executor=Clerk(), task_store=InMemoryTaskStore(), agent_card=card
)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
