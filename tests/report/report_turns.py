"""Turns and scores of made-up agents, and a report's data as a browser reads them."""

import base64
import json
import re
import zlib
from dataclasses import replace

from spanscore.model.score import Evaluation, Evaluator, Failure, Score
from spanscore.model.trace import AgentTrace, ModelCall, RequestedCall, Target, ToolCall

_S = 10**9


def agent_trace(number=1, *, calls=None, session_id=None, **facts):
    """A turn that asks a model, then tools, then the model again."""
    trace_id, root = f"{number:032x}", f"{number:016x}"
    start = 1_700_000_000 * _S + number * 60 * _S
    if calls is None:
        calls = (
            ToolCall(
                "c1",
                "weather",
                {"city": "Oslo"},
                "7C, rain",
                started_ns=start + _S,
                ended_ns=start + 2 * _S,
            ),
        )
    asked = tuple(RequestedCall(x.call_id, x.name, x.arguments) for x in calls)
    models = (
        ModelCall("m1", "gpt-x", tool_calls=asked, started_ns=start, ended_ns=start + _S),
        ModelCall(
            "m2", "gpt-x", "It is 7C in Oslo.", started_ns=start + 2 * _S, ended_ns=start + 3 * _S
        ),
    )
    made = AgentTrace(
        trace_ids=(trace_id,),
        root_span_id=root,
        target=Target(trace_id, root, start, start + 3 * _S),
        opening_span_id=root,
        started_ns=start,
        ended_ns=start + 3 * _S,
        session_id=session_id,
        agent_name="forecaster",
        user_input=f"How warm is it in Oslo, question {number}?",
        final_output="It is 7C in Oslo.",
        tool_calls=calls,
        model_calls=models,
    )
    return replace(made, **facts)


def evaluation(trace, metric="task_completion", value=1.0, reason="It is as asked.", **facts):
    """A score of a turn by a judge."""
    outcome = facts.pop("outcome", Score(value, reason, facts.pop("metadata", {})))
    made = Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric=metric,
        outcome=outcome,
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("LLM", metric, "1", model="judge-1"),
        target=trace.target,
        session_id=trace.session_id,
    )
    return replace(made, **facts)


def failure(trace, metric="task_completion"):
    """A score that could not be measured."""
    return evaluation(trace, metric, outcome=Failure("TimeoutError", "the judge gave no answer"))


class Opened:
    """A report's data, as a browser reads them."""

    def __init__(self, content):
        self.html = content.decode()
        self.index = self._block("index")

    def detail(self, row):
        number, place = row["at"]
        return self._block(f"chunk-{number}")[place]

    def turn(self, trace):
        return self.detail(next(x for x in self.index["turns"] if x["id"] == trace.id))

    def _block(self, name):
        packed = re.search(
            rf'<script type="text/plain" id="{name}">([A-Za-z0-9+/=]*)</script>', self.html
        )[1]
        return json.loads(zlib.decompress(base64.b64decode(packed), 31))
