"""A supervisor that sends what concerns parcels to a clerk, and answers itself."""

from conversation import DESK
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_supervisor import create_supervisor
from openinference.instrumentation import using_attributes
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)

front, clerk = DESK.agents
model = ChatOpenAI(model="gpt-4o-mini")
parcel_clerk = create_agent(
    model, list(clerk.tools), system_prompt=clerk.instructions, name=clerk.name
)
desk = create_supervisor(
    [parcel_clerk],
    model=model,
    tools=list(front.tools),
    prompt=front.instructions,
    supervisor_name=front.name,
).compile(checkpointer=InMemorySaver(), name=front.name)

for turn in DESK.turns:
    with using_attributes(session_id=turn.session, user_id=turn.user):
        desk.invoke(
            {"messages": [{"role": "user", "content": turn.question}]},
            {"configurable": {"thread_id": turn.session}},
        )

provider.shutdown()
