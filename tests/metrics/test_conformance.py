"""What holds for every metric there is, whoever wrote it."""

import asyncio
import dataclasses
import doctest
import string
import sys

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from spanscore.metrics import (
    SIGNAL_WEIGHTS,
    Computed,
    Embedded,
    Judged,
    Judgement,
    RubricMetric,
    SessionMetric,
    Signals,
    built_in,
)
from spanscore.metrics._base import OfCalls
from spanscore.metrics.check import Check
from spanscore.metrics.trace.argument_correctness import Verdict
from spanscore.model.score import Score, Skip
from spanscore.model.trace import AgentTrace, Session

ALL = sorted(built_in().items())
OF_TRACES = [(name, x) for name, x in ALL if x.scope == "trace"]
JUDGED = [(name, x) for name, x in ALL if issubclass(x, Judged)]
EMPTY = {"user_input": "", "final_output": "", "tool_calls": (), "available_tools": ()}


class Flat:
    """Embeds every text alike."""

    name = "flat-1"

    async def embed(self, texts):
        return np.ones((len(texts), 1), dtype=np.float32)


def measured(metric, trace, judgement=Judgement(reason="as it is", score=0.5)):  # noqa: B008 - frozen
    """As the engine does it, with a judge that gives `judgement` to whatever asks for one."""
    skip = metric.unmeasurable(trace)
    if skip is not None:
        return skip
    if isinstance(metric, Judged):
        return metric.settle(trace, {}) or metric.settle(trace, answers(metric, trace, judgement))
    if isinstance(metric, Embedded):
        earlier = dataclasses.replace(trace, final_output="Let me look that up for you.")
        return asyncio.run(metric.measure(trace, (earlier,), Flat()))
    assert isinstance(metric, Computed)
    return metric.measure(trace)


def answers(metric, trace, judgement):
    """An answer to each question of a judged metric."""
    calls = len(trace.tool_calls or ())
    given = {
        place: Verdict(call=place + 1, reason="from the input", verdict="yes")
        for place in range(calls)
    }
    verdicts = OfCalls(given, total=calls, sampled=calls)
    known = {
        "task": "to know",
        "outcome": "it is known",
        "plan": ["look", "tell"],
        "verdicts": verdicts,
    }
    return {metric.name: judgement, **known}


every = pytest.mark.parametrize(("name", "metric"), ALL)
every_of_traces = pytest.mark.parametrize(("name", "metric"), OF_TRACES)
every_judged = pytest.mark.parametrize(("name", "metric"), JUDGED)


def test_the_eleven_metrics_are_found():
    assert len(ALL) >= 11


@every
def test_the_class_says_what_it_is(name, metric):
    assert metric.name == name
    assert metric.summary.endswith("?")
    assert metric.better in {"higher", "lower"}
    assert metric.scope in {"trace", "session"}
    assert metric.scale[0] < metric.scale[1]
    assert set(metric.needs) <= set(AgentTrace.__dataclass_fields__)


@every
def test_the_file_bears_the_metrics_name(name, metric):
    folder = "" if issubclass(metric, Check) else f"{metric.scope}."
    of_rubric = issubclass(metric, RubricMetric)
    file = "rubric.built_in" if of_rubric else f"{folder}{name}"
    assert metric.__module__ == f"spanscore.metrics.{file}"


@every
def test_the_class_is_a_frozen_dataclass_with_a_doctest(name, metric):
    assert metric.__dataclass_params__.frozen
    assert (
        doctest.DocTestFinder(recurse=False)
        .find(metric, globs=vars(sys.modules[metric.__module__]))[0]
        .examples
    )


@every
def test_every_option_has_a_default_and_a_meaning(name, metric):
    schema = TypeAdapter(metric).json_schema()
    assert all("default" in x and x.get("description") for x in schema["properties"].values())


@every
def test_an_unknown_option_is_refused(name, metric):
    with pytest.raises(ValidationError):
        TypeAdapter(metric).validate_python({"treshold": 1})


@every_of_traces
def test_a_trace_that_recorded_nothing_is_skipped(name, metric, make_trace):
    nothing = dict.fromkeys(("user_input", "final_output", "available_tools", "tool_calls"))
    assert isinstance(measured(metric(), make_trace(**nothing)), Skip)


@every_of_traces
def test_a_damaged_fact_that_is_needed_is_a_skip(name, metric, make_trace):
    for fact in metric.needs:
        outcome = measured(metric(), make_trace(damaged=(fact,)))
        assert isinstance(outcome, Skip)
        assert fact in outcome.reason


@every_of_traces
def test_where_nothing_happened_a_metric_has_a_score_or_does_not_apply(name, metric, make_trace):
    outcome = measured(metric(), make_trace(**EMPTY))
    assert isinstance(outcome, Score) or outcome.cause == "not_applicable"


@every_of_traces
def test_a_score_lies_on_the_scale_and_says_why(name, metric, make_trace):
    outcome = measured(metric(), make_trace())
    if issubclass(metric, Check) and isinstance(outcome, Skip):
        # nothing failed, was repeated, or is claimed there
        assert outcome.cause == "not_applicable"
        return
    assert isinstance(outcome, Score)
    assert metric.scale[0] <= outcome.value <= metric.scale[1]
    assert isinstance(outcome.value, float)
    assert outcome.reason


@every_of_traces
def test_measuring_twice_gives_the_same(name, metric, make_trace):
    assert measured(metric(), make_trace()) == measured(metric(), make_trace())


@every_of_traces
def test_the_threshold_never_changes_the_score(name, metric, make_trace):
    assert measured(metric(threshold=0.9), make_trace()) == measured(metric(), make_trace())


@every
def test_a_threshold_holds_whatever_the_embedding(name, metric):
    assert metric(threshold=0.7).threshold_for("some-1") == 0.7


@every_judged
def test_questions_quote_only_what_is_there(name, metric, make_trace):
    quotes = set(metric().quotes(make_trace(), {}))
    for question in (x for stage in metric.stages for x in stage):
        listed = {"calls"} if question.of_calls else set()
        assert set(string.Template(question.text).get_identifiers()) <= quotes | listed | set(
            question.needs
        )


@every_judged
def test_what_a_question_needs_is_asked_in_an_earlier_stage(name, metric):
    known: set[str] = set()
    for stage in metric.stages:
        assert all(known >= set(x.needs) for x in stage)
        known |= {x.key for x in stage}


# which rests on a test's case
OF_SIGNALS = [(n, x) for n, x in ALL if issubclass(x, SessionMetric) and n != "agentic"]


@pytest.mark.parametrize(("name", "metric"), OF_SIGNALS)
def test_a_session_without_signals_is_skipped(name, metric):
    outcome = metric().measure(Session("s", ()), Signals(), SIGNAL_WEIGHTS)
    assert (type(outcome), outcome.cause) == (Skip, "no_signals")
