"""Haystack 2: an Agent with a toolset of functions made inside a function, on OpenAI's
Responses.
"""

import os

from conversation import SHOP, schema
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool, Toolset
from openinference.instrumentation import using_attributes
from openinference.instrumentation.haystack import HaystackInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
HaystackInstrumentor().instrument(tracer_provider=provider)


def made(function):
    def call(**arguments):
        return function(**arguments)

    return Tool(function.__name__, function.__doc__, schema(function), call)


(helper,) = SHOP.agents
agent = Agent(
    chat_generator=OpenAIResponsesChatGenerator(
        model="gpt-4o-mini", api_base_url=os.environ["OPENAI_BASE_URL"]
    ),
    tools=Toolset([made(x) for x in helper.tools]),
    system_prompt=helper.instructions,
)

said = {turn.session: [] for turn in SHOP.turns}
for turn in SHOP.turns:
    with using_attributes(session_id=turn.session, user_id=turn.user):
        answer = agent.run(messages=[*said[turn.session], ChatMessage.from_user(turn.question)])
    said[turn.session] = [x for x in answer["messages"] if not x.is_from("system")]

provider.shutdown()
