"""A project as a user's: an agent that emits GenAI spans, and a judge that answers whatever it is
asked.
"""

import pytest

from spanscore.sdk.pytest_plugin import items, results

IMPORTED = items, results, items
"""What runs of pytest within a test's process find imported: pytest takes back what they import
themselves.
"""

AGENT = """
import json

from opentelemetry import trace

tracer = trace.get_tracer("an.agent")


def said(role, text):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def agent(question, answer="You get your money back.", tools=("find_order", "refund")):
    with tracer.start_as_current_span("invoke_agent shop") as span:
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
        span.set_attribute("gen_ai.input.messages", said("user", question))
        for name in tools:
            with tracer.start_as_current_span(f"execute_tool {name}") as tool:
                tool.set_attribute("gen_ai.operation.name", "execute_tool")
                tool.set_attribute("gen_ai.tool.name", name)
                tool.set_attribute("gen_ai.tool.call.arguments", json.dumps({"order": 7}))
                tool.set_attribute("gen_ai.tool.call.result", json.dumps({"ok": True}))
        span.set_attribute("gen_ai.output.messages", said("assistant", answer))
    return answer
"""

JUDGE = '''
from spanscore.judge import Answer
from spanscore.model.score import JudgeUsage


class Obliging:
    """Answers by the schema; `score` and `passed` are what it gives wherever these are asked \
for."""

    def __init__(self, score=0.8, passed=True):
        self.score = score
        self.passed = passed
        self.asked = 0

    async def ask(self, prompt, schema, *, models=()):
        self.asked += 1
        shape = schema.model_json_schema()
        value = self.value("", shape, shape.get("$defs", {}))
        return Answer(schema.model_validate(value), "a-model", JudgeUsage(calls=1))

    def value(self, name, shape, known):
        if "$ref" in shape:
            return self.value(name, known[shape["$ref"].rpartition("/")[2]], known)
        if "anyOf" in shape:
            return self.value(name, next(x for x in shape["anyOf"] if x.get("type") != "null"), \
known)
        if "enum" in shape:
            return shape["enum"][0]
        if name == "score" and shape["type"] == "number":
            return self.score
        if shape["type"] == "boolean":
            return self.passed
        if shape["type"] == "array":
            return [self.value("", shape["items"], known) for _ in range(shape.get("minItems", 0))]
        made = \
{"string": f"{name}: write to anna@example.com", "integer": shape.get("minimum", 0), "number": 0.5}
        if shape["type"] == "object":
            return \
{key: self.value(key, inner, known) for key, inner in shape["properties"].items()}
        return made[shape["type"]]
'''

WITH_JUDGE = """
import pytest
from judge import Obliging


@pytest.fixture(scope="session")
def spanscore_judge():
    return Obliging()
"""


@pytest.fixture
def project(pytester):
    """A folder with `agent.py` and `judge.py`; nothing of this project's own configuration reaches
    it.
    """
    pytester.makepyfile(agent=AGENT, judge=JUDGE)
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider")
    return pytester


@pytest.fixture
def judged(project):
    """The same, where a judge is set up."""
    project.makeconftest(WITH_JUDGE)
    return project
