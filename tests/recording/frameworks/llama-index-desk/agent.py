"""LlamaIndex's AgentWorkflow: two agents, of which one hands over to the other."""

import asyncio
import os

from conversation import DESK
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAI
from openinference.instrumentation import using_attributes
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

LlamaIndexInstrumentor().instrument(tracer_provider=provider)


def agent(said, hands_over_to):
    return FunctionAgent(
        name=said.name,
        description=said.instructions,
        tools=list(said.tools),
        llm=OpenAI(model="gpt-4o-mini", api_base=os.environ["OPENAI_BASE_URL"]),
        system_prompt=said.instructions,
        can_handoff_to=hands_over_to,
        streaming=False,
    )


desk, clerk = DESK.agents
workflow = AgentWorkflow(agents=[agent(desk, [clerk.name]), agent(clerk, [])], root_agent=desk.name)


async def main():
    for turn in DESK.turns:
        with using_attributes(session_id=turn.session, user_id=turn.user):
            await workflow.run(user_msg=turn.question, ctx=Context(workflow))


asyncio.run(main())
provider.shutdown()
