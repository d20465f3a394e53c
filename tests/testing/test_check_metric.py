"""What `check_metric` accepts, and what it finds wrong."""

import random
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from pydantic import ConfigDict

import spanscore
from spanscore import testing
from spanscore.metrics import Computed, Judged, Judgement, Question, built_in
from spanscore.metrics.session.agentic import Agentic
from spanscore.model.score import Score

MEASURABLE = [
    x for x in built_in().values() if not x.name.startswith("rubric.") and x is not Agentic
]


@pytest.mark.slow
@pytest.mark.parametrize("metric", MEASURABLE, ids=lambda x: x.name)
def test_the_projects_own_metrics_pass(metric):
    testing.check_metric(metric)


def test_a_function_that_takes_every_trace_passes(order):
    @spanscore.metric(needs="final_output")
    def short(trace, *, limit: int = 100):
        """Is the answer short?"""
        return len(trace.final_output) <= limit

    found = testing.check_metric(short, order)
    assert found["the trace 1 that was given"].value == 1.0
    assert found["a turn that was cut off"].status == "skipped"


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"scale": (1, 5)}, {"scale": "yes/no"}, {"scope": "session"}]
)
def test_a_criterion_passes(settings):
    testing.check_metric(
        spanscore.criterion("kind", "Is it kind?", not_applicable="nobody spoke", **settings)
    )


def test_a_function_of_sessions_passes():
    @spanscore.metric
    def brief(session):
        """Are there few turns?"""
        return len(session.traces) < 20

    assert "a session of many turns" in testing.check_metric(brief)


def broken(trace):
    """Is it short?"""
    return len(trace.final_output) < 100


def by_chance(trace):
    """Is it by chance?"""
    return random.random()


def changing(trace):
    """Does it change something?"""
    for call in trace.tool_calls or ():
        if isinstance(call.arguments, dict):
            call.arguments["seen"] = True
    return True


def off_the_scale(trace):
    """How long is it?"""
    return len(trace.final_output or "")


def without_reason(trace):
    """Is it so?"""
    return spanscore.Score(1.0, " ")


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (
            broken,
            r"a turn of which nothing was recorded: it fails: TypeError: .*`needs` names facts",
        ),
        (by_chance, "measured twice, it gives another outcome"),
        (changing, "a turn with a tool call: it changes what it measures"),
        (off_the_scale, "it fails: InvalidScoreError"),
        (without_reason, "it gives a Score without a reason"),
    ],
)
def test_what_is_wrong_is_told(function, what):
    with pytest.raises(AssertionError, match=what):
        testing.check_metric(spanscore.metric(function))


@dataclass(frozen=True)
class Loose(Computed):
    """Takes any option."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict()
    name: ClassVar[str] = "loose"
    summary: ClassVar[str] = "Is it loose?"
    needs: ClassVar[tuple[str, ...]] = ("answer",)
    threshold: float = field(default=7.0)

    def unmeasurable(self, trace):
        return None

    def measure(self, trace):
        return Score(1.0, "so")


@dataclass(frozen=True)
class Astray(Judged):
    """Quotes what nothing gives."""

    name: ClassVar[str] = "astray"
    summary: ClassVar[str] = "Is it astray?"
    stages: ClassVar = ((Question("astray", "Is $this so, for 5 $?", Judgement, needs=("task",)),),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "what"),
    [
        (Loose, "it needs answer, which no trace has"),
        (Loose, "its threshold 7 is not on its scale, 0 to 1"),
        (Loose, "it takes any option"),
        (Astray, "question 'astray' needs task, which no earlier stage asks"),
        (Astray, r"question 'astray' has a lone \$ in its text"),
    ],
)
def test_a_class_is_looked_at_too(metric, what):
    with pytest.raises(AssertionError, match=what):
        testing.check_metric(metric)


def test_what_is_no_metric_is_refused():
    with pytest.raises(spanscore.errors.InputError, match="decorate the function"):
        testing.check_metric(lambda trace: True)
