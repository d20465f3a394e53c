"""A ReAct program of DSPy, whose signature has a field for the conversation so far."""

import dspy
from conversation import SHOP
from openinference.instrumentation import using_attributes
from openinference.instrumentation.dspy import DSPyInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
DSPyInstrumentor().instrument(tracer_provider=provider)

(helper,) = SHOP.agents


class Help(dspy.Signature):
    question: str = dspy.InputField()
    history: dspy.History = dspy.InputField()
    answer: str = dspy.OutputField()


dspy.configure(lm=dspy.LM("openai/gpt-4o-mini", cache=False))
agent = dspy.ReAct(Help.with_instructions(helper.instructions), tools=list(helper.tools))
said = {turn.session: [] for turn in SHOP.turns}

for turn in SHOP.turns:
    history = said[turn.session]
    with using_attributes(session_id=turn.session, user_id=turn.user):
        answer = agent(question=turn.question, history=dspy.History(messages=list(history))).answer
    history.append({"question": turn.question, "answer": answer})

provider.shutdown()
