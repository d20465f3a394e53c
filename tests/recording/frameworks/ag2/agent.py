"""AG2: an assistant, and a proxy of the user that runs the tools."""

import os

from autogen import AssistantAgent, UserProxyAgent, register_function
from conversation import SHOP
from openinference.instrumentation import using_attributes
from openinference.instrumentation.ag2 import AG2Instrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
AG2Instrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)

(helper,) = SHOP.agents
model = {"model": "gpt-4o-mini", "api_key": "none", "base_url": os.environ["OPENAI_BASE_URL"]}


def has_answered(message):
    return (
        bool(message.get("content"))
        and not message.get("tool_calls")
        and message.get("role") != "tool"
    )


def pair():
    assistant = AssistantAgent(
        helper.name,
        system_message=helper.instructions,
        llm_config={"config_list": [model], "cache_seed": None},
    )
    user = UserProxyAgent(
        "user",
        human_input_mode="NEVER",
        max_consecutive_auto_reply=6,
        code_execution_config=False,
        is_termination_msg=has_answered,
    )
    for tool in helper.tools:
        register_function(tool, caller=assistant, executor=user, description=tool.__doc__)
    return assistant, user


pairs = {session: pair() for session in dict.fromkeys(turn.session for turn in SHOP.turns)}
for turn in SHOP.turns:
    assistant, user = pairs[turn.session]
    with using_attributes(session_id=turn.session, user_id=turn.user):
        user.initiate_chat(assistant, message=turn.question, clear_history=False, silent=True)

provider.shutdown()
