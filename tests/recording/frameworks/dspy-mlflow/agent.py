"""A ReAct program of DSPy under MLflow's autologging, which exports by OTLP when it is given an
endpoint.
"""

import dspy
import mlflow
from conversation import SHOP

mlflow.dspy.autolog()

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
    answer = agent(question=turn.question, history=dspy.History(messages=list(history))).answer
    history.append({"question": turn.question, "answer": answer})

mlflow.flush_trace_async_logging()
