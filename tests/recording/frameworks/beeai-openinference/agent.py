"""A RequirementAgent of BeeAI with a memory a session, under OpenInference's instrumentation."""

import asyncio
import os

from beeai_framework.adapters.openai import OpenAIChatModel
from beeai_framework.agents.requirement import RequirementAgent
from beeai_framework.tools import tool
from conversation import SHOP
from openinference.instrumentation import using_attributes
from openinference.instrumentation.beeai import BeeAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
BeeAIInstrumentor().instrument(tracer_provider=provider)

(helper,) = SHOP.agents
llm = OpenAIChatModel(
    "gpt-4o-mini",
    base_url=os.environ["OPENAI_BASE_URL"],
    tool_choice_support={"none", "single", "auto", "required"},
    allow_parallel_tool_calls=True,
)
tools = [tool(x) for x in helper.tools]


def made():
    return RequirementAgent(
        llm=llm,
        tools=tools,
        name=helper.name,
        instructions=helper.instructions,
        tool_call_checker=False,  # it would not run the same call twice
    )


async def main():
    agents = {turn.session: made() for turn in SHOP.turns}
    for turn in SHOP.turns:
        with using_attributes(session_id=turn.session, user_id=turn.user):
            await agents[turn.session].run(turn.question)


asyncio.run(main())
provider.shutdown()
