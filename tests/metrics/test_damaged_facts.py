"""A metric that rests on what arrived cut or redacted is skipped, and no number is made up."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from spanscore.metrics import Computed, Embedded, Judged, available
from spanscore.model.score import Score, Skip
from spanscore.model.trace import ModelCall, PastMessage, RequestedCall, Tool, ToolCall

METRICS = sorted(available().items())
LOOKED_AT = [
    (name, fact) for name, x in METRICS if x.scope == "trace" for fact in (*x.needs, *x.weighs)
]
CALL, FAILED = (
    ToolCall("c1", "get_weather", {"city": "Oslo"}, 7),
    ToolCall("c2", "get_weather", {}, None, "503"),
)
OTHER = {
    "user_input": ["Count the sheep in barn 77.", ""],
    "final_output": ["Perhaps I cannot, sorry. I think it is 4711?", ""],
    "system_instructions": ["Speak of Oslo and of barn 77."],
    "history": [(PastMessage("user", "Oslo"),)],
    "plan": ["1. Count the sheep\n2. Shear them", None],
    "available_tools": [(Tool("shear_sheep", "Shears sheep", {"required": ["sheep"]}),), None],
    "tool_calls": [
        (),
        (CALL, CALL),
        (FAILED, FAILED),
        (FAILED, ToolCall("c3", "shear_sheep", {}, "")),
    ],
    "model_calls": [
        (
            ModelCall(
                "s",
                None,
                "Actually, let me try another: I will count them, then I will shear them.",
            ),
        )
        * 2,
        (
            ModelCall(
                "s", None, None, None, (RequestedCall("c1", "get_weather", {"city": "Oslo"}),)
            ),
        ),
    ],
}
"""What else a fact might be, by which a score may change that rests on it."""


class Lengths:
    """Embeds texts by how long they are."""

    name = "lengths-1"

    async def embed(self, texts):
        return np.array([[1.0, len(x)] for x in texts], dtype=np.float32)


def measured(metric, trace):
    """The score by numbers alone, or what a judged metric settles without an answer; None where
    there is none.
    """
    if skip := metric.unmeasurable(trace):
        outcome = skip
    elif isinstance(metric, Judged):
        outcome = metric.settle(trace, {})
    elif isinstance(metric, Embedded):
        outcome = asyncio.run(metric.measure(trace, (), Lengths()))
    else:
        outcome = metric.measure(trace)
    return outcome.value if isinstance(outcome, Score) else None


@pytest.mark.parametrize(("name", "fact"), LOOKED_AT)
def test_a_metric_that_looks_at_a_damaged_fact_is_skipped(name, fact, make_trace):
    skip = available()[name]().unmeasurable(make_trace(plan="1. look", damaged=(fact,)))
    assert isinstance(skip, Skip)
    assert fact in skip.reason


@pytest.mark.parametrize("fact", OTHER)
@pytest.mark.parametrize(
    "metric",
    [x() for _, x in METRICS if issubclass(x, Computed | Embedded | Judged)],
    ids=lambda x: x.name,
)
def test_no_score_changes_with_what_a_damaged_fact_was(metric, fact, make_trace):
    trace = make_trace(
        damaged=(fact,),
        history=(PastMessage("user", "Hello."),),
        plan="1. Look up the weather in Rome",
        model_calls=(ModelCall("s", None, "I will look it up."),),
    )
    assert {measured(metric, replace(trace, **{fact: x})) for x in OTHER[fact]} == {
        measured(metric, trace)
    }
