"""A LangChain agent whose checkpointer keeps the conversation."""

from conversation import SHOP
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from openinference.instrumentation import using_attributes
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)

(helper,) = SHOP.agents
agent = create_agent(
    ChatOpenAI(model="gpt-4o-mini"),
    tools=list(helper.tools),
    system_prompt=helper.instructions,
    checkpointer=InMemorySaver(),
    name=helper.name,
)

for turn in SHOP.turns:
    with using_attributes(session_id=turn.session, user_id=turn.user):
        agent.invoke(
            {"messages": [{"role": "user", "content": turn.question}]},
            {"configurable": {"thread_id": turn.session}},
        )

provider.shutdown()
